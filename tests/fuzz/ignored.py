"""Nothing is accepted and ignored: a program or case with one argument changed is another.

A valid program is built twice from the same draws, the second time with one argument of one call
replaced by another value of its type. When that is accepted, something of the program differs: its
fingerprint, its text, its symbolic totals or its run. So it is with the parameters of a case.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import stepsim as st
from stepsim.graph import wire
from tests.fuzz.driver import note
from tests.fuzz.programs import Grown, grow
from tests.fuzz.script import Refused, Script
from tests.fuzz.workloads import PARAMETERS, TINY, WIDE, with_effect

__all__ = ["built_of", "changed", "few_requests", "one", "run_of"]

_STEPS = 3_000

_MEANT: Mapping[str, str] = {
    "Dim.ceil_div: 0": "of a dim that no operator has",
    "Dim.of: 0": "a dim that no operator has",
    "program.dim: 0": "a dim that no operator has",
    "program.ragged: 0": "a dim that no operator has",
    "program.ragged: static": "a dim that no operator has",
    "st.spec: name": "by which runs on values are given tensors",
    "st.linear_load: 0": "what a tensor holds counts in runs on values",
    "st.random_load: 1": "what a tensor holds counts in runs on values",
}
"""Arguments that may change nothing, and why."""

_PARTS = ("st.fn.", "st.Function", "st.function", "st.spec", "st.Tile")
"""Calls that make what another call takes; when that is refused nobody has it."""

_CHOICES: Mapping[tuple[str, str], list[Any]] = {
    ("attention", "micro_batches"): [None, (4, 6), (1, 9)],
    ("attention", "shape"): [None, WIDE],
    ("attention", "regions"): [1, 2, 4, 9],
}
"""Values of parameters that mean different things for the data."""

_WITHOUT_EFFECT: Mapping[tuple[str, str], str] = {
    ("moe", "pack_bw"): "static tiles are not packed",
    ("attention", "block"): "a region alone gets all blocks",
    ("attention", "micro_batches"): "a block that holds all restarts nowhere",
    ("attention", "regions"): "regions without requests are not built",
    ("decoder", "weight_loads"): "there is never more than one for each tile",
}
"""Parameters of workloads that change nothing for some values of the others, and why."""


def one(rng: random.Random) -> str:
    """A program or a case, and the same with a change."""
    return (_program if rng.random() < 0.7 else _case)(rng)


class Changing(Script):
    """A clean script that changes one argument, the ``turn``-th of all.

    Attributes
    ----------
    calls : what was called with each argument.
    replaced : the argument before and after the change; None as long as there was none.
    refused : whether the call with the change was refused.
    refused_turns : arguments of calls that were refused; what they say has no effect anyway.
    """

    def __init__(self, rng: random.Random, turn: int | None = None) -> None:
        super().__init__(rng, dirt=0.0)
        self.turn = turn
        self.calls: list[str] = []
        self.replaced: tuple[Any, Any] | None = None
        self.refused = False
        self.refused_turns: set[int] = set()

    def call(
        self, written: str, function: Callable[..., Any], /, *given: Any, **options: Any
    ) -> Any:
        arguments = [self._turned(written, f"{place}", value) for place, value in enumerate(given)]
        named = {key: self._turned(written, key, value) for key, value in options.items()}
        here = self.turn is not None and self.turn == self._last_turn(len(given) + len(options))
        try:
            return self.exactly(written, function, *arguments, **named)
        except Refused:
            self.refused = self.refused or here
            last = len(self.calls)
            self.refused_turns |= set(range(last - len(given) - len(options), last))
            raise

    def _last_turn(self, count: int) -> int | None:
        first = len(self.calls) - count
        return self.turn if self.turn is not None and first <= self.turn < len(self.calls) else None

    def _turned(self, written: str, which: str, value: Any) -> Any:
        mine = len(self.calls) == self.turn
        self.calls.append(f"{written}: {which}")
        if not mine:
            return value
        other = changed(value)
        self.replaced = None if other is None else (value, other[0])
        return value if other is None else other[0]


def changed(value: Any) -> tuple[Any] | None:
    """Another value of the same type, alone in a tuple; None for types that have no other here."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1,)
    if isinstance(value, str):
        if value in st.graph.DType.__members__:
            return ("f16" if value != "f16" else "i8",)
        pairs = {"addr": "data", "data": "addr"}
        return (pairs.get(value, f"{value}x"),)
    if isinstance(value, st.Function):
        return (st.fn.add if value is not st.fn.add else st.fn.mul,)
    if isinstance(value, np.ndarray) and value.dtype.kind == "i":
        other = value.copy()
        other.flat[-1] = 1 - other.flat[-1] if other.max(initial=0) <= 1 else 0
        return None if (other == value).all() else (other,)
    if isinstance(value, list) and value and all(isinstance(one, int) for one in value):
        return ([*value[:-1], value[-1] + 1],)
    return None


def _grown(seed: float, turn: int | None) -> tuple[Changing, st.Program]:
    rng = random.Random(seed)
    script = Changing(rng, turn)
    g = Grown(script)
    with st.Program("fuzzed", compute_bw=64) as program:
        grow(g, rng.randint(1, 6))
        looped = {s.key for op in program.operators if (s := op.loops_back()) is not None}
        for op in list(program.operators):
            for out in op.outputs:
                if not program.readers(out) and out.key not in looped:
                    st.consume(out)
    return script, program


def _told_of(program: st.Program) -> dict[str, Any]:
    """All that can be seen of a program, by what it is."""
    found: dict[str, Any] = {
        "text": str(program),
        "drawing": program.to_dot(),
        "depths": dict(program.depths),
        "assumptions": [str(one) for one in program.assumptions],
    }
    try:
        found["fingerprint"] = program.fingerprint()
        metrics = program.metrics()
        found["metrics"] = repr(metrics), [repr(row) for row in metrics.table()]
        result = st.simulate(program, limits=st.Limits(max_steps=_STEPS))
    except st.StepSimError as error:
        return found | {"error": str(error)}
    return found | {
        "run": (result.status, result.cycles, str(result.diagnosis)),
        "units": result.units.to_pydict(),
        "fifos": result.fifos.to_pydict(),
    }


def _program(rng: random.Random) -> str:
    seed = rng.random()
    try:
        usual, program = _grown(seed, None)
    except st.StepSimError:
        return "refused"
    turns = [
        turn
        for turn, which in enumerate(usual.calls)
        if which not in _MEANT
        and turn not in usual.refused_turns
        and not (usual.refusals and which.startswith(_PARTS))
    ]
    if not turns:
        return "refused"
    turn = rng.choice(turns)
    try:
        script, other = _grown(seed, turn)
    except st.StepSimError:
        return "refused"
    if script.replaced is None or script.refused:
        return "refused"
    before, after = script.replaced
    note(f"# changed: {script.calls[turn]} from {before!r} to {after!r}")
    same = _told_of(program) == _told_of(other)
    assert not same, f"{script.calls[turn].replace(': ', ' ')} is ignored"
    return "accepted"


def _case(rng: random.Random) -> str:
    """A case with all parameters given, and with one of them changed."""
    name = rng.choice(sorted(PARAMETERS))
    known = {key: _CHOICES.get((name, key), values) for key, values in PARAMETERS[name].items()}
    known.pop("variant", None)  # it only gives values that are not given
    given = with_effect(name, {key: rng.choice(values) for key, values in known.items()})
    if name != "swiglu":
        given["model"] = TINY
    which = rng.choice([key for key in given if key in known])
    other = given | {which: rng.choice(known[which])}
    if other[which] == given[which]:
        return "refused"
    data = few_requests()
    note(f"{name} of {given}, {which} changed to {other[which]!r}")
    try:
        one_of, other_of = (built_of(name, values, data) for values in (given, other))
    except st.StepSimError as error:
        note(f"# refused: {error}")
        return "refused"
    reason = _WITHOUT_EFFECT.get((name, which))
    assert one_of != other_of or reason is not None, f"{name} {which} is ignored"
    return "accepted"


def few_requests() -> st.workloads.Data:
    """Data that small cases take."""
    rows = range(10)
    return st.workloads.Data.of(
        routing=[[row % 4, (row + 1) % 4] for row in rows],
        kv_lengths=[3 + 17 * row for row in rows],
    )


def built_of(name: str, given: Mapping[str, Any], data: st.workloads.Data) -> Any:
    """What a case makes of its parameters: fingerprint of the program, and what is bound to it."""
    built = st.simulation.make_case(name, data, **given).built
    bindings = [np.asarray(one).tolist() for one in built.bindings(data).values()]
    return built.program.fingerprint(), bindings


def run_of(name: str, given: Mapping[str, Any], data: st.workloads.Data) -> Any:
    """What the program of a case has and does, without settings that none of its operators uses."""
    case = st.simulation.make_case(name, data, **given)
    program, result = case.built.program, case.result(data)
    tensors = [str(op.tensor) for op in program.operators if hasattr(op, "tensor")]
    settings = [str(one.params) for one in wire(program, case.bound(data)).units]
    tables = result.units.to_pydict(), result.fifos.to_pydict()
    return str(program), tensors, settings, case.measures(result, data), tables
