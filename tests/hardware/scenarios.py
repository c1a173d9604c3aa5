"""The scenarios of ``unit_traces.csv`` as networks, which unit_scenarios.csv describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import stepsim as st
from stepsim.hardware import Network, reference

__all__ = ["SCENARIOS", "Scenario"]


@dataclass(frozen=True)
class Scenario:
    """A network, and which of its events are listed.

    Attributes
    ----------
    renamed : beginnings of places that have another name in the file.
    cycles : how long it runs, where it does not come to its end.
    listed : whether an event of a cycle, kind and place is in the file.
    """

    network: Network
    renamed: tuple[tuple[str, str], ...] = ()
    cycles: int | None = None
    listed: Callable[[int, str, str], bool] = lambda cycle, event, place: True


def _map1() -> Scenario:
    net = Network("map1")
    net.sink(net.wire(net.map("map", net.source("src", [0, 0, 1, 2])), "dst"))
    return Scenario(net)


def _map2_late() -> Scenario:
    net = Network("map2_late")
    a = net.source("src.a", [0, 0, 0, 1])
    b = net.source("src.b", [0, 0, 0, 1], start=5)
    net.sink(net.map("map", a, b))
    return Scenario(net)


def _accum() -> Scenario:
    net = Network("accum")
    net.sink(net.inner_sum("sum", net.source("sum.in", [0, 0, 1, 0, 2, 1, 3])))
    return Scenario(net)


def _accum_blocked() -> Scenario:
    net = Network("accum_blocked")
    stops = [1, 1, 1, 0, 1, 0, 0, 1]
    net.sink(net.inner_sum("sum", net.source("sum.in", stops)), start=3, period=4)
    return Scenario(net)


def _promote() -> Scenario:
    net = Network("promote")
    net.sink(net.promote("prom", net.source("prom.in", [0, 1, 2, 3, 4, 6]), 3))
    return Scenario(net)


def _fork() -> Scenario:
    net = Network("fork")
    fast, slow = net.fork("fork", net.source("src", [0, 0, 1, 0, 0, 2]))
    net.sink(fast)
    net.sink(slow, start=4, period=3)
    return Scenario(net)


def _repeat3() -> Scenario:
    net = Network("repeat3")
    references = [reference(7, 1, 0), reference(8, 1, 2)]
    net.sink(net.repeat("rep", net.source("rep.in", references, holds="reference"), 3))
    return Scenario(net)


def _repeat1() -> Scenario:
    net = Network("repeat1")
    references = [reference(7, 1, 0), reference(8, 1, 2), reference(9, 1, 0)]
    net.sink(net.repeat("rep", net.source("rep.in", references, holds="reference"), 1))
    return Scenario(net)


_REPEAT = (("buf.rep.", "rep."),)


def _buffer_rank1() -> Scenario:
    net = Network("buffer_rank1")
    net.sink(net.buffer("buf", net.source("src", [0, 0, 1, 0, 0, 2]), 1, 2))
    return Scenario(net, _REPEAT)


def _buffer_single() -> Scenario:
    net = Network("buffer_single")
    net.sink(net.buffer("buf", net.source("src", [1, 1, 2, 1, 1, 3], start=300), 1, 1))
    return Scenario(net, _REPEAT)


def _buffer_rank2() -> Scenario:
    net = Network("buffer_rank2")
    stops = [0, 0, 1, 0, 0, 1, 0, 0, 2, 0, 4]
    net.sink(net.buffer("buf", net.source("src", stops, start=300), 2))
    return Scenario(net)


def _buffer_full() -> Scenario:
    net = Network("buffer_full")
    stops = [0] * 239 + [2] + [0] * 39 + [2]
    net.sink(net.buffer("buf", net.source("src", stops, start=300), 2), start=700)
    listed = {("get", "buf.din"), ("put", "buf.dout"), ("put", "buf.tout")}
    return Scenario(net, listed=lambda cycle, event, place: (event, place) in listed)


def _bigacc() -> Scenario:
    net = Network("bigacc")
    stops = [1, 2, 1, 2, 1, 4, 1, 3, 1, 5]
    net.sink(net.accumulator("acc", net.source("acc.in", stops, start=300), 3))
    return Scenario(net)


def _matmul() -> Scenario:
    net = Network("matmul")
    a = net.source("src.a", [0, 1, 0, 6], start=300)
    b = net.source("src.b", [0, 1, 0, 6], start=300)
    net.sink(net.matmul("mm", a, b, 2, 2))
    return Scenario(net)


def _reader() -> Scenario:
    net = Network("reader")
    net.sink(net.reader("rd", [1, 2, 3]))
    return Scenario(net)


def _writer() -> Scenario:
    net = Network("writer")
    net.writer("wr", net.source("src", [0, 0, 1, 0, 0, 2]))
    return Scenario(net)


def _arbiter_blocked() -> Scenario:
    net = Network("arbiter_blocked")
    net.sink(net.reader("rd0", [200]), start=1150)
    net.sink(net.reader("rd1", [330]))

    def listed(cycle: int, event: str, place: str) -> bool:
        is_inside = cycle <= 40 or 480 <= cycle <= 640 or 1140 <= cycle <= 1240
        return is_inside and (event, place) in {("put", "arb.out"), ("refused", "arbiter")}

    return Scenario(net, cycles=1300, listed=listed)


def _read_write_mix() -> Scenario:
    net = Network("read_write_mix")
    net.sink(net.reader("rd0", [12]))
    net.writer("wr", net.source("src", [0] * 12, start=20))
    places = {"req0", "req1", "arb.out", "rd0.out", "dram"}

    def listed(cycle: int, event: str, place: str) -> bool:
        return event != "get" and place in places

    return Scenario(net, listed=listed)


def _layer_tiny() -> Scenario:
    return Scenario(st.hardware.swiglu(16, 32, 32, 16, 16))


SCENARIOS = {
    function.__name__[1:]: function
    for function in (
        _map1, _map2_late, _accum, _accum_blocked, _promote, _fork, _repeat3, _repeat1,
        _buffer_rank1, _buffer_single, _buffer_rank2, _buffer_full, _bigacc, _matmul, _reader,
        _writer, _arbiter_blocked, _read_write_mix, _layer_tiny,
    )
}  # fmt: skip
