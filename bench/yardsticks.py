"""Services and networks beside plain programs of the same rules: ``make bench-page``.

The peers are the plain Python programs that the tests compare with, and in C++ ``peers/npe.cpp``.
All must find the same numbers. The slow ones run a part of the work, and stepsim runs that part
too. Needs the recorded traces and cases of networks.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final
from unittest import mock

import numpy as np

from bench.page import machine_line, replace_block, table
from bench.peers.compiled import FLAGS, Compiled, compiler, compiler_version
from stepsim.kernels import new_link_traffic, run_link_traffic, run_steps
from stepsim.machine import load_network
from stepsim.noc import Topology, models, simulate
from stepsim.reproduce.noc.cases import recorded_traces
from stepsim.serving import TraceRequests, benchmark_metrics
from tests.oracle.noc_link import arrivals
from tests.serving.plain_recorded import Engine, Request, Settings
from tests.serving.yardstick import CONVERSATION, conversation_of, serve
from tests.shared import NO_TRACES, NOC_CASES, TRACES

__all__ = ["HEADER", "NAMES", "link_traffic", "main", "uniform_packets"]

HEADER: Final = ("work", "unit", "stepsim", "peer", "units per second", "peer / stepsim")
NAMES: Final = (
    "Mooncake's conversation trace, 8 engines, beside plain Python",
    "packets on a mesh of 8 x 8, model `link`, beside plain Python",
    "traces of Wormhole, model `npe`, beside C++",
    "traces of Wormhole, model `npe`, with tables of the result, beside C++",
)
_ROUNDS: Final = 5
_ENGINES: Final = 8
_IN_PYTHON: Final = 1000
"""Requests of the trace, and packets, that plain Python takes."""

Whole = Any


def uniform_packets(flits: int, load: float, hops: int) -> tuple[Whole, Whole, Whole]:
    """Cycle, source and destination of packets between all places of the mesh ``mesh``."""
    draw = np.random.default_rng(1)
    cycles = int(hops / (64 * load * 6.3 / min(flits, 4)))
    created, source = np.nonzero(draw.random((cycles, 64)) < load * 0.5 / flits)
    return created, source, draw.integers(0, 64, len(created))


def link_traffic(created: Whole, source: Whole, to: Whole, flits: int) -> Any:
    """Packets of the preset ``mesh`` before the first cycle."""
    topology = Topology(load_network("mesh"))
    routes = topology.routes(source, to, source * 0)
    nothing = np.zeros(len(created), np.int64)
    return new_link_traffic(
        created, np.full(len(created), flits), routes.begin, routes.path, nothing, nothing,
        np.zeros(len(created) + 1, np.int64), nothing[:0], ports=topology.port_count,
        router=4, wire=1, inject=2, quantum=4,
    )  # fmt: skip


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _least(make: Callable[[], Callable[[], Any]]) -> float:
    return min(_seconds(make()) for _ in range(_ROUNDS))


def _row(name: str, unit: str, ours: float, peer: float, ratio: float) -> list[str]:
    """Of seconds for each unit."""
    return [name, unit, f"{ours * 1e6:.3g}", f"{peer * 1e6:.3g}", f"{1 / ours:.3g}", f"{ratio:.3g}"]


def _plain_service(count: int) -> tuple[float, list[int]]:
    """Seconds of plain Python, and steps, hits and sums of TTFT and of latency."""
    requests = TraceRequests(str(CONVERSATION), count=count).requests()
    assert requests.prefix is not None
    offsets, labels = requests.prefix.blocks(512)
    columns = (requests.arrival_ns, requests.prompt_tokens, requests.output_tokens)
    all_of = [
        Request(*numbers, labels[first:last].tolist())
        for numbers, (first, last) in zip(
            zip(*(one.tolist() for one in columns), strict=True), pairwise(offsets), strict=True
        )
    ]
    settings = Settings(2048, 512, 8192, 256, log_ns=1 << 60, tick_ns=0)
    begin = time.process_time()
    found = [Engine(settings, _step_ns).run(all_of[number::_ENGINES]) for number in range(_ENGINES)]
    seconds = time.process_time() - begin
    firsts = sum(one.ttft or 0 for one in all_of)
    ends = sum((one.end or 0) - one.arrival for one in all_of)
    return seconds, [sum(o.steps for o in found), sum(o.hits for o in found), firsts, ends]


def _step_ns(entries: list[tuple[int, int]]) -> int:
    decoded = sum(before for new, before in entries if new == 1)
    return 8_000_000 + 40_000 * sum(new for new, _ in entries) + 80 * decoded


def _service_row() -> list[str]:
    def work_of(count: int | None) -> Callable[[], Callable[[], Any]]:
        requests = TraceRequests(str(CONVERSATION), count=count).requests()

        def work() -> None:
            outcomes = conversation_of(requests)
            totals = serve(outcomes)
            benchmark_metrics(outcomes.times(), totals.last_end / 1e9)

        return lambda: work

    plain, found = _plain_service(_IN_PYTHON)
    few = TraceRequests(str(CONVERSATION), count=_IN_PYTHON).requests()
    totals = serve(conversation_of(few))
    expected = [totals.steps, totals.hit_tokens, totals.ttft, totals.latency]
    if found != expected:
        raise SystemExit(f"plain Python serves otherwise: {found}, stepsim {expected}")
    part = _least(work_of(_IN_PYTHON))
    whole, count = _least(work_of(None)), len(TraceRequests(str(CONVERSATION)).requests())
    return _row(NAMES[0], "request", whole / count, plain / _IN_PYTHON, plain / part)


def _link_row() -> list[str]:
    flits = 4
    created, source, to = uniform_packets(flits, 0.4, 1_000_000)
    hops = run_link_traffic(link_traffic(created, source, to, flits))

    def work_of(count: int) -> Callable[[], Callable[[], Any]]:
        def make() -> Callable[[], Any]:
            traffic = link_traffic(created[:count], source[:count], to[:count], flits)
            return lambda: run_link_traffic(traffic)

        return make

    few = slice(0, _IN_PYTHON)
    packets = [
        (c, s, t, flits)
        for c, s, t in zip(*(one[few].tolist() for one in (created, source, to)), strict=True)
    ]
    begin = time.process_time()
    expected = arrivals(packets, 8)
    plain = time.process_time() - begin
    traffic = link_traffic(created[few], source[few], to[few], flits)
    part_hops = run_link_traffic(traffic)
    if traffic.arrival.tolist() != expected:
        raise SystemExit("plain Python has other arrivals of packets")
    part, whole = _least(work_of(_IN_PYTHON)), _least(work_of(len(created)))
    return _row(NAMES[1], "hop of a segment", whole / hops, plain / part_hops, plain / part)


def _npe_rows(command: list[str]) -> list[list[str]]:
    given = [
        (t.traffic("wormhole"), load_network("wormhole")) for _, t in recorded_traces(NOC_CASES)
    ]
    states, whole = [], models.new_stepped_traffic
    with mock.patch.object(models, "new_stepped_traffic", wraps=whole) as made:
        for traffic, network in given:
            made.reset_mock()
            simulate(traffic, network, model="npe")
            states.append(made.call_args_list[0])  # the second is without other transfers
    peer = Compiled(command, "npe", *_EXACT)
    text = "\n".join(_text(*one.args, step=one.kwargs["step"]) for one in states)
    transfers = sum(len(one.args[0]) for one in states)

    def engine() -> tuple[float, int]:
        # As in C++, every trace is copied just before it runs.
        seconds, ends = 0.0, 0
        for one in states:
            ready = whole(*one.args, **one.kwargs)
            begin = time.process_time()
            run_steps(ready)
            seconds += time.process_time() - begin
            ends += int(ready.end.sum())
        return seconds, ends

    def command_of() -> None:
        for traffic, network in given:
            simulate(traffic, network, model="npe")

    rounds = []
    for _ in range(_ROUNDS):
        (ours, ends), theirs = engine(), peer.simulate(text, _ROUNDS)
        if theirs[:2] != (ends, transfers):
            raise SystemExit(f"C++ has other ends: {theirs[:2]}, stepsim {(ends, transfers)}")
        rounds.append((ours, _seconds(command_of), theirs[2]))
    engines, runs, peers = zip(*rounds, strict=True)
    count = len(given)
    return [
        _row(name, "trace", min(ours) / count, min(peers) / count, _ratio(peers, ours))
        for name, ours in zip(NAMES[2:], (engines, runs), strict=True)
    ]


_EXACT: Final = ("-ffp-contract=off",)
"""Every operation of float32 is rounded."""


def _ratio(peers: Sequence[float], ours: Sequence[float]) -> float:
    return statistics.median(theirs / own for theirs, own in zip(peers, ours, strict=True))


def _text(
    offset: Whole, total: Whole, base: Whole, begin: Whole, sinks: Whole, path: Whole,
    limited: Whole, rate: Whole, waiting: Whole, delay: Whole, child_begin: Whole, child: Whole,
    *, step: int,
) -> str:  # fmt: skip
    """A trace as ``npe.cpp`` reads it."""
    assert limited.all(), "the peer knows transfers to one place alone"
    lines = [f"{step} {len(offset)} {len(rate)}", _listed(rate)]
    for t in range(len(offset)):
        ports, children = path[begin[t] : begin[t + 1]], child[child_begin[t] : child_begin[t + 1]]
        numbers = f"{offset[t]} {total[t]} {base[t]!s} {waiting[t]} {delay[t]}"
        lines += [
            f"{numbers} {len(ports)} {sinks[t] - begin[t]} {_listed(ports)}",
            f"{len(children)} {_listed(children)}",
        ]
    return "\n".join(lines)


def _listed(values: Whole) -> str:
    return " ".join(map(str, values))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.yardsticks", description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    page = parser.parse_args().page
    if not TRACES.is_dir() or not NOC_CASES.is_dir():
        raise SystemExit(NO_TRACES)
    command = compiler()
    if command is None:
        raise SystemExit("a peer is in C++: install a compiler, or name it in CXX")
    rows = [_service_row(), _link_row(), *_npe_rows(command)]
    for row in rows:
        print("  ".join(row))
    if page:
        flags = " ".join([*FLAGS, *_EXACT])
        replace_block("yardsticks", [
            machine_line(), f"{compiler_version(command)} with `{flags}`.", "",
            *table(HEADER, rows),
        ])  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
