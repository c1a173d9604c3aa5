"""Scripted traffic for the memory node alone: tiles of varying size, staggered starts.

The scenario is data, so any memory model can be driven with it; :func:`run_scenario` drives the
interpreter's node. Load i fetches its tiles in turn, handing each to the store behind it
(if there is one) through a FIFO; a store writes as many requests as the tile had.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepsim.lowering.network import TimingParams
from tests.oracle.build import NetBuilder
from tests.oracle.fabric import CLOSED, Steps, Unit
from tests.oracle.interpreter import interpret
from tests.oracle.memory import access
from tests.oracle.payloads import tile

__all__ = ["SCENARIOS", "LoadScript", "Scenario", "StoreScript", "run_scenario"]


@dataclass(frozen=True)
class StoreScript:
    """A store behind a load: bundle size and depth of the FIFO between them."""

    par: int
    depth: int


@dataclass(frozen=True)
class LoadScript:
    """A load: clock of its first fetch, bundle size, requests of each tile."""

    start: int
    par: int
    requests: tuple[int, ...]
    store: StoreScript | None


@dataclass(frozen=True)
class Scenario:
    """Traffic and checksums over all finish clocks (loads and stores)."""

    name: str
    timing: TimingParams
    loads: tuple[LoadScript, ...]
    last_finish: int
    sum_of_finishes: int
    first_load_last: int
    last_load_first: int

    def check(self, load_finishes: list[list[int]], store_finishes: list[list[int]]) -> None:
        """Compare the finish clocks of all fetches, per load and per store, with the checksums."""
        finishes = [f for ends in load_finishes + store_finishes for f in ends]
        assert load_finishes[0][-1] == self.first_load_last, self.name
        assert load_finishes[-1][0] == self.last_load_first, self.name
        assert max(finishes) == self.last_finish, self.name
        assert sum(finishes) == self.sum_of_finishes, self.name


def _scenario(
    name: str, n: int, tiles: int, timing: TimingParams, stores: bool, numbers: list[int]
) -> Scenario:
    loads = tuple(
        LoadScript(
            start=5 * i,
            par=1 + i % 4,
            requests=tuple(16 + (37 * i + 11 * k) % 200 for k in range(tiles)),
            store=StoreScript(par=2, depth=1 + i % 2) if stores and i % 3 == 0 else None,
        )
        for i in range(n)
    )
    last, total, first_load_last, last_load_first = numbers
    return Scenario(name, timing, loads, last, total, first_load_last, last_load_first)


def _machine(
    channels: int = 32, interval: int = 2, latency: int = 2, startup: int = 14
) -> TimingParams:
    return TimingParams(
        hbm_channels=channels, hbm_interval=interval, hbm_latency=latency, hbm_startup=startup
    )


SCENARIOS = [
    _scenario("G1", 24, 10, _machine(), False, [2412, 227758, 1660, 220]),
    _scenario("G2", 24, 10, _machine(channels=8), False, [7003, 830146, 5845, 600]),
    _scenario("G3", 24, 10, _machine(), True, [2823, 391981, 1991, 225]),
    _scenario("G4", 7, 20, _machine(12, 3, 5, 0), True, [6827, 656661, 6508, 140]),
    _scenario("G5", 3, 30, _machine(), False, [3605, 113596, 3605, 58]),
    _scenario("G6", 64, 6, _machine(), False, [3046, 565033, 1404, 725]),
]


def _scripted_load(u: Unit) -> Steps:
    u.up_busy(u.p["start"])
    for n in u.p["requests"]:
        yield from access(u, n)
        u.p["finishes"].append(u.clk)
        if u.outs:
            yield from u.emit(u.outs[0], tile(n, 1, 1, 1, n), 0)


def _scripted_store(u: Unit) -> Steps:
    while (token := (yield from u.head(u.ins[0]))) is not CLOSED:
        yield from access(u, token.payload["tile"][0])
        u.p["finishes"].append(u.clk)
        yield from u.take(u.ins[0])


def run_scenario(scenario: Scenario) -> tuple[list[list[int]], list[list[int]]]:
    """Finish clocks of every load and of every store, in port order."""
    b = NetBuilder(scenario.timing)
    load_finishes: list[list[int]] = []
    store_finishes: list[list[int]] = []
    for i, load in enumerate(scenario.loads):
        script = {"start": load.start, "par": load.par, "requests": load.requests}
        outs = [f"c{i}"] if load.store else []
        load_finishes.append([])
        if load.store:
            b.channel(f"c{i}", load.store.depth)
        b.unit(f"load{i}", "OffChipLoad", [], outs, finishes=load_finishes[-1], **script)
    for i, load in enumerate(scenario.loads):
        if load.store:
            store_finishes.append([])
            b.unit(
                f"store{i}", "OffChipStore", [f"c{i}"], [],
                par=load.store.par, finishes=store_finishes[-1],
            )  # fmt: skip
    bodies = {"OffChipLoad": _scripted_load, "OffChipStore": _scripted_store}
    result = interpret(b.network(), bodies=bodies)
    assert result.status == "ok"
    return load_finishes, store_finishes
