"""The engine beside its peers on the same networks: ``make bench-peers``.

All must find the same number of cycles. The slow ones, in Python, run fewer tokens; a C++ peer and
the engine run as many as they do once more, so that all agree on both sizes. With ``--page`` the
table replaces the one in docs/performance.md.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final

from bench.networks import chain, ladder
from bench.page import machine_line, replace_block, table
from bench.peers import events, with_simpy
from bench.peers.compiled import FLAGS, Compiled, compiler, compiler_version
from bench.peers.description import Description, describe
from stepsim.kernels import execute
from stepsim.lowering import Network, build_image

__all__ = ["HEADER", "NETWORKS", "main"]

HEADER: Final = (
    "network", "depth", "stepsim", "C++, same architecture", "stepsim / C++",
    "C++, recurrence alone", "heapq", "SimPy", "cycles",
)  # fmt: skip
_TOKENS: Final = 1000
_TOKENS_IN_PYTHON: Final = 50
_ROUNDS: Final = 7
_REPEATS: Final = 5


def _chain(op: str) -> Callable[[int, int], Network]:
    return lambda tokens, depth: chain(1000, tokens, depth, op)


NETWORKS: Final[dict[str, Callable[[int, int], Network]]] = {
    "1 000 units in a row, maps": _chain("UnaryMap"),
    "1 000 units in a row, `flatten`": _chain("Flatten"),
    "250 forks and joins of two maps": lambda tokens, depth: ladder(250, tokens, depth),
}
"""By name for the reader: what makes the network of a number of tokens and a depth of FIFOs."""

DEPTHS: Final = (8, 2)


@dataclass(slots=True)
class _Found:
    """Of one simulator: ns per firing in every round, cycles by tokens."""

    nanoseconds: list[float] = field(default_factory=list)
    cycles: dict[int, int] = field(default_factory=dict)

    def least(self) -> float:
        return min(self.nanoseconds)


def _run_engine(network: Network, found: _Found) -> Description:
    image = build_image(network)
    run = execute(image)
    best = float("inf")
    for _ in range(_REPEATS):
        begin = time.process_time()
        run = execute(image)
        best = min(best, time.process_time() - begin)
    if not run.finished:
        raise SystemExit("the engine has not finished the network")
    found.nanoseconds.append(best / int(run.globals.steps) * 1e9)
    found.cycles[_tokens(network)] = int(run.units["clk"].max())
    return describe(network, run)


def _tokens(network: Network) -> int:
    return len(network.units[0].params["tokens"])


def _run_compiled(peer: Compiled, text: str, tokens: int, found: _Found) -> None:
    cycles, firings, seconds = peer.simulate(text, _REPEATS)
    found.nanoseconds.append(seconds / firings * 1e9)
    found.cycles[tokens] = cycles


def _run_python(
    simulate: Callable[[Description], int], small: Description, firings: int, found: _Found
) -> None:
    begin = time.process_time()
    found.cycles[_TOKENS_IN_PYTHON] = simulate(small)
    found.nanoseconds.append((time.process_time() - begin) / firings * 1e9)


def _compare(
    make: Callable[[int, int], Network], depth: int, peers: dict[str, Compiled]
) -> dict[str, _Found]:
    """Every simulator on one network; those that are compared run in turn."""
    large, little = make(_TOKENS, depth), make(_TOKENS_IN_PYTHON, depth)
    found = {name: _Found() for name in ("stepsim", *peers, "heapq", "simpy")}
    small = _run_engine(little, found["stepsim"])
    for name, peer in peers.items():
        _run_compiled(peer, small.text(), _TOKENS_IN_PYTHON, found[name])
        found[name].nanoseconds.clear()
    found["stepsim"].nanoseconds.clear()
    for _ in range(_ROUNDS):
        text = _run_engine(large, found["stepsim"]).text()
        for name, peer in peers.items():
            _run_compiled(peer, text, _TOKENS, found[name])
    firings = sum(_TOKENS_IN_PYTHON for _ in little.units)
    _run_python(events.simulate, small, firings, found["heapq"])
    _run_python(with_simpy.simulate, small, firings, found["simpy"])
    return found


def _disagreements(found: dict[str, _Found]) -> list[str]:
    """Simulators whose cycles are not those of the engine."""
    expected = found["stepsim"].cycles
    return [
        f"{name} has {cycles} cycles for {tokens} tokens, stepsim has {expected[tokens]}"
        for name, its in found.items()
        for tokens, cycles in its.cycles.items()
        if cycles != expected[tokens]
    ]


def _row(label: str, depth: int, found: dict[str, _Found]) -> list[str]:
    def least(name: str) -> str:
        return f"{found[name].least():.3g}" if name in found else "-"

    ratio = "-"
    if "engine" in found:
        pairs = zip(found["stepsim"].nanoseconds, found["engine"].nanoseconds, strict=True)
        ratio = f"{statistics.median(ours / theirs for ours, theirs in pairs):.2f}"
    cycles = str(found["stepsim"].cycles[_TOKENS])
    names = ("recurrence", "heapq", "simpy")
    return [label, str(depth), least("stepsim"), least("engine"), ratio, *map(least, names), cycles]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    page = parser.parse_args().page
    command = compiler()
    peers = {}
    if command is None:
        print("no C++ compiler: neither CXX, c++ nor g++; the peers in C++ are left out")
    else:
        peers = {name: Compiled(command, name) for name in ("engine", "recurrence")}
    rows, wrong = [], []
    print("ns per firing, the cycles are of the whole run")
    print("  ".join(HEADER), flush=True)
    for label, make in NETWORKS.items():
        for depth in DEPTHS:
            of_chain = {n: p for n, p in peers.items() if n != "recurrence" or "row" in label}
            found = _compare(make, depth, of_chain)
            rows.append(_row(label, depth, found))
            print("  ".join(rows[-1]), flush=True)
            wrong += [f"{label}, depth {depth}: {line}" for line in _disagreements(found)]
    if wrong:
        raise SystemExit("the simulators disagree:\n  " + "\n  ".join(wrong))
    print("all simulators agree on the cycles of every network")
    if page:
        if command is None:
            raise SystemExit(
                "the page needs the peers in C++: install a compiler or name it in CXX"
            )
        replace_block("peers", [
            machine_line(),
            f"{compiler_version(command)} with `{' '.join(FLAGS)}`, Python "
            f"{platform.python_version()}, numba {version('numba')}, SimPy {version('simpy')}.",
            "",
            *table(HEADER, rows),
        ])  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
