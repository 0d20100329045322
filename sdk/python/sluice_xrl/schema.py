"""What interfaces look like at run time: messages, enumerations and services, and how they are described."""

from __future__ import annotations

from dataclasses import dataclass, field as _field
from typing import Any, Iterable

# FieldDescriptorProto.Type
DOUBLE, FLOAT, INT64, UINT64, INT32, FIXED64, FIXED32, BOOL, STRING, GROUP, MESSAGE, BYTES, UINT32, ENUM = range(1, 15)
SFIXED32, SFIXED64, SINT32, SINT64 = range(15, 19)
SCALARS = {
    "double": DOUBLE, "float": FLOAT, "int64": INT64, "uint64": UINT64, "int32": INT32, "fixed64": FIXED64,
    "fixed32": FIXED32, "bool": BOOL, "string": STRING, "bytes": BYTES, "uint32": UINT32, "sfixed32": SFIXED32,
    "sfixed64": SFIXED64, "sint32": SINT32, "sint64": SINT64,
}

# MethodOptions.IdempotencyLevel
IDEMPOTENCY_LEVELS = {"IDEMPOTENCY_UNKNOWN": 0, "NO_SIDE_EFFECTS": 1, "IDEMPOTENT": 2}


@dataclass
class Field:
    """A field of a message. `type_name` is the full name of its message or enumeration."""

    name: str
    number: int
    kind: int
    type_name: str = ""
    repeated: bool = False
    optional: bool = False
    oneof: str | None = None


@dataclass
class Message:
    """A message type."""

    name: str
    fields: list[Field] = _field(default_factory=list)
    is_map_entry: bool = False

    def __post_init__(self) -> None:
        self.by_name: dict[str, Field] = {f.name: f for f in self.fields}
        self.by_number: dict[int, Field] = {f.number: f for f in self.fields}

    def add(self, field: Field) -> None:
        """Adds a field."""
        self.fields.append(field)
        self.__post_init__()


@dataclass
class Enum:
    """An enumeration."""

    name: str
    numbers: dict[str, int]

    def __post_init__(self) -> None:
        self.names: dict[int, str] = {}
        for name, number in self.numbers.items():
            self.names.setdefault(number, name)


@dataclass
class Method:
    """A method of a service: the full names of its messages."""

    name: str
    input: str
    output: str
    reads: bool = False
    """True for `option idempotency_level = NO_SIDE_EFFECTS`: the method only reads, and every role may call it."""


@dataclass
class Service:
    """An interface."""

    name: str
    methods: dict[str, Method]


class Schema:
    """Types by their full names, as `rib.v1.Route`, and the files that describe them."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self.enums: dict[str, Enum] = {}
        self.services: dict[str, Service] = {}
        self.files: list[dict[str, Any]] = []

    @staticmethod
    def from_descriptors(data: bytes) -> "Schema":
        """The schema that a FileDescriptorSet describes."""
        from .codec import decode

        schema = Schema()
        for file in decode(DESCRIPTORS, "FileDescriptorSet", data)["file"]:
            schema.add_file(file)
        return schema

    def descriptors(self) -> bytes:
        """The FileDescriptorSet that describes this schema."""
        from .codec import encode

        return encode(DESCRIPTORS, "FileDescriptorSet", {"file": self.files})

    def with_files_of(self, other: "Schema") -> "Schema":
        """This and what another one has besides."""
        both = Schema()
        names = {file["name"] for file in self.files}
        for file in [*self.files, *(f for f in other.files if f["name"] not in names)]:
            both.add_file(file)
        return both

    def add_file(self, file: dict[str, Any]) -> None:
        """Adds what a FileDescriptorProto describes."""
        self.files.append(file)
        package = file["package"]
        self._add_types(package, file["message_type"], file["enum_type"])
        for service in file["service"]:
            name = _join(package, service["name"])
            methods = (
                Method(m["name"], m["input_type"].lstrip("."), m["output_type"].lstrip("."), _reads(m))
                for m in service["method"]
            )
            self.services[name] = Service(name, {m.name: m for m in methods})

    def _add_types(self, scope: str, messages: Iterable[dict[str, Any]], enums: Iterable[dict[str, Any]]) -> None:
        for enum in enums:
            name = _join(scope, enum["name"])
            self.enums[name] = Enum(name, {v["name"]: v["number"] for v in enum["value"]})
        for message in messages:
            name = _join(scope, message["name"])
            oneofs = [o["name"] for o in message["oneof_decl"]]
            fields = [_field_of(f, oneofs) for f in message["field"]]
            options = message["options"] or {}
            self.messages[name] = Message(name, fields, bool(options.get("map_entry")))
            self._add_types(name, message["nested_type"], message["enum_type"])


def _reads(method: dict[str, Any]) -> bool:
    options = method.get("options") or {}
    return options.get("idempotency_level") == IDEMPOTENCY_LEVELS["NO_SIDE_EFFECTS"]


def _join(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _field_of(f: dict[str, Any], oneofs: list[str]) -> Field:
    index = f["oneof_index"]
    optional = bool(f["proto3_optional"])
    oneof = oneofs[index] if index is not None and not optional else None
    return Field(
        f["name"], f["number"], f["type"], f["type_name"].lstrip("."), f["label"] == 3, optional, oneof
    )


def _describe_descriptors() -> Schema:
    """descriptor.proto, as far as interfaces need it: what describes all others has to be known beforehand."""
    schema = Schema()

    def message(name: str, *fields: tuple[Any, ...]) -> None:
        schema.messages[name] = Message(name, [Field(*f) for f in fields])

    def many(name: str, number: int, kind: str) -> tuple[Any, ...]:
        return (name, number, MESSAGE, kind, True)

    message("FileDescriptorSet", many("file", 1, "FileDescriptorProto"))
    message(
        "FileDescriptorProto", ("name", 1, STRING), ("package", 2, STRING), ("dependency", 3, STRING, "", True),
        many("message_type", 4, "DescriptorProto"), many("enum_type", 5, "EnumDescriptorProto"),
        many("service", 6, "ServiceDescriptorProto"), ("syntax", 12, STRING),
    )
    message(
        "DescriptorProto", ("name", 1, STRING), many("field", 2, "FieldDescriptorProto"),
        many("nested_type", 3, "DescriptorProto"), many("enum_type", 4, "EnumDescriptorProto"),
        ("options", 7, MESSAGE, "MessageOptions"), many("oneof_decl", 8, "OneofDescriptorProto"),
    )
    message("MessageOptions", ("map_entry", 7, BOOL))
    message("OneofDescriptorProto", ("name", 1, STRING))
    message(
        "FieldDescriptorProto", ("name", 1, STRING), ("number", 3, INT32), ("label", 4, INT32), ("type", 5, INT32),
        ("type_name", 6, STRING), ("oneof_index", 9, INT32, "", False, True), ("json_name", 10, STRING),
        ("proto3_optional", 17, BOOL),
    )
    message("EnumDescriptorProto", ("name", 1, STRING), many("value", 2, "EnumValueDescriptorProto"))
    message("EnumValueDescriptorProto", ("name", 1, STRING), ("number", 2, INT32, "", False, True))
    message("ServiceDescriptorProto", ("name", 1, STRING), many("method", 2, "MethodDescriptorProto"))
    message(
        "MethodDescriptorProto", ("name", 1, STRING), ("input_type", 2, STRING), ("output_type", 3, STRING),
        ("options", 4, MESSAGE, "MethodOptions"),
    )
    message("MethodOptions", ("idempotency_level", 34, INT32))
    return schema


DESCRIPTORS = _describe_descriptors()
