"""Protobuf messages as dictionaries: `{"name": value}` to octets and back, by a schema.

Decoding fills in every field: absent ones are `None` if they can be absent (messages, `optional`, members of a oneof),
else 0, "", b"", False, [] or {}. Enumerations are names; numbers without a name stay numbers.
"""

from __future__ import annotations

import struct
from typing import Any, Mapping

from .errors import XrlError
from .schema import (
    BOOL, BYTES, DOUBLE, ENUM, FIXED32, FIXED64, FLOAT, INT32, INT64, MESSAGE, SFIXED32, SFIXED64, SINT32, SINT64,
    STRING, UINT32, UINT64, Field, Message, Schema,
)

_FIXED = {
    DOUBLE: struct.Struct("<d"), FLOAT: struct.Struct("<f"), FIXED64: struct.Struct("<Q"),
    FIXED32: struct.Struct("<I"), SFIXED32: struct.Struct("<i"), SFIXED64: struct.Struct("<q"),
}
_RANGES = {
    INT32: (-(1 << 31), (1 << 31) - 1), SINT32: (-(1 << 31), (1 << 31) - 1), SFIXED32: (-(1 << 31), (1 << 31) - 1),
    UINT32: (0, (1 << 32) - 1), FIXED32: (0, (1 << 32) - 1), INT64: (-(1 << 63), (1 << 63) - 1),
    SINT64: (-(1 << 63), (1 << 63) - 1), SFIXED64: (-(1 << 63), (1 << 63) - 1), UINT64: (0, (1 << 64) - 1),
    FIXED64: (0, (1 << 64) - 1), ENUM: (-(1 << 31), (1 << 31) - 1),
}
_MAX_DEPTH = 64


def _bad(what: str) -> XrlError:
    return XrlError("BadArguments", what)


def _put_varint(out: bytearray, value: int) -> None:
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if at >= len(data):
            raise _bad("truncated message")
        octet = data[at]
        at += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
    raise _bad("a number of more than 64 bits")


def _wire_type(kind: int) -> int:
    if kind in (STRING, BYTES, MESSAGE):
        return 2
    if kind in _FIXED:
        return 1 if kind in (DOUBLE, FIXED64, SFIXED64) else 5
    return 0


def encode(schema: Schema, type_name: str, value: Mapping[str, Any]) -> bytes:
    """The octets of a message. XrlError for unknown fields, wrong types and numbers out of range."""
    message = schema.messages[type_name]
    out = bytearray()
    for name in value:
        if name not in message.by_name:
            known = ", ".join(message.by_name) or "none"
            raise _bad(f"no argument `{name}`; there is {known}")
    for field in message.fields:
        given = value.get(field.name)
        if given is not None:
            _put_field(schema, out, field, given)
    return bytes(out)


def _put_field(schema: Schema, out: bytearray, field: Field, value: Any) -> None:
    if field.repeated:
        nested = schema.messages.get(field.type_name)
        if nested is not None and nested.is_map_entry and isinstance(value, Mapping):
            value = [{"key": k, "value": v} for k, v in value.items()]
        if not isinstance(value, (list, tuple)):
            raise _bad(f"{field.name}: a list is needed")
        if field.kind in (STRING, BYTES, MESSAGE):
            for element in value:
                _put_varint(out, field.number << 3 | 2)
                _put_value(schema, out, field, element)
        elif value:
            packed = bytearray()
            for element in value:
                _put_value(schema, packed, field, element)
            _put_varint(out, field.number << 3 | 2)
            _put_varint(out, len(packed))
            out += packed
        return
    body = bytearray()
    _put_value(schema, body, field, value)
    present = field.optional or field.oneof is not None or field.kind == MESSAGE
    if present or any(body):
        _put_varint(out, field.number << 3 | _wire_type(field.kind))
        out += body


def _put_value(schema: Schema, out: bytearray, field: Field, value: Any) -> None:
    kind = field.kind
    if kind in (STRING, BYTES, MESSAGE):
        if kind == STRING and isinstance(value, str):
            octets = value.encode()
        elif kind == BYTES and isinstance(value, (bytes, bytearray, memoryview)):
            octets = bytes(value)
        elif kind == MESSAGE and isinstance(value, Mapping):
            octets = encode(schema, field.type_name, value)
        else:
            raise _bad(f"{field.name}: wrong type {type(value).__name__}")
        _put_varint(out, len(octets))
        out += octets
        return
    if kind in (DOUBLE, FLOAT):
        if not isinstance(value, (int, float)):
            raise _bad(f"{field.name}: wrong type {type(value).__name__}")
        out += _FIXED[kind].pack(value)
        return
    if kind == BOOL:
        if not isinstance(value, bool):
            raise _bad(f"{field.name}: wrong type {type(value).__name__}")
        out.append(value)
        return
    if kind == ENUM and isinstance(value, str):
        numbers = schema.enums[field.type_name].numbers
        if value not in numbers:
            raise _bad(f"{field.name}: no `{value}`; there is {', '.join(numbers)}")
        value = numbers[value]
    if not isinstance(value, int) or isinstance(value, bool):
        raise _bad(f"{field.name}: wrong type {type(value).__name__}")
    low, high = _RANGES[kind]
    if not low <= value <= high:
        raise _bad(f"{field.name}: {value} is out of range")
    if kind in _FIXED:
        out += _FIXED[kind].pack(value)
    elif kind in (SINT32, SINT64):
        _put_varint(out, value << 1 ^ value >> 63)
    else:
        _put_varint(out, value)


def default(schema: Schema, field: Field) -> Any:
    """What an absent field decodes to."""
    if field.repeated:
        nested = schema.messages.get(field.type_name)
        return {} if nested is not None and nested.is_map_entry else []
    if field.optional or field.oneof is not None or field.kind == MESSAGE:
        return None
    if field.kind == ENUM:
        enum = schema.enums.get(field.type_name)
        return enum.names.get(0, 0) if enum else 0
    return {STRING: "", BYTES: b"", BOOL: False, DOUBLE: 0.0, FLOAT: 0.0}.get(field.kind, 0)


def decode(schema: Schema, type_name: str, data: bytes, depth: int = 0) -> dict[str, Any]:
    """The message as a dictionary. Unknown fields are passed over; XrlError for what is no message."""
    if depth > _MAX_DEPTH:
        raise _bad("messages nested too deeply")
    message = schema.messages[type_name]
    value = {f.name: default(schema, f) for f in message.fields}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        raw, at = _take(data, at, wire)
        field = message.by_number.get(number)
        if field is not None:
            _set_field(schema, message, value, field, wire, raw, depth)
    return value


def _take(data: bytes, at: int, wire: int) -> tuple[Any, int]:
    if wire == 0:
        return _varint(data, at)
    if wire == 2:
        size, at = _varint(data, at)
    elif wire in (1, 5):
        size = 8 if wire == 1 else 4
    else:
        raise _bad(f"wire type {wire}")
    if size > len(data) - at:
        raise _bad("truncated message")
    return data[at : at + size], at + size


def _set_field(
    schema: Schema, message: Message, value: dict[str, Any], field: Field, wire: int, raw: Any, depth: int
) -> None:
    expected = _wire_type(field.kind)
    if field.repeated and wire == 2 and expected != 2:
        at = 0
        while at < len(raw):
            element, at = _take(raw, at, expected)
            value[field.name].append(_value(schema, field, element, depth))
        return
    if wire != expected:
        raise _bad(f"{field.name}: wire type {wire}")
    decoded = _value(schema, field, raw, depth)
    if field.repeated and isinstance(value[field.name], dict):
        key, entry = decoded["key"], decoded["value"]
        value[field.name][key] = entry
    elif field.repeated:
        value[field.name].append(decoded)
    else:
        if field.oneof is not None:
            for other in message.fields:
                if other.oneof == field.oneof:
                    value[other.name] = None
        value[field.name] = decoded


def _value(schema: Schema, field: Field, raw: Any, depth: int) -> Any:
    kind = field.kind
    if kind == MESSAGE:
        return decode(schema, field.type_name, raw, depth + 1)
    if kind == STRING:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise _bad(f"{field.name}: no UTF-8") from None
    if kind == BYTES:
        return bytes(raw)
    if kind in _FIXED:
        return _FIXED[kind].unpack(raw)[0]
    if kind == BOOL:
        return raw != 0
    if kind == UINT64:
        return raw
    if kind == UINT32:
        return raw & 0xFFFF_FFFF
    if kind in (SINT32, SINT64):
        return raw >> 1 ^ -(raw & 1)
    if kind == INT64:
        return raw - (1 << 64) if raw >> 63 else raw
    low = raw & 0xFFFF_FFFF
    signed = low - (1 << 32) if low >> 31 else low
    if kind == ENUM and field.type_name in schema.enums:
        return schema.enums[field.type_name].names.get(signed, signed)
    return signed
