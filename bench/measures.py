"""What ``make bench-check`` measures: parts of the path of a run, each from data made here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from bench.networks import chain, ladder, merge, random_loads
from stepsim.kernels import execute
from stepsim.lowering import Network, build_image
from stepsim.simulation import prepare, simulate, simulate_many
from stepsim.workloads import Attention, Data, Moe
from tests.simulation.test_many import choices, two_experts

__all__ = ["MEASURES", "Measure", "qwen_layer"]

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Measure:
    """``make`` prepares; what it returns is measured, the second time that it is called.

    ``language`` says what most of the time is spent in, which chooses the calibration kernel.
    """

    name: str
    language: Literal["compiled", "python"]
    make: Callable[[], Work]


def _engine(make: Callable[[], Network]) -> Callable[[], Work]:
    def prepared() -> Work:
        image = build_image(make())
        return lambda: execute(image)

    return prepared


def _routing(experts: int, chosen: int) -> NDArray[np.int64]:
    """64 tokens, each with a few of the experts, the first ones more often."""
    random = np.random.default_rng(1)
    weight = 1.0 / np.arange(2, experts + 2)
    rows = [random.choice(experts, chosen, False, weight / weight.sum()) for _ in range(64)]
    return np.array(rows, np.int64)


def _moe(model: str, tile: Any) -> tuple[Moe, Data]:
    data = Data.of(routing=_routing(8, 2) if model == "mixtral-8x7b" else _routing(128, 8))
    return Moe.of(model=model, tile=tile, config="published", data=data), data


def qwen_layer() -> tuple[Moe, Data]:
    """A layer of Qwen3-30B-A3B in tiles of 32 tokens."""
    return _moe("qwen3-30b-a3b", 32)


def _attention() -> tuple[Attention, Data]:
    lengths = np.random.default_rng(1).integers(100, 3000, 16)
    data = Data.of(kv_lengths=lengths)
    return Attention.of(model="qwen3-30b-a3b", strategy="dynamic", data=data), data


def _run_again(make: Callable[[], tuple[Any, Data]]) -> Callable[[], Work]:
    """A prepared program runs once more: binding, engine, and the tables of the result."""

    def prepared() -> Work:
        workload, data = make()
        built = workload.build(data)
        ready = prepare(built.program)
        return lambda: ready.run(built.bindings(data))

    return prepared


def _build(make: Callable[[], tuple[Any, Data]]) -> Callable[[], Work]:
    def prepared() -> Work:
        workload, data = make()
        return lambda: workload.build(data)

    return prepared


def _simulate(make: Callable[[], tuple[Any, Data]]) -> Callable[[], Work]:
    def prepared() -> Work:
        workload, data = make()
        built = workload.build(data)
        return lambda: simulate(built.program, bindings=built.bindings(data))

    return prepared


def _many() -> Work:
    program, routing = two_experts()
    indices = choices(1000)
    return lambda: simulate_many(program, {routing: indices}, threads=1)


def _image() -> Work:
    network = chain(300, 100, 8)
    return lambda: build_image(network)


MEASURES: Final = (
    Measure("engine: chain of maps, depth 8", "compiled", _engine(lambda: chain(500, 500, 8))),
    Measure("engine: chain of maps, depth 2", "compiled", _engine(lambda: chain(500, 500, 2))),
    Measure(
        "engine: chain of flatten, depth 8", "compiled",
        _engine(lambda: chain(500, 500, 8, "Flatten")),
    ),
    Measure(
        "engine: chain of flatten, depth 2", "compiled",
        _engine(lambda: chain(500, 500, 2, "Flatten")),
    ),
    Measure("engine: forks and joins", "compiled", _engine(lambda: ladder(100, 500, 8))),
    Measure("engine: merge of 64 streams", "compiled", _engine(lambda: merge(64, 50))),
    Measure(
        "memory: random sizes, 127 channels", "compiled", _engine(lambda: random_loads(64, 40))
    ),
    Measure("run: Qwen layer, tile 32", "compiled", _run_again(qwen_layer)),
    Measure(
        "run: Mixtral layer, dynamic", "compiled",
        _run_again(lambda: _moe("mixtral-8x7b", "dynamic")),
    ),
    Measure("run: attention, dynamic", "compiled", _run_again(_attention)),
    Measure("many: 1000 runs of two experts", "compiled", _many),
    Measure(
        "build: Mixtral layer, dynamic", "python", _build(lambda: _moe("mixtral-8x7b", "dynamic"))
    ),
    Measure("build: attention, dynamic", "python", _build(_attention)),
    Measure("simulate: attention, dynamic", "python", _simulate(_attention)),
    Measure("image: chain of 300 units", "python", _image),
)  # fmt: skip
"""In the order in which they are measured; names are keys of bench/baseline.json."""
