"""Wrong values for every public argument: the call works, or a StepSimError says why not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import sympy

import stepsim as st
from stepsim.errors import StepSimError
from stepsim.graph import fn
from stepsim.machine.model import Fifo, Hbm, OnChip
from tests.graph.support import scratch
from tests.language_calls import LANGUAGE, Call, Table, x

VALUES: dict[str, Any] = {
    "None": None, "nan": float("nan"), "inf": float("inf"), "-1": -1, "0": 0, "1": 1,
    "2**31": 2**31,
    "2**40": 2**40, "2**70": 2**70, "True": True, "text": "x", "empty text": "", "[]": [], "()": (),
    "[None]": [None], "[1, 2]": [1, 2], "[2.5, 1]": [2.5, 1], "[[1], [1, 2]]": [[1], [1, 2]],
    "[-1]": [-1], "[2**70]": [2**70], "{}": {}, "np.int8(3)": np.int8(3), "array": np.array([1, 2]),
    "texts": np.array(["a", "b"]), "2.5": 2.5, "bytes": b"x", "symbol": sympy.Symbol("s"),
    "half": sympy.Rational(1, 2), "sympy -1": sympy.Integer(-1), "object": object(),
    "type": Exception,
    "half a character": "\ud800", "far": np.array([2**64 - 1], np.uint64),
    "masked": np.ma.masked_array([1, 2], [0, 1]),
    "complex": 1j, "set": {1}, "function": lambda *_: None,
}  # fmt: skip


def ready() -> st.Program:
    """A small program, finished."""
    with st.Program("ready", compute_bw=8) as program:
        st.linear_store(x().map(fn.silu))
    return program


def routed() -> tuple[st.Program, st.graph.Routing]:
    with st.Program("routed") as program:
        routing = st.routing(st.spec(4, 2), 4)
        routing.multihot().consume()
    return program, routing


def bound(**options: Any) -> Any:
    program, routing = routed()
    return st.simulate(program, bindings={routing: options["indices"]})


LIMITS = {"max_cycles": 10, "max_steps": 10, "max_wall_seconds": 1.0}
HBM = {
    "model": "interleaved",
    "request_bytes": 64,
    "channels": 2,
    "latency": 1,
    "interval": 1,
    "startup": 0,
}
MOE = {"model": "qwen3-30b-a3b", "tile": 8}

RUNS: Table = {
    "Limits": lambda: (lambda **kw: st.simulate(ready(), limits=st.Limits(**kw)), LIMITS),
    "Program.fingerprint": lambda: (ready().fingerprint, {}),
    "Prepared.result": lambda: (
        st.prepare(ready()).result,
        {"bindings": None, "limits": None, "progress": None, "seed": 1},
    ),
    "Prepared.execute": lambda: (
        st.prepare(ready()).execute,
        {"limits": None, "progress": None, "keep_tokens": False},
    ),
    "Result.to_arrow": lambda: (st.simulate(ready()).to_arrow, {"table": "run"}),
    "bindings": lambda: (bound, {"indices": [[0, 1]] * 4}),
    "list_machines": lambda: (st.machine.list_machines, {}),
    "load_machine": lambda: (st.load_machine, {"machine": "sda-1024", "overrides": {}}),
    "load_machine with a change": lambda: (
        lambda value: st.load_machine("sda-1024", {"fifo.depth": value}),
        {"value": 4},
    ),
    "make_case": lambda: (
        lambda workload, **kw: st.simulation.make_case(workload, **(MOE | kw)),
        {"workload": "moe", "data": None, "machine": None, "config": None, "counting": None},
    ),
    "make_case of a parameter": lambda: (
        lambda **kw: st.simulation.make_case(
            "moe", st.workloads.Data.of(routing=[[0, 1]] * 4), **(MOE | kw)
        ),
        {"model": "qwen3-30b-a3b", "tile": 8, "compute_bw": 8, "regions": 2},
    ),
    "Data.of": lambda: (st.workloads.Data.of, {"routing": [[0, 1]], "kv_lengths": [4], "rows": 1}),
    "Data.of rows": lambda: (st.workloads.Data.of, {"rows": 1, "whole": 2}),
    "Machine": lambda: (
        st.Machine,
        {
            "name": "m",
            "description": "",
            "model": "step-2025",
            "hbm": Hbm(**HBM),
            "onchip": OnChip(bytes_per_cycle=1),
            "fifo": Fifo(depth=1),
            "closure_slack": 0,
        },
    ),
    "Machine of dicts": lambda: (
        st.Machine,
        {"name": "m", "hbm": HBM, "onchip": {"bytes_per_cycle": 1}},
    ),
    "Hbm": lambda: (Hbm, HBM),
    "OnChip": lambda: (OnChip, {"bytes_per_cycle": 1}),
    "Fifo": lambda: (Fifo, {"depth": 1}),
    "prepare": lambda: (
        st.prepare,
        {"program": ready(), "machine": "sda-1024", "fifo_depth": 2},
    ),
    "read_routing": lambda: (
        st.traces.read_routing,
        {
            "source": np.array([[0, 1], [1, 2]]),
            "experts": 4,
            "k": 2,
            "layer": 0,
            "step": 0,
            "model": "m",
            "tokens": 2,
            "window": None,
            "owner": None,
        },
    ),
    "simulate": lambda: (
        st.simulate,
        {
            "program": ready(),
            "machine": "sda-1024",
            "bindings": None,
            "fifo_depth": 2,
            "limits": None,
            "progress": None,
            "seed": 1,
        },
    ),
    "synthetic_routing": lambda: (
        st.traces.synthetic_routing,
        {
            "tokens": 4,
            "experts": 4,
            "k": 2,
            "seed": 0,
            "skew": 1.0,
            "layer": 0,
            "step": 0,
            "model": "m",
        },
    ),
    "wire": lambda: (st.graph.wire, {"program": ready(), "bindings": None}),
}


def attempt(action: Callable[[], object], where: str, problems: list[str]) -> bool:
    """Whether ``action`` worked; anything but a StepSimError with a message is a problem."""
    try:
        action()
    except StepSimError as error:
        if not str(error):
            problems.append(f"{where}: no message")
        return False
    except Exception as error:  # what must not leave the package
        problems.append(f"{where}: {type(error).__name__}: {error}")
        return False
    return True


def with_value(make: Callable[[], Call], argument: str, value: Any) -> None:
    call, arguments = make()
    call(**(arguments | {argument: value}))


def run_with(make: Callable[[], Call], argument: str, value: Any) -> None:
    """Whatever is taken survives to the end of a run, or is refused on the way."""
    with st.Program(compute_bw=8) as program:
        with_value(make, argument, value)
        for operator in list(program.operators):
            for stream in operator.outputs:
                if not program.readers(stream) and operator.loops_back() is None:
                    stream.consume()
    program.metrics()
    program.fingerprint()
    str(program)
    program.to_dot()
    program.to_mermaid()
    exported(st.simulate(program, limits=st.Limits(max_steps=500)))


def exported(result: st.Result) -> None:
    for table in ("run", "units", "fifos"):
        result.to_arrow(table).validate(full=True)
    repr(result), result._repr_html_()


def arguments_of(make: Callable[[], Call]) -> list[str]:
    with scratch(compute_bw=8):
        return list(make()[1])


@pytest.mark.parametrize("name", LANGUAGE)
def test_the_language(name: str) -> None:
    make, problems = LANGUAGE[name], list[str]()
    for argument in arguments_of(make):
        for title, value in VALUES.items():
            where = f"{argument}={title}"
            with scratch(compute_bw=8):
                taken = attempt(partial(with_value, make, argument, value), where, problems)
            if taken:
                attempt(partial(run_with, make, argument, value), f"{where} in a run", problems)
    assert not problems, "\n".join(problems)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_running(name: str) -> None:
    make, problems = RUNS[name], list[str]()
    for argument in make()[1]:
        for title, value in VALUES.items():
            where = f"{argument}={title}"
            attempt(partial(with_value, make, argument, value), where, problems)
    assert not problems, "\n".join(problems)


def test_every_example_works() -> None:
    for make in LANGUAGE.values():
        with scratch(compute_bw=8):
            call, arguments = make()
            call(**arguments)
    for make in RUNS.values():
        call, arguments = make()
        call(**arguments)
