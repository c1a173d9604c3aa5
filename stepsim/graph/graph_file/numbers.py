"""The numbers that select operators, types and functions: one table for each generation.

A number of 1000 or more is unconfirmed: no public source states the number in the format, and
stepsim uses its own number instead, which no public file contains. A file of another writer with
the true number is then refused, until a user states it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import stepsim.documents
from stepsim.arguments import is_whole, shown
from stepsim.errors import GraphFileError, did_you_mean

UNCONFIRMED: Final = 1000
"""Numbers from here on are placeholders for numbers that no public source states."""

_MOST: Final = 2**29 - 1
_RESERVED: Final = range(19000, 20000)

GENERATIONS: Final = ("A", "B")

_OPERATORS: Final = {
    "BinaryMap": 10, "UnaryMap": 11, "LinearOffChipLoad": 12, "OffChipStore": 13,
    "RepeatStatic": 14, "Broadcast": 15, "FlatPartition": 16, "FlatReassemble": 17, "Promote": 18,
    "BinaryMapAccum": 19, "Accum": 20, "PrinterContext": 21, "ConsumerContext": 22,
    "Bufferize": 23, "Streamify": 24, "DynStreamify": 25, "SelectGen": 26,
    "LinearOffChipLoadRef": 27, "Flatten": 28, "Reshape": 29, "RetileStreamify": 30,
    "EagerMerge": 31, "MetadataGen": 32, "RandomOffChipLoad": 33, "RandomOffChipStore": 34,
    "ExpertAddrGen": 35, "Parallelize": 36, "CacheReadAddrGen": 37, "FilterLastTile": 38,
    "ExpandRef": 39,
}  # fmt: skip

_OPERATORS_B: Final = {
    "DynLinearOffChipLoad": 40, "DynOffChipStore": 41, "FlatmapFilterRowStreamify": 42,
    "ReshapePadStream": 43, "PromoteOuter": 44, "FlatmapCounter": 45, "RepeatRef": 46,
    "StaticReassemble": 47, "Scan": 49, "TakeLast": 50, "StaticStreamify": 51, "AccumBuffer": 52,
    "Counter2D": 53, "Counter": 54, "Shuffle": 56,
}  # fmt: skip

_TYPES_A: Final = {"F16": 1, "F32": 2, "MultiHot": 3, "Index": 4, "Buffer": 5}
_TYPES_LATER: Final = {
    "Bf16": 1001, "U64": 1002, "I64": 1003, "Bool": 1004, "MultiHot": 1005, "Index": 1006,
    "ScalarU64": 1007, "ScalarBool": 1008, "Buffer": 1009, "ScalarI64": 1010,
}  # fmt: skip

_FUNCTIONS: Final = {
    "matmul": 1, "mul": 2, "silu": 3, "add": 4, "dyn_matmul": 1001, "div": 1002,
    "row_wise_sum": 1003, "exp": 1004, "set_offset": 1005, "row_wise_append": 1006,
    "cache_write_addr_gen": 1007, "sub": 1008, "row_wise_max": 1009, "tanh": 1010, "rsqrt": 1011,
    "sigmoid": 1012, "square": 1013, "pow2": 1014, "transpose": 1015,
}  # fmt: skip

_SIDES: Final = {"rows_static": 1, "rows_dynamic": 2, "cols_static": 3, "cols_dynamic": 4}
"""Fields of a tile type; numbers of columns and of dynamic sides are not confirmed."""

_MAP_ACCUMS: Final = {"matmul": 1, "dyn_matmul": 1001}
_ACCUMS: Final = {
    "add": 3, "retile_row": 5, "mul": 1001, "signal_req_all_read": 1002, "max": 1003, "last": 1004,
    "retile_col": 1005, "increment": 1006,
}  # fmt: skip
_INITS: Final = {"zero": 1, "empty": 2, "neg_infinity": 1001, "one": 1002}

GROUPS: Final = (
    "operators", "types", "functions", "map_accumulations", "accumulations", "initial", "sides",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Numbers:
    """Names and numbers of one generation, by group."""

    generation: str
    groups: Mapping[str, Mapping[str, int]]

    def __getitem__(self, group: str) -> Mapping[str, int]:
        return self.groups[group]

    def key(self) -> tuple[Any, ...]:
        """The contents; tables with equal keys are equal."""
        return (self.generation, *((g, *sorted(self.groups[g].items())) for g in GROUPS))


def _table(generation: str) -> dict[str, dict[str, int]]:
    later = generation == "B"
    return {
        "operators": {**_OPERATORS, **(_OPERATORS_B if later else {})},
        "types": {"F32": 2, **_TYPES_LATER} if later else dict(_TYPES_A),
        "functions": dict(_FUNCTIONS),
        "map_accumulations": dict(_MAP_ACCUMS),
        "accumulations": dict(_ACCUMS),
        "initial": dict(_INITS),
        "sides": dict(_SIDES),
    }


def numbers_of(generation: str, given: Mapping[str, Any] | str | Path | None = None) -> Numbers:
    """The table of a generation, with entries replaced or added by a user.

    Parameters
    ----------
    generation : ``A`` or ``B``.
    given : names and numbers by group, as in ``{"functions": {"exp": 9}}``, or a YAML file of
        them. Groups are operators, types, functions, map_accumulations, accumulations, initial and
        sides.

    Raises
    ------
    GraphFileError : there is no such group or name, or a number is out of range or used twice.
    """
    if generation not in GENERATIONS:
        raise GraphFileError(
            f"generation: expected one of {', '.join(GENERATIONS)}, found {shown(generation)}"
        )
    table = _table(generation)
    where = "numbers"
    if isinstance(given, str | Path):
        where = f"numbers {given}"
        given = stepsim.documents.load_yaml(given, "numbers", GraphFileError).data
    if given is not None and not isinstance(given, Mapping):
        raise GraphFileError(
            f"{where}: expected groups of names and numbers, as in functions: {{exp: 9}}, found "
            f"{shown(given)}"
        )
    for group, names in (given or {}).items():
        if group not in table:
            raise GraphFileError(
                f"{where}: there is no group {shown(group)}{did_you_mean(group, table)} "
                f"Groups are {', '.join(table)}"
            )
        if not isinstance(names, Mapping):
            raise GraphFileError(
                f"{where}, {group}: expected names and numbers, as in {{exp: 9}}, found "
                f"{shown(names)}"
            )
        _extend(f"{where}, {group}", table[group], names)
    return Numbers(generation, table)


def _extend(where: str, known: dict[str, int], given: Mapping[Any, Any]) -> None:
    """Apply the numbers stated by a user."""
    for name, number in given.items():
        if name not in known:
            raise GraphFileError(
                f"{where}: unknown name {shown(name)}{did_you_mean(name, known)} Known "
                f"are {', '.join(known)}"
            )
        if not is_whole(number) or not 1 <= number <= _MOST or number in _RESERVED:
            raise GraphFileError(
                f"{where}, {name}: expected a field number from 1 to 2**29 - 1, other than 19000 "
                f"to 19999, found {shown(number)}"
            )
        known[name] = int(number)
    used: dict[int, str] = {}
    for name, number in known.items():
        if number in used:
            raise GraphFileError(
                f"{where}: {used[number]} and {name} both have the number {number}; state the "
                "number of each"
            )
        used[number] = name
