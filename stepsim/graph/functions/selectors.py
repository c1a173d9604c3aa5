"""Functions that make or take selectors, for maps."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from stepsim.arguments import Range
from stepsim.frozen import frozen
from stepsim.graph.functions.describe import completed

MOST_FLAGS: Final = 62
"""Flags that a whole number holds."""

_ALL_SETS: Final = 12
_INDICES = Range(1 << 15, "outputs that an index names")
_FLAGS = Range(_ALL_SETS, "flags of which every set is a selector of the image")


@frozen(slots=False, eq=False)
class SelectorFunction:
    """A function that makes or takes selectors; ``st.fn`` has them.

    Attributes
    ----------
    name : what it is called.
    unit : its name among the units of the engine.
    operands : selectors that it takes; 0 for a whole number.
    width : flags of the selectors that it makes of a number.
    hot : how many flags of those are set, where that is known.
    most : the widest selectors that it takes.
    """

    name: str
    unit: str
    operands: int
    width: int | None = None
    hot: int | None = None
    most: int = _ALL_SETS
    doc: str = field(default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.doc)

    def __str__(self) -> str:
        return self.name if self.width is None else f"{self.name}({self.width})"

    def __repr__(self) -> str:
        return f"<function {self}>"


_TIMES = """Fires
-----
Once per element: 1 cycle, or as long as the load of its operands or the store of the result, with
``write_back``. A selector has one byte for each flag.

FLOPs
-----
None."""


def _doc(summary: str, text: str, shape: str, raises: str, example: str) -> str:
    return (
        f"{summary}\n\n{text}\n\nShape\n-----\n{shape}\n\n{_TIMES}\n\nRaises\n------\n{raises}\n\n"
        f"Example\n-------\n{example}"
    )


_NUMBERS = """>>> with st.Program() as p:
...     numbers = st.metadata([2, 0])
...     st.map({call}, numbers).consume()
>>> p.metrics().flops
0"""
_SELECTORS = """>>> with st.Program() as p:
...     chosen = st.selector([[1, 0], [0, 1]])
...     st.map({call}).consume()
>>> p.metrics().flops
0"""


def index_to_multihot(width: int) -> SelectorFunction:
    """Map of an index to the selector of ``width`` flags that has it alone set.

    Numbers of the program steer a :func:`partition` with it. A run fails when an index is not below
    ``width``.

    Parameters
    ----------
    width : flags of the selectors.
    """
    wanted = _INDICES.checked("index_to_multihot: width", width)
    doc = _doc(
        f"The selector of {wanted} flags with one set, of its index.",
        "A map of whole numbers; a run fails when one is not below the number of flags.",
        f"Whole numbers to selectors of {wanted} flags.",
        "DTypeError : the operand is not a whole number.",
        _NUMBERS.format(call=f"st.fn.index_to_multihot({wanted})"),
    )
    return SelectorFunction("index_to_multihot", "IndexToMultiHot", 0, wanted, 1, doc=doc)


index_to_multihot.__doc__ = completed(index_to_multihot.__doc__, index_to_multihot(3).doc)


def integer_to_multihot(width: int) -> SelectorFunction:
    """Map of a whole number to the selector of ``width`` flags that are its bits.

    Flag 0 is the lowest bit. A run fails when a number has more bits.

    Parameters
    ----------
    width : flags of the selectors.
    """
    wanted = _FLAGS.checked("integer_to_multihot: width", width)
    doc = _doc(
        f"The selector of {wanted} flags that are the bits of a whole number, the lowest first.",
        "A map of whole numbers; a run fails when one has more bits.",
        f"Whole numbers to selectors of {wanted} flags.",
        "DTypeError : the operand is not a whole number.",
        _NUMBERS.format(call=f"st.fn.integer_to_multihot({wanted})"),
    )
    return SelectorFunction("integer_to_multihot", "IntegerToMultiHot", 0, wanted, doc=doc)


integer_to_multihot.__doc__ = completed(integer_to_multihot.__doc__, integer_to_multihot(2).doc)


def _of_selectors(
    name: str, unit: str, operands: int, summary: str, text: str, most: int = _ALL_SETS
) -> SelectorFunction:
    call = ", ".join([f"st.fn.{name}", *["chosen"] * operands])
    doc = _doc(
        summary, f"{text} Selectors have up to {most} flags.",
        f"Selectors of one width to {'whole numbers' if most > _ALL_SETS else 'such selectors'}.",
        "DTypeError : an operand is not a selector, or is one of another width.",
        _SELECTORS.format(call=call),
    )  # fmt: skip
    return SelectorFunction(name, unit, operands, most=most, doc=doc)


multihot_to_integer = _of_selectors(
    "multihot_to_integer", "MultiHotToInteger", 1, "The whole number whose bits are the flags.",
    "A map of selectors; flag 0 is the lowest bit.", MOST_FLAGS,
)  # fmt: skip
select_to_scalar = _of_selectors(
    "select_to_scalar", "SelectToScalar", 1, "The index that a selector names.",
    "A map of selectors; a run fails when one has not exactly one flag set.", 1 << 15,
)  # fmt: skip
select_not = _of_selectors(
    "select_not", "Not", 1, "The flags that a selector has not set.", "A map of selectors.",
)  # fmt: skip
select_and = _of_selectors(
    "select_and", "And", 2, "The flags that both of two selectors have set.",
    "A map of two streams of selectors.",
)  # fmt: skip
select_or = _of_selectors(
    "select_or", "Or", 2, "The flags that at least one of two selectors has set.",
    "A map of two streams of selectors.",
)  # fmt: skip
select_xor = _of_selectors(
    "select_xor", "Xor", 2, "The flags that exactly one of two selectors has set.",
    "A map of two streams of selectors.",
)  # fmt: skip
