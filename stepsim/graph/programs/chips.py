"""The chips that the operators of a program are on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from stepsim.errors import GraphError, StepSimError
from stepsim.graph.programs.current import current_program
from stepsim.graph.sizes.limits import CHIP

if TYPE_CHECKING:
    from stepsim.graph.programs.program import Program


def chip(number: int) -> AbstractContextManager[None]:
    """The block whose operators are on a chip of the machine; outside of such blocks, on chip 0.

    A stream with a reader on another chip crosses the network of chips. One with several readers on
    another chip crosses once and is copied there. Values do not depend on chips. Blocks may be
    nested; the innermost counts.

    Parameters
    ----------
    number : of the chip, from 0. The machine that the program runs on must have it.

    Raises
    ------
    ArgError : it is not the number of a chip.
    GraphError : no program is active.

    Example
    -------
    >>> with st.Program("two chips", compute_bw=1024) as program:
    ...     x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
    ...     with st.chip(1):
    ...         out = st.linear_store(x.map(st.fn.silu), "out")
    >>> [operator.chip for operator in program.operators]
    [0, 0, 1, 1]
    """
    checked = CHIP.checked("chip: number", number)
    program = current_program()
    if program is None:
        raise GraphError("chip: no program is active. Build inside `with st.Program(...):`")
    return _on(program, checked)


def name_on(name: str, number: int) -> str:
    """The name of a tensor that a chip has a part of: ``w``, on chip 3 ``w@3``."""
    return f"{name}@{number}" if number else name


@contextmanager
def _on(program: Program, number: int) -> Iterator[None]:
    outer = program.chip
    program.chip = number
    try:
        yield
    finally:
        program.chip = outer


def check_one_chip(
    program: Program,
    where: str,
    error: type[StepSimError],
    advice: str = "leave out `with st.chip(...)`",
) -> None:
    """Refuse a program with operators on other chips than chip 0; ``advice`` is what to do."""
    for op in program.operators:
        if op.chip and op.loops_back() is None:
            place = f" ({op.source})" if op.source else ""
            raise error(
                f"{where}: {op.called()} is on chip {op.chip}, and this takes programs on one chip "
                f"alone; {advice}{place}"
            )
