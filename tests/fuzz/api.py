"""Programs, machines and runs through the public Python interface, valid and invalid ones.

Half of the cases are valid by construction as far as each operator can tell, so that programs get
deep; what runs obeys the laws of :mod:`tests.fuzz.laws`. In the others every argument may be
replaced by a nasty value: such a call does what it can or raises a StepSimError.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import stepsim as st
from stepsim.machine.model import Fifo, Hbm, OnChip
from tests.fuzz.laws import check_export, check_oracle, check_result, check_same, check_totals
from tests.fuzz.programs import Grown, grow
from tests.fuzz.script import Refused, Script

__all__ = ["grown_program", "one"]

_STEPS = 20_000
_ORACLE_STEPS = 3_000


def one(rng: random.Random) -> str:
    """A program, and some of what can be done with it."""
    script = Script(rng, dirt=rng.choice([0.0, 0.0, 0.05, 0.2]))
    grown = Grown(script)
    try:
        program = grown_program(grown)
        if script.dirt:
            _use(grown, program)
        else:
            _obey(grown, program)
    except Refused:
        return "refused"
    return "accepted"


def grown_program(g: Grown) -> Any:
    """A program that is complete, as far as what is refused on the way lets it be."""
    options: dict[str, Any] = {"compute_bw": g.rng.choice([4, 1024, None])}
    if g.rng.random() < 0.3:
        options |= {"par_dispatch": g.small(), "fifo_depth": g.rng.choice([2, 1, None, 64])}
    program = g.script.call("st.Program", st.Program, "fuzzed", **options)
    kept = len(g.streams)
    if not isinstance(program, st.Program):
        raise Refused
    _enter(g, program)
    assert kept == 0
    return program


def _enter(g: Grown, program: Any) -> None:
    refused = g.script.refusals

    def inside() -> None:
        with program:
            grow(g, g.rng.randint(1, 10))
            if g.rng.random() < 0.95:
                _close(program)

    g.script.exactly("<with program>", inside)
    g.script.refusals = refused


def _close(program: Any) -> None:
    """Discard what nobody reads."""
    looped = {s.key for op in program.operators if (s := op.loops_back()) is not None}
    for op in list(program.operators):
        for out in op.outputs:
            if not program.readers(out) and out.key not in looped:
                with st.chip(op.chip):
                    st.consume(out)


def _obey(g: Grown, program: Any) -> None:
    """Run a valid program twice, and compare with the formulas and the interpreter."""
    bindings = dict(g.routings)
    machine = _machine(g)
    depth = g.rng.choice([None, 1, 2, 16, 4096])
    limits = st.Limits(max_steps=10 * _STEPS)
    options = {"machine": machine, "fifo_depth": depth, "bindings": bindings, "limits": limits}
    result = g.script.exactly("st.simulate", st.simulate, program, **options)
    check_result(result)
    if g.rng.random() < 0.1:
        check_export(result)
    prepared = g.script.exactly(
        "st.prepare", st.prepare, program, machine=machine, fifo_depth=depth
    )
    check_same(
        result, g.script.exactly("prepared.result", prepared.result, bindings, limits=limits)
    )
    if result.status == "ok":
        check_totals(program, result, bindings | dict(g.lengths))
    if result.status != "limit" and result.engine_steps < _ORACLE_STEPS:
        check_oracle(program, machine, bindings, depth)
    _look(g, program)


def _machine(g: Grown) -> Any:
    overrides: dict[str, Any] = {}
    if g.rng.random() < 0.5:
        choices: dict[str, list[Any]] = {
            "hbm.channels": [1, 2, 7, 32, 64],
            "hbm.request_bytes": [64, 1, 100],
            "hbm.latency": [0, 1, 100],
            "hbm.interval": [1, 2, 9, 1000],
            "hbm.startup": [0, 5, 300],
            "hbm.model": ["channel", "uncontended"],
            "onchip.bytes_per_cycle": [1, 64, 4096],
            "fifo.depth": [1, 2, None],
            "closure_slack": [0, 1],
        }
        for key in g.rng.sample(sorted(choices), g.rng.randint(1, 3)):
            overrides[key] = g.script.maybe(g.rng.choice(choices[key]))
    name = g.rng.choice(["sda-1024", "sda-hdl"])
    return g.script.call("st.load_machine", st.load_machine, name, g.script.maybe(overrides))


def _use(g: Grown, program: Any) -> None:
    """Some calls with any arguments. Those that are refused hinder no other."""
    refused = False
    for action in g.rng.sample([_simulate, _prepare, _measure, _look, _evaluate, _more], 3):
        try:
            action(g, program)
        except Refused:
            refused = True
    if refused:
        raise Refused


def _run_options(g: Grown) -> dict[str, Any]:
    call, rng = g.script.call, g.rng
    limits = call(
        "st.Limits", st.Limits, max_steps=_STEPS, max_cycles=rng.choice([None, 1, 100, 10**9])
    )
    # A limit that a nasty value has lifted must not make the case endless.
    if not isinstance(limits, st.Limits) or limits.max_steps is None or limits.max_steps > _STEPS:
        limits = st.Limits(max_steps=_STEPS)
    given = g.script.maybe(limits)
    options = {"limits": limits if given is None else given}
    if rng.random() < 0.5:
        options["seed"] = g.script.maybe(rng.choice([None, 1]))
    if rng.random() < 0.3:
        options["progress"] = g.script.maybe(lambda progress: None)
    return options


def _bindings(g: Grown) -> Any:
    given = {table: g.script.maybe(indices) for table, indices in g.routings}
    if g.rng.random() < 0.05:
        given[g.rng.choice(["x", None, 3])] = 1
    return g.script.maybe(given)


def _simulate(g: Grown, program: Any) -> None:
    machine = g.script.maybe(_machine(g))
    options = {"machine": machine, "bindings": _bindings(g), **_run_options(g)}
    if g.rng.random() < 0.3:
        options["fifo_depth"] = g.script.maybe(g.rng.choice([1, 2, 2**20]))
    result = g.script.exactly("st.simulate", st.simulate, g.script.maybe(program), **options)
    check_result(result)
    g.script.call("result.to_arrow", result.to_arrow, g.rng.choice(["run", "units", "fifos"]))
    if g.rng.random() < 0.1:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / g.rng.choice(["run.parquet", "a/b.parquet", ""])
            g.script.call("result.to_parquet", result.to_parquet, path)


def _prepare(g: Grown, program: Any) -> None:
    prepared = g.script.call(
        "st.prepare", st.prepare, program, machine=_machine(g), fifo_depth=g.rng.choice([None, 1])
    )
    options = _run_options(g)
    verb = g.rng.choice(["run", "run_with_units", "result", "image", "execute", "decisions"])
    if verb in ("run", "run_with_units"):
        options = {"limits": options["limits"]}
    elif verb in ("image", "decisions"):
        options = {}
    if verb == "decisions":
        # It takes no limits, and keeps all tokens.
        options = {"limits": st.Limits(max_steps=_STEPS)}
        whole = g.script.exactly("prepared.run", prepared.run, dict(g.routings), **options)
        options = {}
        if whole.status == "limit":
            return
    elif verb == "execute":
        options.pop("seed", None)
    g.script.exactly(f"prepared.{verb}", getattr(prepared, verb), _bindings(g), **options)


def _measure(g: Grown, program: Any) -> None:
    call, rng = g.script.call, g.rng
    counting = rng.choice(["executed", "paper", "published", "published2"])
    flags = {"count_fifos": rng.random() < 0.5, "on_demand": rng.choice([None, True, False])}
    metrics = call("program.metrics", program.metrics, counting=counting, **flags)
    assert repr(metrics)
    assert all(repr(row) for row in metrics.table())
    symbols = metrics.free_symbols()
    values = {symbol: g.script.maybe(g.small(0, 3)) for symbol in symbols if rng.random() < 0.9}
    values |= {key: g.script.maybe(value) for key, value in [*g.routings, *g.lengths]}
    if rng.random() < 0.2:
        values[rng.choice(["x", st.graph.Dim(3), g.any()])] = g.script.maybe(1)
    quantity = rng.choice(["off_chip_traffic", "on_chip_memory", "flops"])
    actions = [
        lambda: call("metrics.bind", metrics.bind, values),
        lambda: call("metrics.lambdify", metrics.lambdify, quantity, symbols),
        lambda: g.script.exactly(
            "metrics.operational_intensity", lambda: metrics.operational_intensity
        ),
        lambda: g.script.exactly("metrics.allocated_compute", lambda: metrics.allocated_compute),
    ]
    made = rng.choice(actions)()
    if isinstance(made, st.graph.BoundMetrics):
        assert repr(made)
        call("bound.value", made.value, rng.choice(g.streams).shape[0] if g.streams else 1)


def _look(g: Grown, program: Any) -> None:
    """Texts of a program can always be made."""
    exactly = g.script.exactly
    for name in ("to_dot", "to_mermaid", "fingerprint", "__str__", "__repr__"):
        assert exactly(f"program.{name}", getattr(program, name))
    for stream in g.streams[-3:]:
        assert exactly("stream.describe", stream.describe)
        assert repr(stream)
        g.script.call("program.provenance", program.provenance, stream.shape[0].expr)


def _evaluate(g: Grown, program: Any) -> None:
    """Values of programs that a run found to be small."""
    from stepsim.simulation import run_functional

    bindings = _bindings(g)
    options = {"bindings": dict(g.routings), "limits": st.Limits(max_steps=2_000)}
    sized = g.script.exactly("st.simulate", st.simulate, program, **options)
    if sized.status == "limit":
        return
    tensors = {"w": g.script.maybe(np.ones((4, 2)))} if g.rng.random() < 0.2 else None
    scalar = g.script.maybe(g.rng.choice([None, "f32"]))
    with np.errstate(all="ignore"):
        g.script.call(
            "run_functional", run_functional, program, tensors, bindings=bindings, scalar=scalar
        )


def _more(g: Grown, program: Any) -> None:
    """Functions that take neither a program nor a stream."""
    call, rng = g.script.call, g.rng
    actions = [
        lambda: call("st.graph.wire", st.graph.wire, program, _bindings(g)),
        lambda: call("st.spec", st.spec, 2, 3, dtype="f32", name="w").size_bytes,
        lambda: _machine_class(g),
        lambda: _synthetic(g),
        lambda: _routing(g),
        lambda: call("st.Tile.of", st.Tile.of, "f32", 2, 3).elements(),
        lambda: call("st.graph.Dim.of", st.graph.Dim.of, 3),
        lambda: call("st.routing", st.routing, [[0]], 1),
        lambda: call("st.load_machine", st.load_machine, "sda-1024").summary(),
        lambda: call("program.set_depth", program.set_depth, g.any(), 3),
        lambda: _rewrite(g, program),
        lambda: g.script.exactly("program.__enter__", program.__enter__),
        lambda: call(
            "st.workloads.Data.of", st.workloads.Data.of, routing=[[0, 1]], kv_lengths=[3], rows=1
        ),
    ]
    rng.choice(actions)()


def _rewrite(g: Grown, program: Any) -> None:
    rule = g.script.maybe(lambda p: None)
    # What a rule raises is its author's.
    g.script.exactly("program.rewrite", program.rewrite, repr if callable(rule) else rule)


def _machine_class(g: Grown) -> None:
    """Machines without a file; what is made can be used and written down."""
    call, rng = g.script.call, g.rng
    times = {"latency": 2, "interval": 1, "startup": 0}
    sizes = {"request_bytes": 64, "channels": rng.choice([1, 7, 32])}
    hbm: Any = {**sizes, **times}
    if rng.random() < 0.5:
        hbm["model"] = rng.choice(["published", "interleaved", "uncontended", "nothing"])
    onchip: Any = {"bytes_per_cycle": 64}
    if rng.random() < 0.5:
        hbm, onchip = call("Hbm", Hbm, **hbm), call("OnChip", OnChip, **onchip)
    else:
        hbm = {key: g.script.maybe(value) for key, value in hbm.items()}
    more: dict[str, Any] = {}
    if rng.random() < 0.3:
        more = {"fifo": call("Fifo", Fifo, depth=rng.choice([1, None])), "closure_slack": 1}
    made = call("st.Machine", st.Machine, name="m", hbm=hbm, onchip=onchip, **more)
    again = g.script.exactly("st.load_machine", st.load_machine, made)
    assert again == made, "a machine that is loaded again is another"
    assert made.summary()
    assert made.to_yaml()
    with st.Program() as program:
        st.linear_load(st.spec(4, 4), (2, 4)).consume()
    check_result(g.script.exactly("st.simulate", st.simulate, program, machine=made))


def _synthetic(g: Grown) -> None:
    rng = g.rng
    experts = rng.choice([1, 8, 64])
    options: dict[str, Any] = {"seed": rng.choice([0, 7, 2**70]), "skew": rng.choice([0.5, 0, 64])}
    if rng.random() < 0.4:
        options |= {"layer": g.small(), "step": g.small(), "model": "m"}
    table = g.script.call(
        "st.traces.synthetic_routing", st.traces.synthetic_routing, g.small(), experts, 1, **options
    )
    again = g.script.exactly("st.traces.read_routing", st.traces.read_routing, table)
    assert (again.experts == table.experts).all(), "a table that is read again is another"


def _routing(g: Grown) -> None:
    """Tables of every form in memory; those that are read can be read again."""
    rng = g.rng
    tokens, k = g.small(1, 5), g.small(1, 2)
    ids = np.array([rng.sample(range(4), k) for _ in range(tokens)])
    forms: list[Any] = [
        ids,
        ids.astype("u1"),
        ids[:, None, :],
        pa.table({"experts": ids.tolist()}),
        pa.table({"experts": ids.tolist(), "token": list(range(tokens))}),
        pa.table({"experts": [3, 2]}),
    ]
    options: dict[str, Any] = {}
    choices = {
        "experts": 4, "k": k, "layer": 0, "step": 0, "model": "m", "tokens": tokens, "window": 0,
        "owner": "m",
    }  # fmt: skip
    for key, value in choices.items():
        if rng.random() < 0.25:
            options[key] = value
    table = g.script.call(
        "st.traces.read_routing", st.traces.read_routing, rng.choice(forms), **options
    )
    assert repr(table)
    assert len(table.experts)
