"""The network on the page of a placed run: the grid, its links, and what is where."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.report.html.chips import chips_document
from stepsim.report.html.network import network_document
from stepsim.report.html.reading import read_run
from stepsim.report.html.run_document import run_document
from stepsim.results import neighbor, stall_tree
from tests.report.html.browser import opened
from tests.report.html.conftest import Command

_PLACED = """
import stepsim as st

def gated() -> st.Program:
    with st.Program("gated", compute_bw=1024) as program:
        x = st.linear_load(st.spec(512, 64), tile=(16, 64)).flatten(0, 1)
        gate, up = x.map(st.fn.silu), x.map(st.fn.gelu)
        st.linear_store(st.zip(gate, up).map(st.fn.mul), "out")
    return program
"""


@pytest.fixture(scope="module")
def placed_run(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    folder = tmp_path_factory.mktemp("placed")
    (folder / "placed.py").write_text(_PLACED)
    path = folder / "run.parquet"
    grid = ("--set", "noc=mesh", "--set", "noc.rows=3", "--set", "noc.cols=4")
    placing = (*grid, "--place", "row-major", "--record", "--out", path)
    assert command("run", f"{folder / 'placed.py'}:gated", *placing) == 0
    return path


def _document(path: Path) -> dict[str, Any]:
    tables = read_run(path)
    return run_document(tables, stall_tree(tables.units, tables.fifos).to_dict())


def test_the_drawing_has_the_places_of_operators_and_ports(placed_run: Path) -> None:
    document = _document(placed_run)
    network, names = document["network"], document["units"]["columns"]["name"]
    assert len(network["places"]) == 12
    on = {place["name"]: [names[unit] for unit in place["units"]] for place in network["places"]}
    assert on["(0, 0)"] == ["linear_load#0"]
    assert on["(1, 2)"] == ["linear_store#6"]
    assert on["(2, 3)"] == []
    busy = document["units"]["columns"]["busy"]
    silu = next(place for place in network["places"] if place["name"] == "(0, 2)")
    assert silu["busy"] == busy[names.index("silu#2")] / document["row"]["cycles"] > 0
    assert [place["name"] for place in network["places"] if place["ports"]] == ["(0, 0)", "(0, 3)"]
    assert next(place for place in network["places"] if place["name"] == "(2, 3)")["busy"] is None


def test_links_lead_from_place_to_place(placed_run: Path) -> None:
    document = _document(placed_run)
    network, links = document["network"], document["links"]["columns"]
    at = {place["name"]: place["at"] for place in network["places"]}
    ends = zip(network["links"], links["from_place"], links["to_place"], strict=True)
    for (x1, y1, x2, y2, part), one, other in ends:
        assert part == 0.5
        # Beside the straight line between the two, on the right of its way.
        assert abs(x1 - at[one][0]) + abs(y1 - at[one][1]) == pytest.approx(7)
        assert abs(x2 - at[other][0]) + abs(y2 - at[other][1]) == pytest.approx(7)
        across, aside = (x2 - x1, y2 - y1), (x1 - at[one][0], y1 - at[one][1])
        assert across[0] * aside[1] - across[1] * aside[0] > 0


def test_figures_of_links_around_the_edge_are_outside(tmp_path: Path, command: Command) -> None:
    (tmp_path / "placed.py").write_text(_PLACED)
    grid = ("--set", "noc=torus", "--set", "noc.rows=3", "--set", "noc.cols=4")
    placing = (*grid, "--place", "row-major", "--out", tmp_path / "run.parquet")
    assert command("run", f"{tmp_path / 'placed.py'}:gated", *placing) == 0
    document = _document(tmp_path / "run.parquet")
    network, links = document["network"], document["links"]["columns"]
    around = [part for *_, part in network["links"]]
    assert around.count(0.85) == 2 * 3 + 2 * 4
    right = max(x for x, _ in (place["at"] for place in network["places"]))
    x1, _, x2, _, part = network["links"][links["link_name"].index("(1, 3) east")]
    assert x1 + part * (x2 - x1) > right + 49


def test_waits_for_packets_are_apart_from_those_for_memory(placed_run: Path) -> None:
    columns = _document(placed_run)["units"]["columns"]
    stored = pq.read_table(neighbor(placed_run, "units")).to_pydict()
    receives = [kind == "ReceivePacket" for kind in stored["operator"]]
    for one, memory, network, both in zip(
        receives,
        columns["wait_memory"],
        columns["wait_network"],
        stored["wait_memory"],
        strict=True,
    ):
        assert (memory, network) == ((0, both) if one else (both, 0))
    assert any(columns["wait_network"])


def test_a_run_that_is_not_placed_has_no_network(recorded_run: Path) -> None:
    document = _document(recorded_run)
    assert document["network"] is document["links"] is None
    assert "wait_network" not in document["units"]["columns"]
    tables = read_run(recorded_run)
    assert network_document(tables.row, tables.units, None) is None


_CHIPS = """
import stepsim as st


def two() -> st.Program:
    with st.Program("two", compute_bw=64) as program:
        with st.chip(0):
            x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        with st.chip(1):
            st.linear_store(x.map(st.fn.silu), "out")
    return program
"""


def test_waits_for_other_chips_are_no_waits_for_memory(tmp_path: Path, command: Command) -> None:
    (tmp_path / "chips.py").write_text(_CHIPS)
    out = tmp_path / "run.parquet"
    values = ("count=2", "topology=fully-connected", "gib_per_s=50", "latency_ns=500")
    chips = [word for value in values for word in ("--set", f"chips.{value}")]
    assert command("run", tmp_path / "chips.py", "--set", "clock_ghz=1", *chips, "--out", out) == 0
    columns = _document(out)["units"]["columns"]
    kinds = read_run(out).units["operator"].to_pylist()
    waits = dict(zip(kinds, columns["wait_network"], strict=True))
    assert waits.pop("ReceiveMessage") >= 500
    assert not any(waits.values())
    assert columns["wait_memory"][kinds.index("ReceiveMessage")] == 0


@pytest.fixture(scope="module")
def chips_run(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    folder = tmp_path_factory.mktemp("chips")
    (folder / "chips.py").write_text(_CHIPS)
    values = ("count=4", "topology=ring", "gib_per_s=5", "latency_ns=500")
    chips = [word for value in values for word in ("--set", f"chips.{value}")]
    recorded = ("--set", "clock_ghz=1", "--record", "--out", folder / "run.parquet")
    assert command("run", folder / "chips.py", *chips, *recorded) == 0
    return folder / "run.parquet"


def test_chips_are_drawn_with_their_operators_and_links(chips_run: Path) -> None:
    document = _document(chips_run)
    network, names = document["network"], document["units"]["columns"]["name"]
    on = [[names[unit] for unit in chip["units"]] for chip in network["places"]]
    assert on == [["linear_load#0", "flatten#1"], ["silu#2", "linear_store#3"], [], []]
    assert [chip["name"] for chip in network["places"]] == [f"chip {i}" for i in range(4)]
    assert network["places"][2]["busy"] is None
    busy = document["units"]["columns"]["busy"]
    assert network["places"][1]["busy"] == busy[names.index("silu#2")] / document["row"]["cycles"]
    links = document["links"]["columns"]
    most = max(range(len(network["links"])), key=lambda one: network["shares"][one])
    assert network["names"][most] == "chip 0 to chip 1"
    assert network["shares"] == links["link_utilization"]
    assert network["about"][most].startswith("4 messages, 8,192 bytes")
    for (x1, y1, *_), one in zip(network["links"], links["from_device"], strict=True):
        x, y = network["places"][one]["at"]
        assert ((x1 - x) ** 2 + (y1 - y) ** 2) ** 0.5 == pytest.approx(6, abs=0.2)
    assert document["path"] is not None


@pytest.fixture(scope="module")
def page_with_energies(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """The page of a run on two chips of a machine with energies, those of links included."""
    folder = tmp_path_factory.mktemp("energies")
    (folder / "chips.py").write_text(_CHIPS)
    values = (
        "chips.count=2", "chips.topology=switch", "chips.gib_per_s=5", "chips.latency_ns=500",
        "energy.chip_link_pj_per_byte=8",
    )  # fmt: skip
    changes = [word for value in values for word in ("--set", value)]
    out = folder / "run.parquet"
    machine = ("--machine", "sda-1024-energy")
    assert command("run", folder / "chips.py", *machine, *changes, "--out", out) == 0
    assert command("report", out, "--out", out.with_suffix(".html")) == 0
    return out.with_suffix(".html")


@pytest.mark.slow
def test_the_energy_of_chips_and_links_is_on_the_page(
    page_with_energies: Path, chips_run: Path
) -> None:
    path = page_with_energies.with_suffix(".parquet")
    row, shares = read_run(path).row, _document(path)["energy"]
    assert row["energy_links_joules"] > 0
    links = 100 * row["energy_links_joules"] / row["energy_joules"]
    assert f"{links:.1f} % links" in shares
    assert sum(float(share) for share in re.findall(r"([\d.]+) %", shares)) == pytest.approx(
        100, abs=0.4
    )
    assert _document(chips_run)["energy"] is None


@pytest.mark.slow
def test_the_page_has_a_tile_of_the_energy(browser: Any, page_with_energies: Path) -> None:
    joules = read_run(page_with_energies.with_suffix(".parquet")).row["energy_joules"]
    with opened(browser, page_with_energies) as page:
        (tile,) = [text for text in page.locator(".tiles div").all_inner_texts()
                   if text.startswith("energy")]  # fmt: skip
    shown, shares = tile.splitlines()[1:]
    number, unit = shown.split()
    scale = {"mJ": 1e-3, "\N{MICRO SIGN}J": 1e-6, "nJ": 1e-9}[unit]
    assert float(number) * scale == pytest.approx(joules, rel=1e-3)
    assert "links" in shares


def test_a_switch_is_in_the_middle(chips_run: Path) -> None:
    tables = read_run(chips_run)
    links = pa.table({"from_device": [0, 1, 4, 4], "to_device": [4, 4, 0, 1]})
    for name in ("link_utilization", "link_messages", "link_bytes", "link_waited_cycles"):
        links = links.append_column(name, pa.array([0] * 4))
    network = chips_document(tables.row, tables.units, links)
    assert network is not None
    assert network["places"][4]["name"] == "the switch"
    assert network["places"][4]["at"] == [size / 2 for size in network["size"]]
    assert network["names"][0] == "chip 0 to the switch"
    assert chips_document(tables.row, tables.units, None) is None


def test_links_of_an_earlier_run_are_removed(tmp_path: Path, command: Command) -> None:
    (tmp_path / "placed.py").write_text(_PLACED)
    out = tmp_path / "run.parquet"
    model, grid = f"{tmp_path / 'placed.py'}:gated", ("--set", "noc=mesh")
    assert command("run", model, *grid, "--place", "row-major", "--out", out) == 0
    assert neighbor(out, "links").exists()
    assert command("run", model, *grid, "--out", out) == 0
    assert not neighbor(out, "links").exists()


@pytest.fixture(scope="module")
def page_of_placed(placed_run: Path, command: Command) -> Path:
    path = placed_run.with_name("report.html")
    assert command("report", placed_run, "--out", path) == 0
    return path


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_draws_the_heat(browser: Any, page_of_placed: Path, scheme: str) -> None:
    with opened(browser, page_of_placed, color_scheme=scheme) as page:
        assert "Network" in page.locator("#sections a").all_inner_texts()
        assert page.locator(".network-view .place").count() == 12
        assert page.locator(".network-view .link").count() == 34
        assert "The busiest link is" in page.inner_text("#network p")
        figures = page.locator(".network-view .share").all_text_contents()
        assert all(re.fullmatch(r"\d{1,3}", figure) for figure in figures)
        strokes = page.eval_on_selector_all(
            ".network-view .link", "lines => lines.map((line) => getComputedStyle(line).stroke)"
        )
        assert len(set(strokes)) > 2  # links without flits, half full and full ones
        assert "waits for the network" in page.inner_text("#stalls .legend")
        boxes = page.eval_on_selector_all(
            ".network-view .unit", "all => all.map((one) => [one.querySelector('.place')"
            ".getBoundingClientRect().width, one.querySelector('.name').getBoundingClientRect()"
            ".width])",
        )  # fmt: skip
        assert boxes
        assert all(name < box for box, name in boxes)


@pytest.mark.slow
def test_a_place_leads_to_the_graph(browser: Any, page_of_placed: Path) -> None:
    with opened(browser, page_of_placed) as page:
        place = page.locator(".network-view .unit").first
        place.focus()
        page.keyboard.press("Enter")
        assert "linear_load#0" in page.inner_text("#graph .panel")


@pytest.mark.slow
def test_the_page_draws_chips(browser: Any, chips_run: Path, command: Command) -> None:
    page_of_chips = chips_run.with_suffix(".html")
    assert command("report", chips_run, "--out", page_of_chips) == 0
    with opened(browser, page_of_chips) as page:
        assert page.locator(".network-view .place").count() == 4
        assert page.locator(".network-view .link").count() == 8
        assert "The busiest link is chip 0 to chip 1" in page.inner_text("#network p")
        page.locator(".network-view .unit").first.focus()
        page.keyboard.press("Enter")
        assert "linear_load#0" in page.inner_text("#graph .panel")
