"""Reads interface files (proto3: messages, enumerations, services, imports), so that a component needs no compiler."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterable

from .schema import ENUM, IDEMPOTENCY_LEVELS, MESSAGE, SCALARS, Schema

_TOKEN = re.compile(r'\s+|//[^\n]*|/\*.*?\*/|("(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z_][\w.]*|\.[\w.]+|-?\d\w*|[^\s\w])', re.S)


class ProtoError(Exception):
    """A file is not what this reader understands."""


class _Reader:
    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.tokens: list[str] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ProtoError(f"{name}: unexpected {text[at]!r}")
            if match.group(1):
                self.tokens.append(match.group(1))
            at = match.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        found = self.take()
        if found != token:
            raise ProtoError(f"{self.name}: expected {token!r}, found {found!r}")

    def skip_statement(self) -> None:
        """To the end of an option or a reserved range."""
        while self.take() not in (";", ""):
            pass

    def skip_options(self) -> None:
        if self.accept("["):
            while self.take() not in ("]", ""):
                pass

    def number(self) -> int:
        token = self.take()
        try:
            return int(token, 0)
        except ValueError:
            raise ProtoError(f"{self.name}: expected a number, found {token!r}") from None


def load(files: Iterable[str | Path], folders: Iterable[str | Path] = (".",)) -> Schema:
    """The schema of `files` and what they import, all found in `folders`."""
    schema = Schema()
    parsed: dict[str, dict[str, Any]] = {}

    def visit(name: str) -> None:
        if name in parsed:
            return
        path = next((Path(d) / name for d in folders if (Path(d) / name).is_file()), None)
        if path is None:
            raise ProtoError(f"{name}: not found")
        file = _parse(_Reader(name, path.read_text()))
        parsed[name] = file
        for imported in file["dependency"]:
            visit(imported)

    for file in files:
        visit(str(file))
    _resolve(parsed.values())
    # Imported files go first.
    done: set[str] = set()

    def add(file: dict[str, Any]) -> None:
        if file["name"] not in done:
            done.add(file["name"])
            for imported in file["dependency"]:
                add(parsed[imported])
            schema.add_file(file)

    for file_ in parsed.values():
        add(file_)
    return schema


def _parse(r: _Reader) -> dict[str, Any]:
    file: dict[str, Any] = {
        "name": r.name, "package": "", "dependency": [], "message_type": [], "enum_type": [], "service": [],
        "syntax": "proto3",
    }
    while r.peek():
        word = r.take()
        if word == "syntax":
            r.expect("=")
            if r.take().strip("\"'") != "proto3":
                raise ProtoError(f"{r.name}: only proto3 is read")
            r.expect(";")
        elif word == "package":
            file["package"] = r.take()
            r.expect(";")
        elif word == "import":
            file["dependency"].append(r.take().strip("\"'"))
            r.expect(";")
        elif word == "message":
            file["message_type"].append(_message(r))
        elif word == "enum":
            file["enum_type"].append(_enum(r))
        elif word == "service":
            file["service"].append(_service(r))
        elif word == "option":
            r.skip_statement()
        elif word != ";":
            raise ProtoError(f"{r.name}: unexpected {word!r}")
    return file


def _message(r: _Reader) -> dict[str, Any]:
    message = _new_message(r.take())
    r.expect("{")
    while not r.accept("}"):
        word = r.peek()
        if word == "message" or word == "enum":
            r.take()
            message["nested_type" if word == "message" else "enum_type"].append(
                _message(r) if word == "message" else _enum(r)
            )
        elif word in ("reserved", "option"):
            r.skip_statement()
        elif word == "oneof":
            r.take()
            message["oneof_decl"].append({"name": r.take()})
            index = len(message["oneof_decl"]) - 1
            r.expect("{")
            while not r.accept("}"):
                message["field"].append(_field(r, message) | {"oneof_index": index})
        elif word == "":
            raise ProtoError(f"{r.name}: message {message['name']} has no end")
        elif not r.accept(";"):
            message["field"].append(_field(r, message))
    # As the compiler does it: an optional field is the only member of a oneof of its own.
    for field in message["field"]:
        if field["proto3_optional"]:
            field["oneof_index"] = len(message["oneof_decl"])
            message["oneof_decl"].append({"name": f"_{field['name']}"})
    return message


def _new_message(name: str) -> dict[str, Any]:
    return {
        "name": name, "field": [], "nested_type": [], "enum_type": [], "oneof_decl": [], "options": None,
    }


def _field(r: _Reader, message: dict[str, Any]) -> dict[str, Any]:
    repeated = r.accept("repeated")
    optional = not repeated and r.accept("optional")
    kind = r.take()
    if kind == "map" and r.accept("<"):
        key = r.take()
        r.expect(",")
        value = r.take()
        r.expect(">")
        name = r.take()
        entry = _new_message("".join(p.capitalize() for p in name.split("_")) + "Entry")
        entry["options"] = {"map_entry": True}
        entry["field"] = [_describe("key", 1, key), _describe("value", 2, value)]
        message["nested_type"].append(entry)
        repeated, kind = True, entry["name"]
    else:
        name = r.take()
    r.expect("=")
    number = r.number()
    r.skip_options()
    r.expect(";")
    return _describe(name, number, kind) | {"label": 3 if repeated else 1, "proto3_optional": optional}


def _describe(name: str, number: int, kind: str) -> dict[str, Any]:
    first, *rest = name.split("_")
    return {
        "name": name, "number": number, "label": 1, "type": SCALARS.get(kind, 0),
        "type_name": "" if kind in SCALARS else kind, "oneof_index": None, "proto3_optional": False,
        "json_name": first + "".join(p.capitalize() for p in rest),
    }


def _enum(r: _Reader) -> dict[str, Any]:
    enum: dict[str, Any] = {"name": r.take(), "value": []}
    r.expect("{")
    while not r.accept("}"):
        name = r.take()
        if name in ("option", "reserved"):
            r.skip_statement()
            continue
        r.expect("=")
        enum["value"].append({"name": name, "number": r.number()})
        r.skip_options()
        r.expect(";")
    return enum


def _service(r: _Reader) -> dict[str, Any]:
    service: dict[str, Any] = {"name": r.take(), "method": []}
    r.expect("{")
    while not r.accept("}"):
        word = r.take()
        if word == "option":
            r.skip_statement()
            continue
        if word != "rpc":
            raise ProtoError(f"{r.name}: expected rpc, found {word!r}")
        method = {"name": r.take()}
        r.expect("(")
        method["input_type"] = r.take()
        r.expect(")")
        r.expect("returns")
        r.expect("(")
        method["output_type"] = r.take()
        r.expect(")")
        if r.accept("{"):
            while not r.accept("}"):
                _method_option(r, method)
        else:
            r.expect(";")
        service["method"].append(method)
    return service


def _method_option(r: _Reader, method: dict[str, Any]) -> None:
    """Takes a statement of a method; of all options the level of idempotency has a meaning here."""
    if not (r.accept("option") and r.accept("idempotency_level")):
        r.skip_statement()
        return
    r.expect("=")
    level = r.take()
    if level not in IDEMPOTENCY_LEVELS:
        raise ProtoError(f"{r.name}: idempotency_level: expected {', '.join(IDEMPOTENCY_LEVELS)}, found {level!r}")
    method["options"] = {"idempotency_level": IDEMPOTENCY_LEVELS[level]}
    r.expect(";")


def _resolve(files: Iterable[dict[str, Any]]) -> None:
    """Makes every type's name a full one, and records whether it is a message or an enumeration."""
    kinds: dict[str, int] = {}

    def collect(scope: str, messages: list[dict[str, Any]], enums: list[dict[str, Any]]) -> None:
        for enum in enums:
            kinds[f"{scope}.{enum['name']}"] = ENUM
        for message in messages:
            name = f"{scope}.{message['name']}"
            kinds[name] = MESSAGE
            collect(name, message["nested_type"], message["enum_type"])

    def find(scope: str, name: str) -> str:
        if name.startswith("."):
            return name
        while True:
            full = f"{scope}.{name}"
            if full in kinds:
                return full
            if not scope:
                raise ProtoError(f"unknown type {name}")
            scope = scope.rpartition(".")[0]

    def resolve(scope: str, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            inner = f"{scope}.{message['name']}"
            for field in message["field"]:
                if field["type_name"]:
                    field["type_name"] = find(inner, field["type_name"])
                    field["type"] = kinds[field["type_name"]]
            resolve(inner, message["nested_type"])

    files = list(files)
    for file in files:
        collect(f".{file['package']}" if file["package"] else "", file["message_type"], file["enum_type"])
    for file in files:
        scope = f".{file['package']}" if file["package"] else ""
        resolve(scope, file["message_type"])
        for service in file["service"]:
            for method in service["method"]:
                method["input_type"] = find(scope, method["input_type"])
                method["output_type"] = find(scope, method["output_type"])
