"""Bytes to messages and back: descriptors made from the tables, and locating damaged bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NoReturn

from stepsim.deferred import deferred, require
from stepsim.errors import GraphFileError
from stepsim.graph.graph_file.fields import Field, fields_of, messages_of
from stepsim.graph.graph_file.numbers import Numbers

protobuf = deferred("google.protobuf")

_PACKAGE: Final = "stepsim.graph_file"

_UNION: Final = {
    "DataType": "types",
    "ElementFunction": "functions",
    "MapAccumFunction": "map_accumulations",
    "AccumFunction": "accumulations",
    "InitFunction": "initial",
}
"""Messages that select one of several alternatives, and the group of their numbers."""

_TILES: Final = ("F16", "F32", "Bf16", "U64", "I64", "Bool", "ScalarU64", "ScalarI64", "ScalarBool")
_LONGEST: Final = 60


def _member(group: str, name: str) -> str:
    """The message type of a member of a union."""
    if group == "types":
        if name == "Buffer":
            return "BufferType"
        return "TileType" if name in _TILES else "Empty"
    if name in ("matmul", "dyn_matmul"):
        return "Matmul"
    return "CacheWriteAddrGen" if name == "cache_write_addr_gen" else "Empty"


def _messages(numbers: Numbers) -> dict[str, tuple[tuple[Field, ...], bool]]:
    """Fields of every message, and whether they form a oneof."""
    generation = numbers.generation
    found = {name: (fields, False) for name, fields in messages_of(generation).items()}
    sides = numbers["sides"]
    sided = [
        Field(number, name, "string" if name.endswith("dynamic") else "uint32", optional=True)
        for name, number in sides.items()
    ]
    found["TileType"] = (tuple(sided) if generation == "B" else (), False)
    for message, group in _UNION.items():
        members = [Field(n, name, _member(group, name)) for name, n in numbers[group].items()]
        found[message] = (tuple(members), True)
    operators = [Field(n, name, name) for name, n in numbers["operators"].items()]
    own = fields_of(generation, "Operation")
    clash = {f.number: f.name for f in own}
    for operator in operators:
        if operator.number in clash:
            raise GraphFileError(
                f"numbers, operators, {operator.name}: {operator.number} is the number of "
                f"{clash[operator.number]}; state another"
            )
    found["Operation"] = (tuple(operators), True)
    return found


class Schema:
    """The messages for one table of numbers."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self._messages = _messages(numbers)
        self._extra = {"Operation": fields_of(numbers.generation, "Operation")}
        self._classes = _classes(self)

    def fields(self, message: str) -> dict[int, Field]:
        """Fields of a message by their numbers."""
        own, _ = self._messages[message]
        return {f.number: f for f in (*own, *self._extra.get(message, ()))}

    def choice(self, message: str) -> tuple[Field, ...]:
        """The members of the oneof of a message; empty if it has none."""
        own, union = self._messages[message]
        return own if union else ()

    def names(self) -> Iterator[str]:
        """Names of all messages."""
        return iter(self._messages)

    def new(self, message: str) -> Any:
        """An empty message."""
        return self._classes[message]()

    def parse(self, data: bytes, where: str) -> Any:
        """Parse a graph from bytes.

        Raises
        ------
        GraphFileError : the bytes are not a graph; the error names operator and field.
        """
        graph = self.new("ProgramGraph")
        try:
            graph.ParseFromString(data)
        except (protobuf.message.DecodeError, ValueError, RecursionError):
            _Damage(self, where).find(data)
        return graph

    def unknown(self, message: Any, name: str) -> list[str]:
        """The contents of a message that the tables lack: ``func: 17``, innermost last."""
        found = []
        fields = self.fields(name)
        for one in protobuf.unknown_fields.UnknownFieldSet(message):
            known = fields.get(one.field_number)
            if known is None:
                found.append(f"{one.field_number}")
            else:
                wanted = _wire_types(known)[0]
                found.append(
                    f"{known.name} (field {known.number}) with wire type {one.wire_type} in place "
                    f"of {wanted}"
                )
        for descriptor, value in message.ListFields():
            inner = fields[descriptor.number].type
            if inner not in self._messages:
                continue
            for each in value if fields[descriptor.number].repeated else [value]:
                found += [f"{descriptor.name}: {text}" for text in self.unknown(each, inner)]
        return list(dict.fromkeys(found))


@cache
def _schema(key: tuple[Any, ...]) -> Schema:
    generation, *groups = key
    return Schema(Numbers(generation, {group: dict(names) for group, *names in groups}))


def schema_of(numbers: Numbers) -> Schema:
    """The messages of a table; made once for each table.

    Raises
    ------
    GraphFileError : the package protobuf is not installed.
    """
    return _schema(numbers.key())


def chosen(message: Any) -> str | None:
    """The name of the member that a message selects."""
    found: str | None = message.WhichOneof("choice")
    return found


def _classes(schema: Schema) -> dict[str, Any]:
    require("google.protobuf", GraphFileError)
    descriptor_pb2 = protobuf.descriptor_pb2
    proto = descriptor_pb2.FieldDescriptorProto
    scalars = {
        "uint32": proto.TYPE_UINT32, "uint64": proto.TYPE_UINT64, "int32": proto.TYPE_INT32,
        "bool": proto.TYPE_BOOL, "string": proto.TYPE_STRING,
    }  # fmt: skip
    file = descriptor_pb2.FileDescriptorProto(
        name="graph_file.proto", package=_PACKAGE, syntax="proto3"
    )
    names = list(schema.names())
    for name in names:
        made = file.message_type.add(name=name)
        choice = {f.number for f in schema.choice(name)}
        if choice:
            made.oneof_decl.add(name="choice")
        for one in schema.fields(name).values():
            put = made.field.add(name=one.name, number=one.number)
            put.label = proto.LABEL_REPEATED if one.repeated else proto.LABEL_OPTIONAL
            if one.type in scalars:
                put.type = scalars[one.type]
            else:
                put.type = proto.TYPE_MESSAGE
                put.type_name = f".{_PACKAGE}.{one.type}"
            if one.number in choice:
                put.oneof_index = 0
        # Oneofs of fields with presence follow all others.
        for put in made.field:
            if schema.fields(name)[put.number].optional:
                put.proto3_optional = True
                put.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{put.name}")
    pool = protobuf.descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: protobuf.message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")
        )
        for name in names
    }


def _wire_types(field: Field) -> tuple[int, ...]:
    """Wire types that a field may have, the usual one first."""
    if field.type in ("uint32", "uint64", "int32", "bool"):
        return (2, 0) if field.repeated else (0,)
    return (2,)


class _Cut(Exception):
    """Bytes end, or do not match the format, at this place of a message."""


class _Damage:
    """Finds the operator and field at which bytes cannot be read."""

    def __init__(self, schema: Schema, where: str) -> None:
        self.schema = schema
        self.where = where

    def find(self, data: bytes) -> NoReturn:
        place = self._message(data, "ProgramGraph") or "the bytes are not a program graph"
        raise GraphFileError(
            f"{self.where}: {place}; the file is damaged or cut off, or is of another format. "
            "Write or copy it again"
        )

    def _message(self, data: bytes, message: str) -> str | None:
        fields = self.schema.fields(message)
        title, position, count = "", 0, 0
        try:
            while position < len(data):
                start = position
                key, position = _varint(data, position)
                number, wire = key >> 3, key & 7
                field = fields.get(number)
                name = field.name if field else f"field {number}"
                if message == "ProgramGraph" and number == 2:
                    name, count = f"operator number {count}", count + 1
                if not number:
                    raise _Cut(f"field number 0 at byte {start}")
                value, position = _value(data, position, wire, name)
                if field is None or not isinstance(value, bytes) or wire != 2:
                    continue
                found = self._inside(value, field)
                if found:
                    return f"{title}{name}: {found}"
                if message == "Operation" and field.name == "name":
                    title = f"operator '{value.decode()[:_LONGEST]}', "
        except _Cut as problem:
            return f"{title}{problem}"
        return None

    def _inside(self, value: bytes, field: Field) -> str | None:
        if field.type == "string":
            try:
                value.decode()
            except UnicodeDecodeError as error:
                return f"expected UTF-8 text, found the byte 0x{value[error.start]:02x}"
            return None
        if field.type in self.schema.names():
            return self._message(value, field.type)
        if field.repeated:
            position = 0
            try:
                while position < len(value):
                    _, position = _varint(value, position)
            except _Cut as problem:
                return str(problem)
        return None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise _Cut("the bytes end inside a number")
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise _Cut("a number has more than 10 bytes")


def _value(data: bytes, position: int, wire: int, name: str) -> tuple[Any, int]:
    if wire == 0:
        return _varint(data, position)
    sizes = {1: 8, 5: 4}
    if wire == 2:
        size, position = _varint(data, position)
    elif wire in sizes:
        size = sizes[wire]
    else:
        raise _Cut(f"{name} has wire type {wire}, expected 0 or 2")
    if size > len(data) - position:
        raise _Cut(f"{name} states {size} bytes, {len(data) - position} are left")
    return data[position : position + size], position + size
