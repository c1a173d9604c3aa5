"""Entries of checks and baselines: the numbers of a run and everything they depend on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from stepsim.errors import ArgError
from stepsim.graph import measured_bytes
from stepsim.results import Listing, Stalls, listing_of, stalls_of

if TYPE_CHECKING:
    from stepsim.graph import Program
    from stepsim.results import Result

METRICS: Final = ("cycles", "offchip_bytes", "onchip_bytes", "flops")
"""Metrics that are checked by default; for each, less is better."""

_DIGITS: Final = 16
"""Digits of a digest that are shown: few, but enough to distinguish two."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One check of one test.

    Attributes
    ----------
    cycles, offchip_bytes, flops : totals of the run, as in :class:`~stepsim.results.Result`.
    onchip_bytes : on-chip memory that the operators need, in bytes; None where a size is known
        only after the run.
    program : name of the program.
    program_hash, bindings : digests of the program and of the indices of each routing.
    machine : the whole machine, as :meth:`~stepsim.machine.Machine.to_dict` gives it, without the
        sentence that describes it.
    fifo_depth : tokens in FIFOs that do not state their own depth.
    fifo_depths : depths that the check gave to single FIFOs, by name; None is unbounded.
    plugins : packages that add to the engine, with version and digest.
    model_version : of the timing model.
    stalls : cycles by operator and cause, see `stalls_of`.
    listing : operators with their parameters, and streams, see `stepsim.results.listing_of`; None
        in a baseline that was recorded without it.
    """

    cycles: int
    offchip_bytes: int
    onchip_bytes: int | None
    flops: int
    program: str
    program_hash: str
    bindings: Mapping[str, str]
    machine: Mapping[str, Any]
    fifo_depth: int
    fifo_depths: Mapping[str, int | None]
    plugins: Mapping[str, str]
    model_version: int
    stalls: Stalls
    listing: Listing | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def metric(self, name: str) -> int | None:
        """The value of one of `METRICS`."""
        value: int | None = getattr(self, name)
        return value


def measured(program: Program, result: Result, bindings: Mapping[Any, Any] | None) -> Entry:
    """The entry of a check of this run; the result is that of the program with the bindings."""
    known = result.provenance
    return Entry(
        cycles=result.cycles,
        offchip_bytes=result.offchip_bytes,
        onchip_bytes=_onchip_bytes(program, bindings),
        flops=result.flops,
        program=program.name,
        program_hash=known["program_hash"][:_DIGITS],
        bindings={name: digest[:_DIGITS] for name, digest in sorted(known["bindings"].items())},
        machine={name: value for name, value in known["machine"].items() if name != "description"},
        fifo_depth=known["fifo_depth"],
        fifo_depths=dict(sorted(known.get("fifo_depths", {}).items())),
        plugins=dict(sorted(known["plugins"].items())),
        model_version=known["model_version"],
        stalls=stalls_of(result.units, result.fifos),
        listing=None if result.outline is None else listing_of(result.outline),
    )


def machine_key(machine: Mapping[str, Any]) -> str:
    """Name of the machine and a digest of its settings."""
    text = json.dumps(machine, sort_keys=True)
    return f"{machine['name']} {sha256(text.encode()).hexdigest()[:_DIGITS]}"


def _onchip_bytes(program: Program, bindings: Mapping[Any, Any] | None) -> int | None:
    try:
        return measured_bytes(program, bindings or {}, counting="executed", on_demand=True)[1]
    except ArgError:  # sizes that only a run decides
        return None
