"""How a record of a function lies among the parameters, and a unit's memory of its last firing.

:mod:`stepsim.lowering.rows.function_records` writes records,
:mod:`stepsim.kernels.functions.shapes` and :mod:`stepsim.kernels.functions.apply` read them.

A record begins with the numbers of its operands, states and results and a row of firing rules for
every result. Then come, each a count and that many entries: adopted states, checks over operands,
operands of equal width; a rows, columns and width rule for every result; checks that name results;
the polynomials of FLOPs and cycles; last the lists of operands that firing rules refer to.

What follows from the shapes of the operands is kept in the private words of the unit: while they
are the same as in its last firing, nothing is evaluated again.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

RECORD_RESULTS: Final = 3
"""Where the firing rules begin, behind operands, states and results."""

RULE_WORDS: Final = 8
"""Of one result: valid rule, first of its operands (place in the record), how many; value rule and
its three numbers; operand whose place in memory the result keeps, -1 for the unit's own."""

KEPT_FLOPS: Final = 0
KEPT_COMPUTE: Final = 1
KEPT_STORE: Final = 2
KEPT_SIMPLE: Final = 3
KEPT_OPERANDS: Final = 4
"""FLOPs, cycles to compute and to store the results of a firing, and whether it has one result that
needs no rule of its own: no number, valid rows of operands, placed where the unit says."""

OPERAND_WORDS: Final = 3
"""Of one operand: its slot, its shape in one number, cycles to load it from on-chip memory."""

RESULT_WORDS: Final = 5
"""Of one result: rows, columns, bits of an element, and one or two operands (their places among the
operands) of whose valid rows it has the larger count."""

NO_OPERAND: Final = -1
"""All rows are valid (first of the two), or there is no second operand."""

BY_RULE: Final = -2
"""In place of the first operand: every firing evaluates the rule for valid rows."""


class Valid(IntEnum):
    """Rules for the valid rows of a result."""

    ROWS = 0
    FIRST = 1
    MAX = 2
    SUM = 3
    VALUE = 4
    APPEND = 5
    PACKED = 6
    SLICE = 7


class Value(IntEnum):
    """Rules for the number in a 1x1 tile."""

    NONE = 0
    KEEP = 1
    CONSTANT = 2
    ADDRESS = 3
    EQUAL = 4
    PLUS = 5
    MINUS = 6
    TIMES = 7
    DIVIDED = 8
    ADD = 9
    SUB = 10
    MUL = 11
    MAX = 12
    MIN = 13
    EQ = 14
    NE = 15
    LT = 16
    LE = 17
    SELECT = 18


class Side(IntEnum):
    """Rules for one side of a result."""

    POLYNOMIAL = 0
    BROADCAST = 1


class Adopt(IntEnum):
    """When a state takes its shape from the elements: which of its sides are 0."""

    ANY = 0
    BOTH = 1
    ROWS = 2
    COLS = 3


def kept_words(operands: int, results: int) -> int:
    """Private words of a unit that applies a function."""
    return KEPT_OPERANDS + (OPERAND_WORDS + 2) * operands + (RESULT_WORDS + 2) * results
