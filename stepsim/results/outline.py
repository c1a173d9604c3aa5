"""The outline of a program: its boxes with their parameters, and the streams between them.

It is what pictures of a program show, and what two programs are compared by. Lanes of an operator
and the parts of a call are one box (:mod:`stepsim.results.folding`), so that it is small for
programs of any size, and files of runs and baselines keep it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepsim.graph import Compute, Function, Wiring
from stepsim.results.folding import Folded, folded

if TYPE_CHECKING:
    from stepsim.graph import Operator, Program, Stream

OUTLINE_VERSION: Final = 1
"""Raised by every change after which outlines of the same program differ."""

_MOST_VALUES: Final = 4
"""Different values of lanes that are listed; more are shortened to a digest."""

_LONG: Final = 120
"""Letters of a value from which on it is shortened."""

Outline = Mapping[str, Any]
"""Plain values for JSON: ``version``, ``program``, ``boxes`` and ``edges``."""


def outline_of(wiring: Wiring) -> dict[str, Any]:
    """The outline of a program, as plain values for JSON.

    Returns
    -------
    ``version``; ``program``, its defaults; ``boxes``, each with ``name``, ``operators`` (in the
    language), ``function``, ``source``, ``count`` (of lanes), ``units``, ``parameters`` and
    ``outputs`` (of the first lane; ``all_outputs`` has those of all); and ``edges``: numbers of
    two boxes, ``count`` (of FIFOs), ``elements`` and ``depths``.
    """
    units, fifos = wiring.units, wiring.fifos
    ends = fifo_ends(wiring)
    boxes = folded(
        [unit.name for unit in units],
        [unit.kind for unit in units],
        [unit.source for unit in units],
        ends,
    )
    several = any(unit.chip for unit in units)
    box_of = {unit: number for number, box in enumerate(boxes) for unit in box.members}
    joined: dict[tuple[int, int], list[int]] = {}
    for fifo, (producer, consumer) in enumerate(ends):
        joined.setdefault((box_of[producer], box_of[consumer]), []).append(fifo)
    texts = _Texts()
    edges = [
        {
            "from": source,
            "to": target,
            "count": len(members),
            "elements": _elements(fifos[members[0]].stream),
            "depths": texts.joined("default" if (d := fifos[f].depth) is None else str(d)
                                   for f in members),
        }
        for (source, target), members in joined.items()
        if source != target
    ]  # fmt: skip
    return {
        "version": OUTLINE_VERSION,
        "program": _defaults(wiring.program),
        "boxes": [
            _box(box, [units[u].operator for u in box.members], texts, several) for box in boxes
        ],
        "edges": edges,
    }


def fifo_ends(wiring: Wiring) -> list[tuple[int, int]]:
    """Number of the producing and of the consuming unit of every FIFO."""
    producers = {fifo: unit for unit, one in enumerate(wiring.units) for fifo in one.outputs}
    consumers = {fifo: unit for unit, one in enumerate(wiring.units) for fifo in one.inputs}
    return [(producers[fifo], consumers[fifo]) for fifo in range(len(wiring.fifos))]


def _defaults(program: Program) -> dict[str, Any]:
    found = {
        "compute_bw": program.compute_bw,
        "par_dispatch": program.par_dispatch,
        "fifo_depth": program.fifo_depth,
        **{f"flop_weights.{name}": weight for name, weight in program.flop_weights.items()},
    }
    assumed = [f"{one.left} == {one.right}" for one in program.assumptions]
    return {**found, **({"assumptions": "; ".join(assumed)} if assumed else {})}


def _box(
    box: Folded, operators: Sequence[Operator | None], texts: _Texts, several: bool
) -> dict[str, Any]:
    """A box, with the values of its lanes by parameter; of programs on several chips, theirs
    too."""
    values: dict[str, list[str]] = {}
    outputs: dict[tuple[int, int], list[str]] = {}
    made = [one for one in operators if one is not None]
    parts = len(operators) // box.count
    for number, operator in enumerate(operators):
        if operator is None:
            continue
        part = number % parts
        prefix = f"{operator.name}{part}." if parts > 1 else ""
        for name, value in _parameters(operator, several).items():
            values.setdefault(prefix + name, []).append(texts.of(value))
        for out in operator.outputs:
            outputs.setdefault((part, out.output), []).append(_elements(out))
    return {
        "name": box.name,
        "operators": list(dict.fromkeys(one.name for one in made)) or ["broadcast"],
        "function": next((one.function_name for one in made if one.function_name), ""),
        "source": box.source,
        "count": box.count,
        "units": len(box.members),
        "parameters": {name: texts.joined(found) for name, found in values.items()},
        "outputs": [found[0] for found in outputs.values()],
        "all_outputs": texts.joined(text for found in outputs.values() for text in found),
    }


def _elements(stream: Stream) -> str:
    """``[4, 1] of Tile[16x64 bf16]``."""
    return stream.describe().removeprefix("Stream")


def _parameters(operator: Operator, several: bool) -> dict[str, Any]:
    """The attributes of an operator, with the defaults of the program where it states none."""
    found = dict(operator.attributes())
    if isinstance(operator, Compute) and "compute_bw" in found:
        found["compute_bw"] = operator.bandwidth()
    if several:
        found["chip"] = operator.chip
    return {name: value for name, value in found.items() if value is not None}


class _Texts:
    """Values as texts that are equal only for equal values."""

    def of(self, value: Any) -> str:
        """A value as text; what is long is shortened, with a digest of the whole."""
        if isinstance(value, np.ndarray):
            sides = "x".join(map(str, value.shape))
            return f"array {sides} {value.dtype} {_digest(value.tobytes())}"
        if isinstance(value, Function):
            return value.stated()
        text = str(value)
        if len(text) <= _LONG:
            return text
        return f"{text[: _LONG // 2]}... {_digest(text.encode())}"

    def joined(self, values: Iterable[str]) -> str:
        """The values of lanes: the one that all have, or the different ones in order."""
        found = list(values)
        different = list(dict.fromkeys(found))
        if len(different) == 1:
            return different[0]
        if len(different) <= _MOST_VALUES and len(found) <= _MOST_VALUES:
            return ", ".join(found)
        whole = _digest(json.dumps(found).encode())
        return f"{different[0]}, {different[1]}, ... ({len(different)} values, {whole})"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]
