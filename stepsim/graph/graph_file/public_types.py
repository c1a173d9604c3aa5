"""Types that the public simulator reads, operator by operator; any others end its run at the start.

It has one type of floats: a run takes all of them for 2 bytes, or none, by its switch `mock_bf16`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepsim.errors import GraphFileError
from stepsim.graph.types import Ack, Buffer, DType, ElementType, IndexSelector, MultiHot, Tile

_LETTERS: Final = {
    "F": "F32", "U": "U64", "M": "MultiHot", "B": "Buffer", "S": "ScalarU64", "K": "ScalarBool",
}  # fmt: skip

_READ: Final = {
    "BinaryMap": "FFF FUF UUU", "UnaryMap": "FF", "BinaryMapAccum": "FF", "ExpandRef": "FF",
    "DynStreamify": "FF", "Accum": "FF FU", "LinearOffChipLoad": "F",
    "LinearOffChipLoadRef": "FF FM FB", "RandomOffChipLoad": "F", "RandomOffChipStore": "F",
    "OffChipStore": "F", "RepeatStatic": "F", "Promote": "F", "Reshape": "F",
    "RetileStreamify": "F", "Bufferize": "F", "Streamify": "F", "Broadcast": "F U M B S",
    "Flatten": "F U M", "FlatPartition": "FM UM MM", "FlatReassemble": "FM MM", "EagerMerge": "F U",
    "Parallelize": "F U M", "ExpertAddrGen": "M", "MetadataGen": "S", "SelectGen": "M",
    "ConsumerContext": "F U M S K", "PrinterContext": "F U M",
}  # fmt: skip
"""For each operator, the lists of types that it can have: a letter for each field of a type.

Operators that are not listed have no types, or are newer than the simulator that was asked. It
reads signed scalars of MetadataGen as well, which have no known number.
"""


def type_name(element: ElementType, scalar: bool, mock_bf16: bool, where: str) -> str:
    """The name in the format of the type of a stream.

    Parameters
    ----------
    scalar : name integers as those of a source of integers.
    mock_bf16 : bf16 is named as the one type of floats.

    Raises
    ------
    GraphFileError : the public simulator has no such type.
    """
    if isinstance(element, Tile):
        if element.dtype.is_arithmetic:
            return _float_name(element, mock_bf16, where)
        if element.dtype is DType.u64:
            return "ScalarU64" if scalar else "U64"
        return "Bool" if element.dtype is DType.bool_ else str(element)
    if isinstance(element, IndexSelector):
        raise GraphFileError(
            f"{where}: the public simulator has multi-hot selectors only, found {element}; leave "
            "out as_indices=True"
        )
    if isinstance(element, Buffer):
        if not element.tile.dtype.is_arithmetic:
            raise GraphFileError(
                f"{where}: the public simulator has buffers of floats only, found {element}; keep "
                "such tiles in a stream"
            )
        _float_name(element.tile, mock_bf16, where)
        return "Buffer"
    if isinstance(element, MultiHot):
        return "MultiHot"
    return "ScalarBool" if isinstance(element, Ack) else str(element)


def _float_name(tile: Tile, mock_bf16: bool, where: str) -> str:
    wanted = DType.bf16 if mock_bf16 else DType.f32
    if tile.dtype is wanted:
        return "F32"
    if mock_bf16:
        raise GraphFileError(
            f"{where}: with mock_bf16 all floats are bf16, found {tile}; state this type in bf16, "
            "or all types in f32 and leave out mock_bf16"
        )
    fix = "state types in f32, or all in bf16 with mock_bf16"
    if tile.dtype is DType.bf16:
        fix = (
            "pass mock_bf16=True, which writes bf16 as F32, and mock_bf16 to the run of the file as"
            " well, which takes all floats for 2 bytes"
        )
    raise GraphFileError(f"{where}: the format has one type of floats, F32, found {tile}; {fix}")


def check_read(operator: str, fields: Sequence[str], names: Sequence[str], where: str) -> None:
    """Refuse types that the public simulator does not read in this operator.

    Raises
    ------
    GraphFileError : the first field whose type does not go with those before it, what it can be,
        and the operators that read streams of its type.
    """
    if operator not in _READ:
        return
    known = [[_LETTERS[letter] for letter in one] for one in _READ[operator].split()]
    for at, (field, name) in enumerate(zip(fields, names, strict=True)):
        left = [one for one in known if one[at] == name]
        if left:
            known = left
            continue
        *others, last = dict.fromkeys(one[at] for one in known)
        wanted = f"{', '.join(others)} or {last}" if others else last
        given = ", ".join(f"{f} {n}" for f, n in zip(fields[:at], names[:at], strict=True))
        raise GraphFileError(
            f"{where}: the public simulator reads {operator} with {field} {wanted}"
            f"{f' beside {given}' if given else ''}, found {name}; {_elsewhere(name)}"
        )


def _elsewhere(name: str) -> str:
    letter = next((letter for letter, one in _LETTERS.items() if one == name), "")
    # Sources and accumulations only make such streams, so they are no place for them to go.
    found = [
        operator
        for operator, lists in _READ.items()
        if letter and letter in lists and not operator.endswith(("Gen", "Accum"))
    ]
    if not found:
        return f"no operator of it reads {name}; leave this stream out"
    return f"it reads {name} in {', '.join(found)}; use these for the stream"
