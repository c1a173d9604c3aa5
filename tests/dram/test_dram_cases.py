"""Every recorded run of Ramulator 2.0, stamp by stamp and column by column."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.dram import DramRun, random_blocks, sequential, simulate, splitmix, tiles
from stepsim.machine import Dram
from tests.shared import RAMULATOR, recorded

pytestmark = recorded(RAMULATOR)

_DEVICES = {
    "": "hbm2-hdl",
    "channel_width=128;t_nBL=2": "hbm2-fullrate",
    "dram=HBM;org=HBM_2Gb;timing=HBM_2Gbps": "hbm1",
    "dram=HBM3;org=HBM3_2Gb;timing=HBM3_2Gbps": "hbm3",
}

# Column, number of DramRun.metrics, decimals as printed.
_COLUMNS = (
    ("n_requests", "requests", 0),
    ("n_reads", "reads", 0),
    ("n_writes", "writes", 0),
    ("total_cycles", "cycles", 0),
    ("last_read_done", "last_read_done", 0),
    ("last_write_cas", "last_write_command", 0),
    ("last_accept", "last_accepted", 0),
    ("bytes_per_cycle", "bytes_per_cycle", 4),
    ("bytes_per_cycle_mid60", "bytes_per_cycle_mid60", 4),
    ("requests_per_cycle", "requests_per_cycle", 5),
    ("read_lat_avg", "read_latency_mean", 3),
    ("read_lat_p50", "read_latency_p50", 0),
    ("read_lat_p99", "read_latency_p99", 0),
    ("read_lat_min", "read_latency_min", 0),
    ("read_lat_max", "read_latency_max", 0),
    ("read_lat_from_first_try_avg", "read_latency_from_first_try_mean", 3),
    ("write_wait_avg", "write_wait_mean", 3),
    ("write_wait_max", "write_wait_max", 0),
    ("n_act", "act", 0),
    ("n_pre", "pre", 0),
    ("n_rd", "rd", 0),
    ("n_wr", "wr", 0),
    ("n_refresh", "ref", 0),
    ("n_forwarded", "forwarded", 0),
)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def _grids() -> list[Path]:
    needed = {"id", "pattern", "issue", *(column for column, _, _ in _COLUMNS)}
    found = []
    for path in sorted(RAMULATOR.glob("*.csv")):
        with path.open(encoding="utf-8-sig", newline="") as file:
            if needed <= set(next(csv.reader(file), ())):
                found.append(path)
    return found


def _stream(row: dict[str, str], s: int) -> tuple[Any, Any]:
    """Addresses and writes of a stream, as the row describes them."""
    names = ("n", "step", "rows", "colb", "pitch", "tx", "ty", "foot", "block", "wparam", "seed")
    n, step, rows, colb, pitch, tx, ty, foot, block, k, seed = (int(row[name]) for name in names)
    base = int(row["base"]) + s * int(row["bstride"])
    if row["pattern"] == "seq":
        address = sequential(n, step, base)
    elif row["pattern"] == "tile":
        address = tiles(rows, colb, pitch, tx, ty, step, base)
    else:
        assert row["pattern"] == "rand", row["id"]
        address = random_blocks(n, step, block, foot, seed, s, base)
    assert len(address) == n, row["id"]
    i = np.arange(n)
    drawn = splitmix(seed + 1, np.uint64(s << 32) + i.astype(np.uint64))
    write = {
        "none": lambda: np.zeros(n, bool),
        "all": lambda: np.ones(n, bool),
        "hash": lambda: drawn % np.uint64(100) < np.uint64(k),
        "period": lambda: i % k == k - 1,
        "stream": lambda: np.full(n, s % k == k - 1),
    }[row["wmode"]]()
    return address, write


def _run(row: dict[str, str]) -> DramRun:
    count = int(row["streams"])
    streams = [_stream(row, s) for s in range(count)]
    preset = _DEVICES[row.get("device", "")]
    return simulate(
        np.concatenate([address for address, _ in streams]),
        np.concatenate([write for _, write in streams]),
        streams=np.repeat(np.arange(count), int(row["n"])),
        spec=Dram(preset=preset, channels=int(row["channels"]), mapper=row["mapper"]),
        policy={"ps": "streams", "g1": "picked"}[row["issue"]],
        rounds=int(row["W"]),
        every=int(row["K"]),
        outstanding=int(row["Q"]),
        outstanding_in_all=int(row["GQ"]),
        gap=int(row["gap"]),
        request_bytes=int(row["rbytes"]),
    )


@pytest.mark.parametrize("path", _grids(), ids=lambda path: path.stem)
def test_dram_cases(path: Path) -> None:
    wrong = {}
    rows = _rows(path)
    assert rows
    for row in rows:
        metrics = _run(row).metrics()
        differs = {
            column: (f"{metrics[name]:.{decimals}f}", row[column])
            for column, name, decimals in _COLUMNS
            if f"{metrics[name]:.{decimals}f}" != row[column]
        }
        if differs or row["complete"] != "1":
            wrong[row["id"]] = differs
    assert not wrong, f"{len(wrong)} of {len(rows)} rows: {dict(list(wrong.items())[:5])}"


def test_docs_dram_md_counts_the_cases() -> None:
    counts = {path.stem: len(_rows(path)) for path in _grids()}
    others = ("hbm2_fullrate", "other_presets", "trace_runs")
    grid = sum(count for name, count in counts.items() if name not in others)
    scenarios = len(_rows(RAMULATOR / "micro_scenarios.csv"))
    page = (Path(__file__).parents[2] / "docs" / "dram.md").read_text(encoding="utf-8")
    assert (
        f"{grid:,} runs of a grid, {scenarios} small scenarios command by command, every stamp of "
        f"{counts['trace_runs']} traces"
    ) in " ".join(page.split())


@recorded(RAMULATOR / "trace_runs.csv")
def test_stamps_of_traces() -> None:
    stamps = defaultdict(list)
    for each in _rows(RAMULATOR / "trace_requests.csv"):
        stamps[each["run_id"]].append([int(value) for value in list(each.values())[1:]])
    runs = _rows(RAMULATOR / "trace_runs.csv")
    assert sum(map(len, stamps.values())) == sum(int(run["n_requests"]) for run in runs) > 0
    for run in runs:
        done = _run(run)
        # Requests of all streams in the order of acceptance; by stream they are in its order.
        expected = np.array(stamps[run["id"]])
        expected = expected[np.argsort(expected[:, 1], kind="stable")]
        found = np.stack(
            [done.stream, done.address, done.write, done.accepted, done.command, done.done], axis=1
        )
        assert np.array_equal(found, expected[:, 1:]), run["id"]


@recorded(RAMULATOR / "micro_scenarios.csv")
def test_micro_scenarios() -> None:
    requests, issued = defaultdict(list), defaultdict(list)
    for each in _rows(RAMULATOR / "micro_requests.csv"):
        requests[each["scenario"]].append([int(value) for value in list(each.values())[1:]])
    for each in _rows(RAMULATOR / "micro_commands.csv"):
        values = each["command"], *(
            int(each[name])
            for name in ("cycle", "channel", "req", "pc", "bankgroup", "bank", "row")
        )  # fmt: skip
        issued[each["scenario"]].append(values)
    for scenario in _rows(RAMULATOR / "micro_scenarios.csv"):
        name = scenario["scenario"]
        _, stream, address, write, accepted, command, done = np.array(requests[name]).T
        # What is sent later than in cycle 0 is so by the description.
        timed = name.startswith("open_then")
        run = simulate(
            address, write, streams=stream, earliest=accepted if timed else None,
            outstanding=int(scenario["Q"]), gap=int(scenario["gap"]), log=1000,
        )  # fmt: skip
        assert run.cycles == int(scenario["total_cycles"]), name
        assert np.array_equal(run.accepted, accepted), name
        assert np.array_equal(run.command, command), name
        assert np.array_equal(run.done, done), name
        found = [
            (one["command"], one["clock"], one["channel"], one["request"], one["bank"] // 8,
             one["bank"] // 2 % 4, one["bank"] % 2, one["row"])
            for one in run.commands().to_pylist()
        ]  # fmt: skip
        assert sorted(found, key=lambda one: one[1:3]) == sorted(
            issued[name], key=lambda one: one[1:3]
        ), name
