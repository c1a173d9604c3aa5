"""The settings of a run, and the points of figures that show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from stepsim.errors import ArgError

LEVELS: Final = ("tile", "hardware")
"""Levels of simulation: operators on logical tiles, or their hardware units."""


class Settings(Mapping[str, Any]):
    """Values by name as immutable, hashable pairs; lists become tuples.

    Raises
    ------
    ArgError : a value is mutable.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name: _frozen(name, values[name]) for name in sorted(values)}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __repr__(self) -> str:
        return repr(self._values)


def _frozen(name: str, value: Any) -> Any:
    fixed = tuple(value) if isinstance(value, list) else value
    try:
        hash(fixed)
    except TypeError:
        raise ArgError(
            f"{name}: expected a number, a text or a tuple of them, found {value!r}"
        ) from None
    return fixed


@dataclass(frozen=True, slots=True)
class Run:
    """Settings of one simulation. Equal runs are simulated once.

    Attributes
    ----------
    workload : name of a workload, or file and name as in ``gemm.py:gemm``.
    parameters : the given parameters of the workload.
    batch : number of first tokens or requests of the traces; None takes all of them.
    routing, lengths : traces of expert choices and of KV-cache lengths: a file or a data set.
    layer, step : the part of the routing to use.
    machine : name or file.
    level : ``tile``, or ``hardware`` for the hardware units of the operators; ``machine`` and
        ``changes`` are then those of a machine of the hardware level.
    changes : values of the machine by dotted key, such as ``{"hbm.channels": 16}``.
    config : ``published`` takes parameters that are not given from the published experiment.
    counting : how bytes and FLOPs are counted: ``executed``, ``published`` or ``paper``; by
        default ``published`` with published parameters, else ``executed``.
    folder : base of relative paths: the folder of the figure's file. It is empty for figures of the
        paper, whose traces are in the folder of recorded ones, or synthetic.
    """

    workload: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    batch: int | None = None
    routing: str = ""
    lengths: str = ""
    layer: int | None = None
    step: int | None = None
    machine: str = "sda-1024"
    changes: Mapping[str, Any] = field(default_factory=dict)
    config: str | None = None
    counting: str | None = None
    folder: str = ""
    level: str = "tile"

    def __post_init__(self) -> None:
        for name in ("parameters", "changes"):
            object.__setattr__(self, name, Settings(getattr(self, name)))

    def with_slack(self, cycles: int) -> Run:
        """The run on a machine with this closure slack; 0 keeps that of the machine.

        At the hardware level the ends of streams are never ambiguous, so the run is unchanged.
        """
        if not cycles or self.level == "hardware":
            return self
        return replace(self, changes={**self.changes, "closure_slack": cycles})


@dataclass(frozen=True, slots=True)
class Point:
    """A run as a point of a figure.

    Attributes
    ----------
    point_id : unique name; figures of the paper that show the same run share it.
    series : series of the figure that the point belongs to, e.g. ``static`` or ``coarse``.
    kv_class : spread of the KV lengths: low, med or high.
    """

    figure: str
    point_id: str
    series: str
    run: Run
    kv_class: str = ""
