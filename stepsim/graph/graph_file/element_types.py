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
    "I64": DType.u64, "ScalarU64": DType.u64, "ScalarI64": DType.u64, "Bool": DType.bool_,
    "ScalarBool": DType.bool_,
}  # fmt: skip


def put_type(message: Any, name: str, element: ElementType, numbers: Numbers, where: str) -> None:
    """Write a type of this name into a field.

    Raises
    ------
    GraphFileError : the generation has no such type.
    """
    if name not in numbers["types"]:
        known = ", ".join(numbers["types"])
        raise GraphFileError(
            f"{where}: generation {numbers.generation} of the format has no type for {element}; "
            f"it has {known}"
        )
    put = getattr(message, name)
    put.SetInParent()
    if isinstance(element, Buffer):
        put.f32.SetInParent()
    elif numbers.generation != "A" and isinstance(element, Tile) and not name.startswith("Scalar"):
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
    "I64": "integer tiles", "ScalarU64": "integer tiles", "ScalarI64": "integer tiles",
    "Bool": "Boolean tiles", "ScalarBool": "Boolean tiles", "MultiHot": "multi-hot selectors",
    "Index": "index selectors", "Buffer": "buffers",
}  # fmt: skip

_OWN_KINDS: Final = {
    MultiHot: "multi-hot selectors", IndexSelector: "index selectors", Buffer: "buffers",
    Ack: "Boolean tiles",
}  # fmt: skip


def _kind_of(element: ElementType) -> str:
    if isinstance(element, Tile):
        if element.dtype.is_arithmetic:
            return "float tiles"
        if element.dtype.is_address:
            return "integer tiles"
        if element.dtype is DType.bool_:
            return "Boolean tiles"
    return _OWN_KINDS.get(type(element), str(element))


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
    if isinstance(element, Buffer):
        inside = [kind for kind in ("f16", "f32") if getattr(message, name).HasField(kind)]
        if inside and not element.tile.dtype.is_arithmetic:
            raise GraphFileError(
                f"{where} states buffers of {inside[0]}, but the stream carries {element}; the "
                "edge of this input is wrong, or the type"
            )
    tile = tile_in(message)
    if tile is None or not isinstance(element, Tile):
        return
    for what, a, b in (("rows", tile.rows, element.rows), ("columns", tile.cols, element.cols)):
        if b.is_static and a != b:
            raise GraphFileError(
                f"{where} states tiles of {a} {what}, but the stream carries {element}"
            )
