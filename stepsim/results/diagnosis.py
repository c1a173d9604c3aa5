"""Why a run did not succeed: the units that failed, and the FIFOs that blocked units wait on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from stepsim.errors import ArgError
from stepsim.frozen import frozen
from stepsim.results.places import flows_text
from stepsim.shown import shown
from stepsim.typed import typed

ENDED: Final = ("ok", "infeasible")
"""Statuses of runs that finished: their cycles are those of the entire program."""

_SHOWN_PER_GROUP = 1


@frozen
class Wait:
    """A blocked unit.

    Attributes
    ----------
    reason : "token" when it waits for its ``peer`` to send, "slot" when it waits for it to receive.
    held, depth : tokens in the FIFO and its capacity (None when unbounded).
    source : where the user built the operator.
    """

    unit: str
    operator: str
    peer: str
    fifo: str
    reason: str
    held: int
    depth: int | None
    source: str = ""

    def __str__(self) -> str:
        fill = f"{self.held}/{'unbounded' if self.depth is None else self.depth}"
        where = f" ({self.source})" if self.source else ""
        verb = "make room in" if self.reason == "slot" else "send on"
        return f"{self.unit} waits for {self.peer} to {verb} '{self.fifo}' [{fill}]{where}"


@frozen
class Failure:
    """A unit that failed, and why."""

    unit: str
    operator: str
    cycle: int
    reason: str
    source: str = ""

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.unit} failed at cycle {self.cycle}: {self.reason}{where}"


@frozen
class Diagnosis:
    """What is known about a run that did not end with status ok.

    Attributes
    ----------
    status : "deadlock", "failed" or "limit".
    summary : one sentence.
    failures : failed units, first one first.
    circular_wait : the waits that block each other, in order; empty if there is no circular wait.
    waits : all blocked units.
    deepen : full FIFOs of the circular wait; deepening one of them may break it.
    """

    status: str
    summary: str
    failures: Sequence[Failure] = ()
    circular_wait: Sequence[Wait] = ()
    waits: Sequence[Wait] = ()
    deepen: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """All fields, as plain values for JSON."""
        return asdict(self)

    @classmethod
    @typed
    def from_dict(cls, found: Mapping[str, Any]) -> Diagnosis:
        """The inverse of `to_dict`, after reading from JSON.

        Raises
        ------
        ArgError : a field is missing, or not of the form that `to_dict` gives it.
        """
        try:
            return cls(
                found["status"],
                found["summary"],
                tuple(Failure(**one) for one in found["failures"]),
                tuple(Wait(**one) for one in found["circular_wait"]),
                tuple(Wait(**one) for one in found["waits"]),
                tuple(found["deepen"]),
            )
        except (KeyError, TypeError) as error:
            raise ArgError(
                f"Diagnosis.from_dict: expected the fields that to_dict() gives, found "
                f"{shown(found)} ({error})"
            ) from None

    @property
    def full(self) -> str:
        """The FIFOs in ``deepen`` in words, as producer and consumer."""
        consumers = {wait.fifo: wait.peer for wait in self.circular_wait}
        return flows_text((fifo, consumers[fifo]) for fifo in self.deepen if fifo in consumers)

    def __str__(self) -> str:
        lines = [self.summary]
        lines += [f"  {failure}" for failure in self.failures]
        if self.circular_wait:
            lines.append("these units form a circular wait:")
            lines += [f"  {wait}" for wait in self.circular_wait]
        lines += self._groups()
        if self.deepen:
            lines.append(f"full FIFOs of the circular wait, candidates for more depth: {self.full}")
        return "\n".join(lines)

    def _groups(self) -> list[str]:
        """The other blocked units, by operator and reason: one example and the number of others."""
        shown = {wait.unit for wait in self.circular_wait}
        groups: dict[tuple[str, str], list[Wait]] = {}
        for wait in self.waits:
            if wait.unit not in shown:
                groups.setdefault((wait.operator, wait.reason), []).append(wait)
        lines = []
        for members in groups.values():
            more = len(members) - _SHOWN_PER_GROUP
            lines += [f"  {wait}" for wait in members[:_SHOWN_PER_GROUP]]
            if more:
                lines.append(f"    and {more} more {members[0].operator} like it")
        return ["blocked as well:", *lines] if lines else []
