"""Networks by hand: what is refused, and what their units do beyond the recorded scenarios."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import stepsim as st
from stepsim.hardware import Machine, Network

_REFUSED: dict[str, tuple[Callable[[Network], object], type[Exception], str]] = {
    "unknown": (lambda n: n.map("m", "sorce"), st.errors.GraphError, "did you mean 'source'"),
    "twice read": (
        lambda n: [n.printer("p", "source"), n.printer("q", "source")],
        st.errors.GraphError,
        "put a fork",
    ),
    "twice named": (
        lambda n: [n.fork("f", "source"), n.source("f.1", [0])], st.errors.GraphError, "f.1",
    ),
    "port": (
        lambda n: [n.reader("r", [1], port=0), n.reader("s", [1], port=0)], st.errors.GraphError,
        "port 0 is taken",
    ),
    "no dims": (lambda n: n.reader("r", []), st.errors.ArgError, "one size or more"),
    "rank": (lambda n: n.inner_sum("s", "source", 0), st.errors.ArgError, "rank"),
    "no input": (lambda n: n.map("m"), st.errors.ArgError, "one input or more"),
    "times": (lambda n: n.source("x", [0, 1], times=[3]), st.errors.ArgError, "each of 2 messages"),
}  # fmt: skip


@pytest.mark.parametrize("what", _REFUSED)
def test_wrong_units_are_refused(what: str) -> None:
    build, error, words = _REFUSED[what]
    network = Network()
    network.source("source", [0])
    with pytest.raises(error, match=re.escape(words)):
        build(network)


def test_a_fifo_that_nothing_takes_from_is_named() -> None:
    network = Network()
    network.source("alone", [0])
    with pytest.raises(st.errors.GraphError, match="nothing takes from FIFO 'alone'"):
        st.hardware.simulate(network)


def test_gaps_of_ports_are_named() -> None:
    network = Network()
    network.printer("p", network.reader("r", [2], port=1))
    with pytest.raises(st.errors.GraphError, match="gaps"):
        st.hardware.simulate(network)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((64, 250, 512, 16, 16), "D must be a multiple of 16"),
        ((64, 256, 512, 48, 16), "tile_b = 48 does not divide B = 64"),
    ],
)
def test_sizes_of_the_layer_are_refused(sizes: tuple[int, ...], words: str) -> None:
    with pytest.raises(st.errors.ArgError, match=re.escape(words)):
        st.hardware.swiglu(*sizes)  # type: ignore[arg-type]


def _cycles_of_map(**rate: int) -> list[int]:
    """Cycles in which a map of 3 messages, offered from cycle 0, lets its consumer take one."""
    network = Network()
    network.sink(network.map("m", network.source("m.in", [0, 0, 1]), **rate))
    events = st.hardware.simulate(network, trace=True).events
    return [e["cycle"] for e in events.to_pylist() if (e["event"], e["place"]) == ("get", "m.out")]


def test_rate_and_latency_of_a_map() -> None:
    assert _cycles_of_map() == [2, 3, 4]
    assert _cycles_of_map(interval=4) == [2, 6, 10]
    assert _cycles_of_map(latency=5) == [6, 7, 8]  # it is a pipeline
    assert _cycles_of_map(interval=2, latency=3) == [4, 6, 8]


def test_rate_of_products_is_that_of_the_machine() -> None:
    layer = st.hardware.swiglu(16, 32, 32, 16, 16)
    slow = Machine(product={"interval": 50, "latency": 1})
    assert st.hardware.simulate(layer, slow).cycles > 100 + st.hardware.simulate(layer).cycles


def test_where_a_run_stalls_is_named() -> None:
    result = st.hardware.simulate(st.hardware.swiglu(16, 512, 256, 16, 256, "printer"))
    assert (result.status, result.place) == ("stall", "gate.b")
    assert "no free set left" in result.message


def test_where_stops_differ_is_named() -> None:
    network = Network()
    left, right = network.source("left", [0, 1]), network.source("right", [0, 0])
    network.sink(network.map("m", left, right))
    result = st.hardware.simulate(network)
    assert (result.status, result.cycles, result.place) == ("mismatch", 3, "m")
    assert "1 and 0 in cycle 3" in result.message


def test_a_sink_that_gets_no_last_tile_stalls() -> None:
    network = Network()
    network.printer("p", network.source("s", [0, 1]), last=2)
    result = st.hardware.simulate(network)
    assert (result.status, result.cycles, result.place) == ("stall", 3, "p")


def test_the_run_ends_with_the_last_of_several_sinks() -> None:
    network = Network()
    for name, start in (("early", 0), ("late", 500)):
        network.printer(f"p.{name}", network.source(name, [0, 1], start), last=1)
    assert st.hardware.simulate(network).cycles == 503


def test_limit_of_cycles() -> None:
    result = st.hardware.simulate(st.hardware.swiglu(16, 32, 32, 16, 16), max_cycles=100)
    assert (result.status, result.cycles) == ("limit", 99)


def test_occupancy_of_a_fifo() -> None:
    network = Network()
    network.sink(network.source("f", [0, 0, 0]), start=10)
    result = st.hardware.simulate(network)
    # Puts in 0, 1 and 11, gets in 10, 11 and 12: (2 - 1) + 9 x 2 + 1 + 1 over 13 cycles.
    fifo = result.fifos["f"]
    assert (fifo.sent, fifo.received, fifo.peak, fifo.first) == (3, 3, 2, 0)
    assert fifo.mean == pytest.approx((1 + 9 * 2 + 1 + 1) / 13)


def test_tables() -> None:
    result = st.hardware.simulate(st.hardware.swiglu(16, 32, 32, 16, 16))
    units = {row["name"]: row for row in result.unit_table().to_pylist()}
    assert units["gate.mm"]["firings"] == 4
    assert units["gate.mm"]["first"] == 265
    assert result.fifo_table().num_rows == len(result.fifos)
    assert result.events is None
    assert "318 cycles" in result.summary()
    assert result.offchip_bytes == 512 * 32


@pytest.mark.slow
def test_plain_python_gives_the_same() -> None:
    from stepsim.hardware.image import build_image
    from stepsim.kernels.hardware.clock import run_hardware
    from stepsim.kernels.hardware.layout import Outcome

    image = build_image(st.hardware.swiglu(16, 32, 32, 16, 16), Machine())
    assert run_hardware.py_func(image.state) == Outcome.DONE
    assert image.state.globals[0].cycle == 318
