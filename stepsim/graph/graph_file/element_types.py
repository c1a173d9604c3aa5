"""Element types in the format: kinds of tiles, selectors and buffers."""

from __future__ import annotations

from typing import Any, Final

from stepsim.errors import GraphFileError
from stepsim.graph.graph_file.messages import chosen
from stepsim.graph.graph_file.numbers import Numbers
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.types import Ack, Buffer, DType, ElementType, IndexSelector, MultiHot, Tile

DTYPES: Final = {
    "F32": DType.f32, "F16": DType.f16, "Bf16": DType.bf16, "U64": DType.u64,
    "I64": DType.u64, "ScalarU64": DType.u64, "Bool": DType.bool_, "ScalarBool": DType.bool_,
}  # fmt: skip

_NAMES: Final = {
    DType.f32: "F32", DType.f16: "F16", DType.bf16: "Bf16", DType.u64: "U64", DType.bool_: "Bool",
}  # fmt: skip


def _name_of(element: ElementType) -> str:
    """The name of a type in the format; empty if it has none."""
    if isinstance(element, Tile):
        return _NAMES.get(element.dtype, "")
    if isinstance(element, MultiHot):
        return "MultiHot"
    if isinstance(element, IndexSelector):
        return "Index"
    if isinstance(element, Buffer):
        return "Buffer"
    return "ScalarBool" if isinstance(element, Ack) else ""


def put_type(message: Any, element: ElementType, numbers: Numbers, where: str) -> None:
    """Write a type into a field.

    Raises
    ------
    GraphFileError : the generation has no such type.
    """
    name = _name_of(element)
    if name not in numbers["types"]:
        known = ", ".join(numbers["types"])
        raise GraphFileError(
            f"{where}: generation {numbers.generation} of the format has no type for {element}; "
            f"it has {known}"
        )
    put = getattr(message, name)
    put.SetInParent()
    if numbers.generation == "A":
        if isinstance(element, Buffer):
            inside = {"F16": "f16", "F32": "f32"}.get(_name_of(element.tile))
            if inside is None:
                raise GraphFileError(
                    f"{where}: generation A of the format has no buffers of {element.tile}"
                )
            getattr(put, inside).SetInParent()
    elif isinstance(element, Tile):
        for side, size in (("rows", element.rows), ("cols", element.cols)):
            if size.is_static:
                setattr(put, f"{side}_static", int(size))
            else:
                setattr(put, f"{side}_dynamic", str(size.size))


def tile_in(message: Any) -> Tile | None:
    """The tile type that a field states with its shape; None if it states none."""
    name = chosen(message)
    if name not in DTYPES:
        return None
    inside = getattr(message, name)
    sides = []
    for side in ("rows", "cols"):
        if not hasattr(inside, f"{side}_static") or not inside.HasField(f"{side}_static"):
            return None
        sides.append(Dim(getattr(inside, f"{side}_static")))
    return Tile(DTYPES[name], sides[0], sides[1])


_KINDS: Final = {
    "F32": "float tiles", "F16": "float tiles", "Bf16": "float tiles", "U64": "integer tiles",
    "I64": "integer tiles", "ScalarU64": "integer tiles", "Bool": "Boolean tiles",
    "ScalarBool": "Boolean tiles", "MultiHot": "multi-hot selectors", "Index": "index selectors",
    "Buffer": "buffers",
}  # fmt: skip


def _kind_of(element: ElementType) -> str:
    if isinstance(element, Tile) and element.dtype.is_arithmetic:
        return "float tiles"
    if isinstance(element, Tile) and element.dtype.is_address:
        return "integer tiles"
    return _KINDS.get(_name_of(element), str(element))


def check_type(message: Any, element: ElementType, where: str) -> None:
    """Compare a type that the file states with the type of the stream.

    Raises
    ------
    GraphFileError : the kinds differ, or the sides of tiles do.
    """
    name = chosen(message)
    if name is None:
        return
    stated, found = _KINDS[name], _kind_of(element)
    if stated != found:
        raise GraphFileError(
            f"{where} states {stated} ({name}), but the stream carries {element}; the edge of this "
            "input is wrong, or the type"
        )
    tile = tile_in(message)
    if tile is None or not isinstance(element, Tile):
        return
    for what, a, b in (("rows", tile.rows, element.rows), ("columns", tile.cols, element.cols)):
        if b.is_static and a != b:
            raise GraphFileError(
                f"{where} states tiles of {a} {what}, but the stream carries {element}"
            )
