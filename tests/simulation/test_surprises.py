"""The numbers of the section on surprises in docs/timing.md are those of runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

import stepsim.graph as st
from stepsim.graph import fn
from stepsim.machine import load_machine
from stepsim.simulation import prepare, simulate

PAGE = Path(__file__).parents[2] / "docs" / "timing.md"


def said(title: str) -> list[int]:
    """All numbers in the item of the list that begins with the title, in their order."""
    section = PAGE.read_text(encoding="utf-8").split("## Surprises of the published model")[1]
    (item,) = re.findall(rf"\n{re.escape(title)}\n: (.*?)\n\n", section + "\n\n", re.DOTALL)
    return [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", item)]


def clocks(result: Any) -> dict[str, int]:
    rows = result.units.select(["name", "final_clock"]).to_pylist()
    return {row["name"].split("#")[0]: row["final_clock"] for row in rows}


def one_tile(rows: int = 1, cols: int = 32) -> st.Stream:
    return st.linear_load(st.spec(rows, cols), tile=(rows, cols)).flatten(0, 1)


def repeats(count: int, depth: int) -> int:
    with st.Program() as program:
        one_tile().repeat(count).consume()
    return simulate(program, fifo_depth=depth).cycles


def test_repeat_under_back_pressure() -> None:
    found = [repeats(10_000, depth) for depth in (2, 8, 10_000)]
    at_2, at_8, unbounded = found
    assert said("Repetition is quadratic under back-pressure") == [
        10_000, at_2, 2, at_8, 8, unbounded, 10_000, unbounded, 2
    ]  # fmt: skip
    assert found[0] > 99 * repeats(1_000, 2)
    with st.Program() as program:
        tile = st.linear_load(st.spec(1, 32), tile=(1, 32))
        tile.bufferize(1).streamify(repeat=10_000).consume()
    assert simulate(program, fifo_depth=2).cycles == found[2]


def channels(count: int) -> int:
    with st.Program(fifo_depth=2) as program:
        for i in range(16):
            st.linear_load(st.spec(64 * 64, 64, name=f"x{i}"), tile=(64, 64)).consume()
    machine = load_machine("sda-1024", overrides={"hbm.channels": count})
    return simulate(program, machine=machine).cycles


def test_more_channels_longer_run() -> None:
    found = {count: channels(count) for count in (32, 33, 34)}
    by_channels = [number for count, took in found.items() for number in (took, count)]
    assert said("More channels can take longer") == [16, 64, *by_channels]
    assert found[32] < found[33] < found[34]


def loads(tiles: int, rows: int, **overrides: int) -> int:
    with st.Program(fifo_depth=2) as program:
        st.linear_load(st.spec(tiles * rows, 32), tile=(rows, 32)).consume()
    changes = {f"hbm.{key}": value for key, value in overrides.items()}
    return simulate(program, machine=load_machine("sda-1024", overrides=changes)).cycles


def test_start_up_of_every_request() -> None:
    found = [loads(100, 1), loads(1, 100), loads(100, 1, startup=0)]
    small, large, at_once = found
    assert said("Every request pays the start-up") == [100, small, large, 0, at_once, 100]
    assert found[0] // 100 == 19


def stamps(program: st.Program) -> dict[str, list[int]]:
    """When the tokens of every stream were sent, by the label of the operator that takes them."""
    run = prepare(program).execute({}, keep_tokens=True)
    wiring = st.wire(program)
    takes = {n: unit.name.split("#")[0] for unit in wiring.units for n in unit.inputs}
    return {takes[n]: run.tokens(n)["stamp"].tolist() for n in range(len(wiring.fifos))}


def test_merges_choose_before_the_data_is_there() -> None:
    with st.Program(fifo_depth=2) as program:
        slow = [st.map(fn.exp, one_tile(rows), compute_bw=1) for rows in (32, 64)]
        data, which = st.eager_merge(slow)
        which.consume(label="chosen")
        data.consume(label="sent")
    apart = stamps(program)
    with st.Program(fifo_depth=2) as program:
        slow = [st.map(fn.exp, one_tile(rows), compute_bw=1) for rows in (32, 64)]
        st.zip(*st.eager_merge(slow)).consume(label="joined")
    chosen, sent, joined = apart["chosen"][0], apart["sent"][0], stamps(program)["joined"][0]
    assert said("A merge chooses before the data is there") == [4 * 32 * 32, chosen, sent]
    assert chosen < 4 * 32 * 32 < sent < joined


def test_the_tail_of_a_run() -> None:
    with st.Program(fifo_depth=2) as program:
        st.linear_store(one_tile(), "output")
    result = simulate(program)
    last = clocks(result)["linear_store"]
    assert result.cycles == last + 3
    # 1 to 3 is what the paper's simulator shows.
    assert said("The run ends after its last store") == [3, 1, 3, last, result.cycles]
    with st.Program(fifo_depth=2) as program:
        st.metadata(np.arange(3)).consume()
    alone = simulate(program)
    assert alone.cycles == max(clocks(alone).values())
