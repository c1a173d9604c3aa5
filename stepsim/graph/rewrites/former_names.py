"""Names of operators and FIFOs as earlier versions wrote them, in files and scripts of users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, TypeVar

from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.graph.rewrites.wiring import Wiring

_Value = TypeVar("_Value")


def named_now(
    where: str, wiring: Wiring, what: Literal["operator", "FIFO"], given: Mapping[str, _Value]
) -> dict[str, _Value]:
    """The values by the names that operators or FIFOs have now: ``silu#8`` for ``map#8``.

    Names that are neither present nor former ones are kept; the caller refuses them.

    Raises
    ------
    ArgError
        Two names are of the same operator or FIFO; ``where`` says whose they are.
    """
    known = {one.name for one in (wiring.units if what == "operator" else wiring.fifos)}
    if all(name in known for name in given):
        return dict(given)
    former = dict(_former(wiring, what))
    found: dict[str, _Value] = {}
    spelled: dict[str, str] = {}
    for name, value in given.items():
        now = name if name in known else former.get(name, name)
        if now in found:
            raise ArgError(
                f"{where}: '{spelled[now]}' and '{name}' are names of the same {what}; "
                "leave one of them out"
            )
        found[now], spelled[now] = value, name
    return found


def _former(wiring: Wiring, what: Literal["operator", "FIFO"]) -> Iterator[tuple[str, str]]:
    """Former and present name of each operator or FIFO."""
    if what == "operator":
        for unit in wiring.units:
            if unit.operator is not None:
                yield unit.operator.former_title, unit.name
            else:
                # A broadcast is named after the FIFO that it copies.
                fifo = wiring.fifos[unit.inputs[0]]
                op = fifo.stream.producer
                yield unit.name.replace(op.title(), op.former_title, 1), unit.name
        return
    for fifo in wiring.fifos:
        op = fifo.stream.producer
        yield f"{op.former_title}{fifo.name.removeprefix(op.title())}", fifo.name
