"""The order decisions of a timing run that values depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stepsim.graph import EagerMerge, MultiHot, Program, Reassemble, check_program


@dataclass(frozen=True)
class Decisions:
    """Choices that a run made by order of arrival.

    Attributes
    ----------
    merges : per eager merge (operator id), the input that each chunk came from.
    joins : per reassemble (operator id), the order of its inputs for each selector.
    program_hash : fingerprint of the program that was run; checked when not None.
    """

    merges: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    joins: Mapping[int, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    program_hash: str | None = None


def has_free_order(op: EagerMerge | Reassemble) -> bool:
    """Whether arrival decides anything: with one input, or one-hot selectors, there is no
    choice."""
    if isinstance(op, EagerMerge):
        return len(op.inputs) > 1
    kind = op.inputs[-1].type
    one_hot = isinstance(kind, MultiHot) and kind.hot == 1
    return len(op.inputs) > 2 and not one_hot


def needs_decisions(program: Program) -> bool:
    """Whether values, or their order, depend on arrival; raises ArgError for anything but a
    program."""
    check_program("evaluate", program)
    merging = (op for op in program.operators if isinstance(op, EagerMerge | Reassemble))
    return any(has_free_order(op) for op in merging)
