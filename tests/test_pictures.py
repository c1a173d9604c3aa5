"""The pictures of the documentation show what the runs that they are drawn from did."""

from __future__ import annotations

import itertools
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import stepsim as st
from tests.pages import module_of_docs

el = module_of_docs("elements")
graph_pictures = module_of_docs("graph_pictures")
hardware_pictures = module_of_docs("hardware_pictures")
network_pictures = module_of_docs("network_pictures")
path_pictures = module_of_docs("path_pictures")
run_pictures = module_of_docs("run_pictures")
stream_pictures = module_of_docs("stream_pictures")


def texts(picture: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(picture).iter() if "text" in one.tag]


def center(depth: int) -> st.Program:
    with st.Program("center", compute_bw=1024, fifo_depth=depth) as program:
        x = st.linear_load(st.spec(32, 256), tile=(16, 64))
        total = x.accum(st.fn.add, rank=1)
        st.map(st.fn.add, x, total.unsqueeze(0).expand(4)).consume()
    return program


@pytest.fixture(scope="module")
def stuck() -> st.Result:
    return st.simulate(center(2), record=True)


def test_a_stream_is_drawn_with_its_values_and_its_stops() -> None:
    with st.Program("numbers", compute_bw=16) as program:
        x = st.linear_load(st.spec(2, 2, name="x", dtype="f32"), tile=(1, 1))
        x.accum(st.fn.add, rank=1).consume()
    values = st.run_functional(program, {"x": np.arange(1, 5).reshape(2, 2)})
    assert texts(stream_pictures.streams(values, {"x": x})) == [
        "x",
        "[2, 2]",
        *"12",
        "S1",
        *"34",
        "S1",
    ]


def test_a_fifo_is_drawn_until_the_deadlock(stuck: st.Result) -> None:
    fifo = "linear_load#0>1"
    fixed = st.simulate(center(4), record=True)
    shown = texts(run_pictures.occupancy({"two": stuck, "four": fixed}, fifo))
    assert {"depth 2", "depth 4", f"deadlock at {stuck.cycles:,}"} <= set(shown)
    assert sum("deadlock" in text for text in shown) == 1


def test_the_circular_wait_is_red_and_nothing_else(stuck: st.Result) -> None:
    picture = ElementTree.fromstring(graph_pictures.circular_wait(stuck))
    boxes = [one for one in picture.iter() if one.get("class") == "box"]
    red = [one for one in boxes if one.get("stroke") == el.RED]
    assert len(boxes) == stuck.units.num_rows
    assert stuck.diagnosis is not None
    assert len(red) == len({wait.unit for wait in stuck.diagnosis.circular_wait}) < len(boxes)


def test_padding_is_drawn_apart_from_rows() -> None:
    with st.Program("packed", compute_bw=16) as program:
        x = st.linear_load(st.spec(3, 1, name="x", dtype="f32"), tile=(1, 1)).flatten(0, 1)
        tiles = x.reshape(2, pad=0).accum(st.fn.pack_rows, rank=1)
        tiles.consume()
    values = st.run_functional(program, {"x": np.ones((3, 1))})
    picture = stream_pictures.tiles({"lane": values.stream(tiles)})
    rows = [one for one in ElementTree.fromstring(picture).iter() if one.get("width") == "54.0"]
    assert [bool(one.get("stroke-dasharray")) for one in rows] == [False, False, False, True]
    assert "padding" in texts(picture)


def test_work_and_accesses_take_their_share_of_the_axis() -> None:
    result = st.simulate(center(4), record=True)
    picture = ElementTree.fromstring(run_pictures.activity({"": result}))
    scale = (el.WIDTH - el.LEFT - 20) / result.cycles
    for color, column in ((el.BLUE, "busy"), (el.GREEN, "wait_memory")):
        drawn = sum(
            float(one.get("width", 0))
            for one in picture.iter()
            if one.get("fill") == color and one.get("width") != "10.0"
        )
        assert drawn / scale == pytest.approx(sum(result.units[column].to_pylist()), rel=0.05)


def test_the_busiest_link_of_a_placement_is_red() -> None:
    machine = st.load_machine("sda-1024", {"noc": "mesh", "noc.rows": 2, "noc.cols": 2})
    with st.Program("copied", compute_bw=64) as program:
        x = st.linear_load(st.spec(64, 16), tile=(16, 16)).flatten(0, 1)
        y = x.map(st.fn.silu)
        st.linear_store(st.map(st.fn.add, y, x), "y")
    found = st.place(program, machine, regions={"silu#2": 1}, per_tile=4)
    shown = [one for one in ElementTree.fromstring(network_pictures.placement(found)).iter()
             if "text" in one.tag]  # fmt: skip
    by_color = {color: [one.text for one in shown if one.get("fill") == color]
                for color in (el.RED, el.BLUE)}  # fmt: skip
    loads = sorted(int(size) for size in found.link_bytes if size)
    assert by_color[el.RED] == [f"{loads[-1]:,}"]
    assert sorted(str(one) for one in by_color[el.BLUE]) == sorted(
        f"{size:,}" for size in loads[:-1]
    )
    names = {one.text for one in shown}
    assert set(found.placement.operators) <= names


def test_links_between_chips_have_their_bytes() -> None:
    links = {"chips.count": 3, "chips.topology": "ring", "chips.gib_per_s": 1, "clock_ghz": 1}
    machine = st.load_machine("sda-1024", {**links, "chips.latency_ns": 500})
    with st.Program("sent", compute_bw=64) as program:
        x = st.linear_load(st.spec(64, 16), tile=(16, 16)).flatten(0, 1)
        with st.chip(1):
            st.linear_store(x.map(st.fn.silu), "y")
    run = st.simulate(program, machine)
    used = [row for row in run.links().to_pylist() if row["link_bytes"]]
    shown = texts(network_pictures.chips(run))
    assert [one for one in shown if " B, " in one] == [
        f"{row['link_bytes']:,} B, {row['link_busy_cycles'] / run.cycles:.0%}" for row in used
    ]
    for row in run.chips().to_pylist():
        number = shown.index(f"chip {row['chip']}")
        assert shown[number + 1] == f"done at {row['chip_cycles']:,}"


def test_a_critical_path_takes_its_share_of_the_axis() -> None:
    path = st.explain.critical_path(center(4))
    picture = ElementTree.fromstring(path_pictures.on_path(path))
    scale = (el.WIDTH - el.LEFT - 20) / path.cycles
    by_cause = {row["cause"]: row["cycles"] for row in path.totals(("cause",)).to_pylist()}
    work = sum(
        float(one.get("width", 0))
        for one in picture.iter()
        if one.get("fill") == el.BLUE and one.get("height") == "16.0"
    )
    assert work / scale == pytest.approx(by_cause["work"], rel=0.02)
    names = {row["operator"] for row in path.segments.to_pylist()}
    assert names <= {one.text for one in picture.iter()}


def test_only_the_optimal_designs_of_a_front_are_named() -> None:
    designs = [
        st.sweep.DesignCost(0, "small", 1, 10, 100, pareto_optimal=True),
        st.sweep.DesignCost(1, "poor", 1, 20, 110, pareto_optimal=False),
        st.sweep.DesignCost(2, "fast", 1, 30, 50, pareto_optimal=True),
    ]
    shown = texts(path_pictures.front(designs, "bytes", "cycles"))
    assert {"small", "fast", "bytes", "cycles"} <= set(shown)
    assert "poor" not in shown


def _f32(*shape: int) -> Any:
    return st.spec(*shape, dtype="f32")


@pytest.fixture(scope="module")
def product() -> tuple[st.hardware.Network, st.hardware.HardwareResult]:
    """The product of two matrices at the hardware level, traced."""
    with st.Program("product", compute_bw=8192) as program:
        a = st.linear_load(_f32(64, 128), (32, 32), shape=(2, 2, 4), stride=(4, 0, 1))
        b = st.linear_load(_f32(128, 64), (32, 32), shape=(2, 2, 4), stride=(0, 1, 2))
        st.linear_store(st.map_accum(st.fn.matmul, a, b, 1), "c")
    result = st.hardware.simulate(program, "hdl-fair", trace=True)
    return st.hardware.network_of(program), result.hardware


def test_each_access_of_a_bank_has_the_color_of_its_row() -> None:
    # Three accesses to a row of an idle bank, two to another row of it, one to another bank.
    addresses = [0, 512, 1024, 1 << 20, (1 << 20) + 512, 8192]
    run = st.dram.simulate(addresses, rounds=1, every=200, log=100)
    commands = run.commands().to_pylist()
    ticks = [one.get("fill") for one in ElementTree.fromstring(hardware_pictures.banks(run)).iter()
             if one.get("height") == "16.0"]  # fmt: skip
    assert run.counts["PRE"] == ticks.count(el.RED) == 1
    assert run.counts["ACT"] == ticks.count(el.RED) + ticks.count(el.GREEN) == 3
    assert ticks.count(el.BLUE) == run.counts["RD"] - run.counts["ACT"] == 3
    shown = texts(hardware_pictures.banks(run))
    assert {f"bank {row['bank']}" for row in commands} <= set(shown)


def test_units_of_hardware_have_their_firings_and_queues(
    product: tuple[st.hardware.Network, st.hardware.HardwareResult],
) -> None:
    network, result = product
    shown = texts(hardware_pictures.units(network, result))
    for unit in network.units:
        assert (unit.name in shown) == (unit.kind != "wire")
        if unit.kind != "wire":
            words = shown[shown.index(unit.name) + 1]
            assert words.startswith(f"{unit.function or unit.kind}, {_firings(result, unit)}")
    # A wire joins two FIFOs.
    held = sum(result.fifos[name].mean for name in ("matmul#2.a.dout", "matmul#2.mm.in1"))
    assert f"{held:.1f} of 4" in shown


def _firings(result: st.hardware.HardwareResult, unit: st.hardware.Unit) -> str:
    return f"{result.units[unit.name].firings:,} firings"


def test_a_queue_of_hardware_is_drawn_with_its_mean(
    product: tuple[st.hardware.Network, st.hardware.HardwareResult],
) -> None:
    _, result = product
    high = 100.0
    for name, most in (("matmul#2.mm.in1", 2), ("world0", result.fifos["world0"].peak)):
        drawing = hardware_pictures.queues(result, {name: "queue"}, high=high)
        (path,) = [one.get("d", "") for one in ElementTree.fromstring(drawing).iter()
                   if one.get("stroke") == el.BLUE]  # fmt: skip
        points = [tuple(map(float, at.split(","))) for at in path[1:].split("L")]
        base = points[0][1]
        area = sum((b[0] - a[0]) * (base - a[1]) for a, b in itertools.pairwise(points))
        mean = area / (el.WIDTH - el.LEFT - 20) / high * most
        assert mean == pytest.approx(result.fifos[name].mean, rel=0.02)
