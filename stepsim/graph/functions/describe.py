"""Docstrings of functions, from what they are."""

from __future__ import annotations

import inspect

from stepsim.graph.functions.function import Function
from stepsim.graph.functions.polynomial import Polynomial

_SIDES = {"m": 4, "n": 8, "k": 8, "h": 4, "a": 4, "b": 2, "c": 2}
_OTHER = 4
_NAMES = "xyzuvw"

_HEADS = {
    title: f"\n\n{title}\n{'-' * len(title)}\n"
    for title in ("Shape", "Parameters", "Fires", "FLOPs", "Memory", "Raises", "Example")
}
_OF_PARAMETERS = "ArgError : a parameter is not one of those above.\n"


def described(
    fn: Function, summary: str, text: str = "", flops: str = "", example: str | None = None
) -> str:
    """The docstring of a function.

    ``text`` says what it means, ``flops`` where its count comes from, ``example`` is the code that
    makes it.
    """
    parts = [summary]
    if text:
        parts.append(text)
    parts.append(f"Shape\n-----\n{_shape(fn)}")
    parts.append(f"Fires\n-----\nOnce per element. {_cycles(fn)}")
    if fn.flops:
        letters = " of the result" if fn.shape.broadcast else ""
        parts.append(f"FLOPs\n-----\n``{fn.flops}`` per firing{letters}.{' ' * bool(flops)}{flops}")
    else:
        parts.append("FLOPs\n-----\nNone.")
    parts.append(
        "Memory\n------\n" + (
            "16 rows of the first operand and the second tile in a map of two streams."
            if fn.transposes is not None
            else "None in a map; the states in an accumulation."
        )
    )  # fmt: skip
    parts.append(
        "Raises\n------\nDTypeError : an operand is not a tile of the expected kind.\n"
        "DimError : sides that must be equal are different, or not known to be equal."
    )
    if example is not None:
        parts.append(f"Example\n-------\n{_example(fn, example)}")
    return "\n\n".join(parts)


def completed(doc: str | None, sample: str) -> str:
    """The docstring of what makes functions: what it does not say itself is that of a sample.

    What both say of errors stands together.
    """
    opening, sections = _taken_apart(inspect.cleandoc(doc or ""))
    of_sample, given = _taken_apart(sample)
    if "\n\n" not in opening:
        opening += of_sample[of_sample.find("\n\n") :] if "\n\n" in of_sample else ""
    own = sections.get("Raises", "")
    errors = (_OF_PARAMETERS if "Parameters" in sections else "") + (own and f"{own}\n")
    sections = given | sections | {"Raises": errors + given["Raises"]}
    parts = [f"{head}{sections[title]}" for title, head in _HEADS.items() if title in sections]
    return opening + "".join(parts)


def _taken_apart(doc: str) -> tuple[str, dict[str, str]]:
    """What comes before the first section, and the sections by their heads."""
    found = [
        (place, title, head) for title, head in _HEADS.items() if (place := doc.find(head)) > 0
    ]
    ends = [*(place for place, _, _ in found[1:]), len(doc)]
    sections = {
        title: doc[place + len(head) : end]
        for (place, title, head), end in zip(found, ends, strict=True)
    }
    return doc[: found[0][0]] if found else doc, sections


def _shape(fn: Function) -> str:
    if not fn.shape.broadcast:
        return f"``{fn.shape.text}``: rows and columns of each tile."
    return (
        f"``{fn.shape.text}``: {fn.arity} tiles whose sides are equal or 1; the result has the "
        "larger sides."
    )


def _cycles(fn: Function) -> str:
    constant = fn.cycles.constant
    if fn.flops and not fn.cycles:
        return "``ceil(FLOPs / compute_bw)`` cycles."
    if fn.flops:
        return f"``ceil(FLOPs / compute_bw) + {fn.cycles}`` cycles."
    if constant is not None:
        return f"{constant} cycle{'s' * (constant != 1)}, whatever the size."
    return f"``{fn.cycles}`` cycles."


def _size(side: Polynomial) -> int:
    value = side.at({v: _SIDES.get(str(v), _OTHER) for v in side.variables()})
    assert isinstance(value, int)
    return value


def _example(fn: Function, spelling: str) -> str:
    lines, names = [">>> with st.Program(compute_bw=64) as p:"], []
    folds = fn.shape.states > 0
    for i, tile in enumerate(fn.shape.operands[fn.shape.states :]):
        rows, cols = (_size(side) for side in tile)
        name = _NAMES[i] if len(fn.shape.operands) <= len(_NAMES) else f"x{i}"
        names.append(name)
        if fn.kinds[fn.shape.states + i] == "address":
            lines.append(f"...     {name} = st.metadata([[1]])")
        else:
            lines.append(
                f"...     {name} = st.linear_load(np.ones(({rows}, {cols}), np.float32), "
                f"({rows}, {cols}))"
            )
    if folds:
        lines.append(f"...     {names[0]}.accum({spelling}, 1).consume()")
    else:
        lines.append(f"...     st.map({spelling}, {', '.join(names)}).consume()")
    sizes = {letter: _SIDES.get(letter, _OTHER) for letter in fn.shape.letters}
    return "\n".join([*lines, ">>> p.metrics().flops", f"{fn.flops.at(sizes)}"])
