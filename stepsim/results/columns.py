"""The one dictionary of columns: name, Arrow type, unit and definition of every number.

Every table and JSON object that stepsim writes takes its columns from here, which are declared in
``columns.csv`` beside this file; parameters of workloads come from their declarations. The column
``counting`` states how quantities that can be counted in several ways are counted; without that
column they are counted as executed.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from stepsim.arrow import pa
from stepsim.errors import StepSimError
from stepsim.shown import shown

SCHEMA_VERSION: Final = "5"
"""Raised when the name, type or meaning of a column changes."""

_READ: Final = (SCHEMA_VERSION,)
"""The versions whose tables are read; those before 1.0 that had other columns are not."""

COUNTINGS: Final = ("executed", "published", "paper")
"""How bytes and FLOPs can be counted."""


def _declared() -> Iterator[tuple[str, tuple[str, str, str, str]]]:
    """The group, and the name, type, unit and definition of every column."""
    text = Path(__file__).with_suffix(".csv").read_text("utf-8")
    _, *rows = csv.reader(text.splitlines(), strict=True)
    for group, name, kind, unit, definition in rows:
        yield group, (name, kind, unit, definition)


_GROUPED: Final = tuple(_declared())
_DECLARED: Final = {name: rest for _, (name, *rest) in _GROUPED}


def _names(*groups: str) -> tuple[str, ...]:
    return tuple(name for group, (name, *_) in _GROUPED if group in groups)


MEASURES: Final = _names("measures")
"""Measures of a run; a sweep can choose from these."""

ENERGY: Final = _names("energy")
"""Measures of runs on machines with a table of energies; other machines have no such columns."""

ENERGY_OF_UNITS: Final = ENERGY[:6]
"""The energies that the table of units has as well."""

SPREAD: Final = _names("spread")
"""Measures of runs with an ensemble."""

SERVING: Final = _names("serving")
"""Measures of services."""

OF_LIMITS: Final = ("goodput", "good_share")
"""Measures of services that state an SLO."""

EVERY_MEASURE: Final = (*MEASURES, *ENERGY, *SPREAD, *SERVING)
"""All measures of runs, including those that only some runs have."""

Direction = Literal["smaller", "larger"]

_LARGER: Final = (
    "compute_utilization", "bandwidth_utilization", "tokens_per_second", "completed",
    "request_throughput", "output_throughput", "total_throughput", "goodput", "good_share",
    "hit_tokens",
)  # fmt: skip
_NEITHER: Final = (
    "peak_bandwidth", "tokens", "engine_steps", "served_steps", "estimate_bias",
    "estimate_bias_low", "estimate_bias_high",
)  # fmt: skip

# Of the same workload, what is more FLOPs is padding.
BETTER: Final[Mapping[str, Direction]] = {
    name: "larger" if name in _LARGER else "smaller"
    for name in EVERY_MEASURE
    if name not in _NEITHER
}
"""Which values of a measure are better; of others neither is known to be."""

COUNTED: Final = frozenset(
    {
        "offchip_bytes", "onchip_bytes", "flops", "padded_flops", "allocated_flops_per_cycle",
        "compute_utilization", "bandwidth_utilization",
    }
)  # fmt: skip
"""Measures that depend on how bytes and FLOPs are counted."""

TAKEN: Final = frozenset((*EVERY_MEASURE, *_names("runs", "traces", "outcomes", "figures")))
"""Columns of the tables that also have the parameters of a workload."""


def field(name: str, kind: pa.DataType | str, unit: str, definition: str) -> pa.Field:
    """A column of a table, with its unit and definition in the metadata."""
    if isinstance(kind, str):
        inner = kind.removeprefix("list<").removesuffix(">")
        kind = pa.type_for_alias(kind) if inner == kind else pa.list_(pa.type_for_alias(inner))
    return pa.field(name, kind, metadata={"unit": unit, "definition": definition})


def declaration_of(name: str) -> tuple[str, str, str]:
    """Arrow type, unit and definition of a column of the dictionary."""
    kind, unit, definition = _DECLARED[name]
    return kind, unit, definition


class _Columns(Mapping[str, "pa.Field"]):
    """Fields that are created on demand, as runs without tables need none."""

    def __init__(self) -> None:
        self._made: dict[str, pa.Field] = {}

    def __getitem__(self, name: str) -> pa.Field:
        if name not in self._made:
            self._made[name] = field(name, *_DECLARED[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in _DECLARED

    def __iter__(self) -> Iterator[str]:
        return iter(_DECLARED)

    def __len__(self) -> int:
        return len(_DECLARED)


COLUMNS: Final[Mapping[str, pa.Field]] = _Columns()
"""Field of each name. Nested values are stored as JSON text."""


def schema(
    name: str,
    columns: Iterable[str | pa.Field],
    required: Iterable[str] = (),
    metadata: Mapping[str, str] | None = None,
) -> pa.Schema:
    """The schema of a table; columns are names of the dictionary, or separate fields.

    Columns that are ``required`` hold no nulls.
    """
    never_null = frozenset(required)
    fields = [COLUMNS[one] if isinstance(one, str) else one for one in columns]
    return pa.schema(
        [one.with_nullable(one.name not in never_null) for one in fields],
        metadata={
            "schema": f"stepsim.{name}",
            "schema_version": SCHEMA_VERSION,
            **(metadata or {}),
        },
    )


def check_version(
    found: pa.Schema, where: str | os.PathLike[str], error: type[StepSimError], cure: str
) -> None:
    """Refuse a table of another version of the columns; one without a version is of no stepsim.

    Parameters
    ----------
    found : the schema of the table.
    where : its file.
    error : class of the error that is raised.
    cure : how a table of this version is made.
    """
    text = (found.metadata or {}).get(b"schema_version")
    if text is None or (version := text.decode(errors="replace")) in _READ:
        return
    later = version.isdecimal() and int(version) > int(SCHEMA_VERSION)
    raise error(
        f"{where}: written with version {shown(version)} of the columns, this stepsim reads "
        f"version {SCHEMA_VERSION}; {'upgrade stepsim' if later else cure}"
    )
