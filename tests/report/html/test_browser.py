"""The pages in a real browser: clicks, keys, hover, search, colors; no error and no network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import stepsim as st
from stepsim.results.writing import neighbor
from stepsim.sweep import run_sweep
from tests.report.html.browser import opened
from tests.report.html.conftest import Command, small_search
from tests.report.html.hostile import NAMES, write_hostile_run
from tests.report.serving.conftest import SEVERAL

pytestmark = pytest.mark.slow

NEIGHBORS = "matmul_up", "up"
"""The second sends to the first."""

EMPTY = """
import stepsim as st

def empty() -> st.Program:
    "Nothing."
    with st.Program("empty") as program:
        pass
    return program
"""


@pytest.fixture(scope="module")
def run_page(browser: Any, moe_run: Path, command: Command) -> Path:
    path = moe_run.with_name("report.html")
    assert command("report", moe_run, "--out", path) == 0
    return path


@pytest.fixture(scope="module")
def sweep_page(browser: Any, small_sweep: Path, command: Command) -> Path:
    path = small_sweep.with_name("sweep.html")
    assert command("report", small_sweep, "--out", path) == 0
    return path


@pytest.fixture(scope="module")
def recorded_page(browser: Any, recorded_run: Path, command: Command) -> Path:
    path = recorded_run.with_name("report.html")
    assert command("report", recorded_run, "--out", path) == 0
    return path


def cells(page: Any, table: str, column: int) -> list[str]:
    rows = page.locator(f"#{table} tbody tr td:nth-child({column})")
    return [text.strip() for text in rows.all_inner_texts()]


def test_a_run_has_all_its_parts(browser: Any, run_page: Path) -> None:
    with opened(browser, run_page) as page:
        assert page.locator("#sections a").all_inner_texts() == [
            "Verdict", "Speed of light", "Roofline", "Stalls", "Over time", "Graph", "FIFOs",
            "Operators", "Provenance",
        ]  # fmt: skip
        assert "sda-1024" in page.inner_text("#provenance")
        assert page.locator("#roofline-chart .plot-container").count() == 1
        assert page.locator("#activity-chart .heatmaplayer image").count() == 1


def test_a_recorded_run_shows_its_path_and_its_timeline(browser: Any, recorded_page: Path) -> None:
    with opened(browser, recorded_page) as page:
        shares = [float(text.removesuffix(" %")) for text in cells(page, "path-table", 4)]
        assert len(shares) > 3
        assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))
        assert page.locator("#timeline-chart .ytitle").first.text_content().startswith("offchip")
        assert page.locator("#timeline-chart .scatterlayer .trace").count() > 5
        assert "peak tokens" in page.inner_text("#fifo-table thead")


def test_a_deadlock_is_reported_and_drawn(browser: Any, stuck_run: Path, command: Command) -> None:
    path = stuck_run.with_name("report.html")
    assert command("report", stuck_run, "--out", path) == 0
    with opened(browser, path) as page:
        assert "deadlock" in page.inner_text("#verdict .verdict")
        assert "these units form a circular wait:" in page.inner_text("#verdict pre")
        assert page.locator(".graph-view .stuck").count() == 7
        # A column without any value is left out.
        assert "tokens" in page.inner_text("#fifo-table thead")
        assert "peak" not in page.inner_text("#fifo-table thead")


def test_what_was_not_recorded_is_reported(browser: Any, run_page: Path) -> None:
    with opened(browser, run_page) as page:
        assert "stepsim run --record --out RUN.parquet" in page.inner_text("#time")
        assert "stepsim run --why --out RUN.parquet" in page.inner_text("#verdict")


def test_fifos_are_filtered_and_sorted(browser: Any, run_page: Path) -> None:
    with opened(browser, run_page) as page:
        field = page.get_by_label("Filter FIFOs")
        assert "3,2" in page.inner_text("#fifo-table [role=status]")
        field.fill("matmul_up. sent>0")
        assert 0 < len(cells(page, "fifo-table", 1)) < 100
        assert all("matmul_up." in " ".join(row) for row in zip(
            cells(page, "fifo-table", 1), cells(page, "fifo-table", 3), strict=True
        ))  # fmt: skip
        assert all(int(sent.replace(",", "")) > 0 for sent in cells(page, "fifo-table", 5))
        head = page.locator("#fifo-table th", has_text="sent")
        button = head.locator("button")
        button.focus()
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        sent = [int(text.replace(",", "")) for text in cells(page, "fifo-table", 5)]
        assert sent == sorted(sent)
        field.fill("nothing is called so")
        assert cells(page, "fifo-table", 1) == []
        assert page.inner_text("#fifo-table [role=status]").startswith("0 of ")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("depth < 4", "depth<4"),
        ("producer wait > 1,000", "producer_wait>1000"),
        ("depth == 2", "depth=2"),
        ("producer_wait != 0", "producer_wait>0"),
    ],
)
def test_a_condition_is_written_in_several_ways(
    browser: Any, run_page: Path, text: str, rows: str
) -> None:
    with opened(browser, run_page) as page:
        field, status = page.get_by_label("Filter FIFOs"), "#fifo-table [role=status]"
        whole = page.inner_text(status)
        field.fill(rows)
        expected = page.inner_text(status)
        field.fill(text)
        assert page.inner_text(status) == expected
        assert page.inner_text("#fifo-table [role=alert]") == ""
        assert expected != whole or text.startswith("depth")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dpeth<4", "dpeth<4: there is no column dpeth, expected one of"),
        ("sent>many", "sent>many: expected a number"),
        ("name<4", "name<4: name is a text"),
    ],
)
def test_what_a_filter_does_not_know_is_reported(
    browser: Any, run_page: Path, text: str, message: str
) -> None:
    with opened(browser, run_page) as page:
        page.get_by_label("Filter FIFOs").fill(text)
        assert message in page.inner_text("#fifo-table [role=alert]")
        assert len(cells(page, "fifo-table", 1)) == 100


def test_a_program_without_operators_has_a_page(
    browser: Any, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "empty.py").write_text(EMPTY)
    out = tmp_path / "run.parquet"
    assert command("run", f"{tmp_path / 'empty.py'}:empty", "--out", out) == 0
    assert command("report", out, "--out", tmp_path / "report.html") == 0
    with opened(browser, tmp_path / "report.html") as page:
        assert "took no time" in page.inner_text("#verdict")
        assert page.locator("#graph").count() == 0


def test_a_small_graph_is_seen_whole(browser: Any, recorded_page: Path) -> None:
    with opened(browser, recorded_page) as page:
        view = page.locator(".graph-view").bounding_box()
        boxes = [box.bounding_box() for box in page.locator(".graph-view .unit").all()]
        assert len(boxes) > 8
        assert max(b["y"] + b["height"] for b in boxes) <= view["y"] + view["height"]


def test_a_sweep_of_which_all_runs_failed_tells_why(
    browser: Any, tmp_path: Path, command: Command
) -> None:
    spec = {
        "name": "stuck",
        "workload": "swiglu",
        "parameters": {"batch": 8, "hidden": 16, "intermediate": 32, "tile_inter": 8},
        "limits": {"max_cycles": 5},
        "grid": {"tile": [2, 4]},
    }
    assert len(run_sweep(spec, tmp_path / "sweep", jobs=1).errors) == 1
    assert command("report", tmp_path / "sweep", "--out", tmp_path / "page.html") == 0
    with opened(browser, tmp_path / "page.html") as page:
        assert "No run succeeded: 2 failed" in page.inner_text("#overview")
        assert page.locator("#failures tbody tr").count() == 2
        assert page.locator("#pareto").count() == 0


def test_a_sweep_without_traces_speaks_of_none(
    browser: Any, tmp_path: Path, command: Command
) -> None:
    spec = {
        "name": "plain",
        "workload": "swiglu",
        "parameters": {"batch": 8, "hidden": 16, "intermediate": 32, "tile_inter": 8},
        "grid": {"tile": [2, 4, 8], "machine.hbm.channels": [8, 16]},
    }
    run_sweep(spec, tmp_path / "sweep", jobs=1)
    assert command("report", tmp_path / "sweep", "--out", tmp_path / "page.html") == 0
    cycles = pq.read_table(tmp_path / "sweep" / "runs")["cycles"].to_pylist()
    with opened(browser, tmp_path / "page.html", color_scheme="dark") as page:
        assert "traces" not in page.inner_text("#overview")
        assert not re.search(r"of \d+ traces", page.inner_text("main"))
        texts = page.locator("#heat-chart .textpoint").all_text_contents()
        assert sorted(texts) == sorted(f"{value:,}" for value in cycles)
        assert page.locator("#heat-chart .cbtitle").first.text_content() == "cycles"


def test_the_graph_is_searched_opened_and_hovered(
    browser: Any, run_page: Path, moe_run: Path
) -> None:
    units = pq.read_table(neighbor(moe_run, "units"))["name"].to_pylist()
    matmul, up = (next(u for u in units if u.startswith(f"{name}.3#")) for name in NEIGHBORS)
    with opened(browser, run_page) as page:
        # 2,444 units are drawn as their families.
        assert page.locator(".graph-view .unit").count() < 40
        page.fill("#graph-search", "matmul_up.3#")
        assert page.locator(".found button").all_inner_texts() == [matmul]
        page.keyboard.press("Enter")
        assert page.inner_text(".panel h3 >> nth=0") == matmul
        assert page.locator(".graph-view .cell").count() == 128
        assert page.evaluate("document.activeElement.id") == f"unit-{units.index(matmul)}"
        page.locator(".panel button", has_text=up).click()
        assert page.inner_text(".panel h3 >> nth=0") == up
        assert page.locator(".graph-view .cell").count() == 256
        page.locator(f"#unit-{units.index(up)}").hover()
        assert page.inner_text("#tip").startswith(f"{up} (Flatten)\n")
        page.get_by_role("button", name="Hide all lanes").click()
        assert page.locator(".graph-view .cell").count() == 0
        box = page.locator(".graph-view .unit", has_text="load_down")
        box.hover()
        assert "waits for memory" in page.inner_text("#tip")
        box.dblclick()
        assert page.locator(".graph-view .cell").count() == 128


def test_the_graph_obeys_keys(browser: Any, run_page: Path) -> None:
    with opened(browser, run_page) as page:
        first = page.locator('.graph-view .unit[tabindex="0"]')
        assert first.count() == 1
        first.focus()
        before = page.evaluate("document.activeElement.id")
        page.keyboard.press("ArrowDown")
        after = page.evaluate("document.activeElement.id")
        assert after != before
        page.keyboard.press("Enter")
        assert page.locator(".picked").get_attribute("id") == after
        for _ in range(30):
            if " 128" in page.evaluate("document.activeElement.textContent"):
                break
            page.keyboard.press("ArrowDown")
        page.keyboard.press("+")
        assert page.locator(".graph-view .cell").count() == 128
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.id").startswith("unit-")
        page.keyboard.press("-")
        assert page.locator(".graph-view .cell").count() == 0


def test_the_stall_tree_opens_by_keys(browser: Any, run_page: Path) -> None:
    with opened(browser, run_page) as page:
        line = page.locator("#stall-tree details details summary", has_text="load_").first
        line.focus()
        page.keyboard.press("Enter")
        opened_node = page.locator("#stall-tree details details[open]").first
        # What is inside is laid out after the key has been handled.
        opened_node.get_by_text("waits for memory").first.wait_for()
        opened_node.get_by_role("button", name="Show in the graph").click()
        assert page.locator(".picked").text_content().startswith("load_")


def test_keys_come_first_to_the_skip_link(browser: Any, run_page: Path) -> None:
    with opened(browser, run_page) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, select, input')].filter((one) => "
            "!one.textContent.trim() && !one.getAttribute('aria-label') && !one.closest('label'))"
            ".map((one) => one.outerHTML)"
        )
        assert unnamed == []


def test_colors_follow_the_system_and_the_switch(browser: Any, run_page: Path) -> None:
    look = "getComputedStyle(document.body).backgroundColor"
    ink = "document.querySelector('#roofline-chart .xtitle').style.fill"
    with opened(browser, run_page, color_scheme="light") as page:
        light, light_ink = page.evaluate(look), page.evaluate(ink)
        page.click("#theme")
        dark, dark_ink = page.evaluate(look), page.evaluate(ink)
        assert (light, light_ink) != (dark, dark_ink)
        assert page.get_attribute("#theme", "aria-pressed") == "true"
    with opened(browser, run_page, color_scheme="dark") as page:
        assert (page.evaluate(look), page.evaluate(ink)) == (dark, dark_ink)
        page.emulate_media(color_scheme="light")
        page.wait_for_timeout(100)
        assert (page.evaluate(look), page.evaluate(ink)) == (light, light_ink)


def test_charts_answer_the_pointer(browser: Any, run_page: Path) -> None:
    with opened(browser, run_page) as page:
        page.locator("#roofline").scroll_into_view_if_needed()
        star = page.locator("#roofline-chart .scatterlayer .trace").first.locator(".point").first
        box = star.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector("#roofline-chart .hovertext")
        assert "the run" in page.text_content("#roofline-chart .hovertext")


@pytest.mark.parametrize("width", [420, 800, 1300])
def test_no_page_is_wider_than_its_window(
    browser: Any, run_page: Path, sweep_page: Path, width: int
) -> None:
    for path in (run_page, sweep_page):
        with opened(browser, path, viewport={"width": width, "height": 800}) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_names_are_never_markup(
    browser: Any, moe_run: Path, tmp_path: Path, command: Command
) -> None:
    write_hostile_run(moe_run, tmp_path / "run.parquet")
    out = tmp_path / "report.html"
    assert command("report", tmp_path / "run.parquet", "--out", out) == 0
    with opened(browser, out) as page:
        assert NAMES[1] in page.inner_text("#title")
        for unit, name in enumerate(NAMES[:5]):
            page.fill("#graph-search", name)
            page.locator(".found button").first.click()
            assert page.inner_text(".panel h3 >> nth=0") == name
            page.locator(f"#family-{unit}").hover()
            assert page.inner_text("#tip").startswith(name)
        assert page.evaluate("window.hacked") is None
        assert page.locator("main img, main script, main svg[onload]").count() == 0


def test_a_sweep_has_its_front_maps_and_best_designs(browser: Any, sweep_page: Path) -> None:
    with opened(browser, sweep_page) as page:
        assert page.locator("#sections a").all_inner_texts() == [
            "Overview", "Pareto front", "Over two axes", "Over traces", "Best design",
            "Design points", "Provenance",
        ]  # fmt: skip
        assert "onchip bytes" in page.locator("#pareto-chart .xtitle").text_content()
        page.locator("#pareto").get_by_label("x", exact=True).select_option("offchip_bytes")
        assert "offchip" in page.locator("#pareto-chart .xtitle").text_content()
        point = page.locator("#pareto-chart .scatterlayer .point").first
        point.scroll_into_view_if_needed()
        box = point.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector("#pareto-chart .hovertext")
        assert "tile=" in page.text_content("#pareto-chart .hovertext")
        page.locator("#heat").get_by_label("columns").select_option("machine.hbm.channels")
        page.locator("#heat").get_by_label("rows").select_option("tile")
        assert page.locator("#heat-chart .xtitle").text_content() == "machine.hbm.channels"
        assert len(cells(page, "best-table", 1)) == 2
        page.locator("#best").get_by_label("for each").select_option(label="layer, step")
        assert len(cells(page, "best-table", 1)) == 4
        assert len(cells(page, "design-table", 1)) == 6
        page.get_by_label("Filter design points").fill("dynamic")
        assert cells(page, "design-table", 1) == ["dynamic", "dynamic"]


def test_a_search_shows_what_violates_its_constraints(
    browser: Any, tmp_path: Path, command: Command
) -> None:
    folder = tmp_path / "search"
    found = small_search(folder, "onchip_bytes <= 100e3")
    violating = [trial for trial in found.trials if trial.violated]
    assert (len(violating), len(found.front)) == (10, 3)
    path = tmp_path / "search.html"
    assert command("report", folder, "--out", path) == 0
    with opened(browser, path) as page:
        tiles = page.locator("#overview .tiles").inner_text()
        assert re.search(r"constraints\s+onchip_bytes <= 100e3", tiles, re.IGNORECASE)
        assert re.search(r"violate a constraint\s+10", tiles, re.IGNORECASE)
        assert "violates a constraint" in page.locator("#pareto-chart .legend").text_content()
        assert "10 design points that violate a constraint" in page.inner_text("#pareto")
        crosses = page.locator("#pareto-chart .scatterlayer .trace").first.locator(".point")
        assert crosses.count() == 10
        crosses.first.scroll_into_view_if_needed()
        box = crosses.first.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector("#pareto-chart .hovertext")
        assert "violates onchip_bytes <= 100e3" in page.text_content("#pareto-chart .hovertext")
        front = page.get_by_role("table", name="Pareto-optimal design points")
        assert front.locator("tbody tr").count() == len(found.front)
        page.get_by_label("Filter design points").fill("onchip")
        assert len(cells(page, "design-table", 1)) == 10


def test_a_search_of_which_nothing_is_feasible_says_so(
    browser: Any, tmp_path: Path, command: Command
) -> None:
    folder = tmp_path / "search"
    small_search(folder, "onchip_bytes <= 10")
    path = tmp_path / "search.html"
    assert command("report", folder, "--out", path) == 0
    with opened(browser, path) as page:
        assert page.inner_text("#overview .verdict") == "Every design point violates a constraint."
        assert page.locator("#pareto-chart .scatterlayer .point").count() == 16
        assert page.locator("#sections a").all_inner_texts() == [
            "Overview", "Pareto front", "Design points", "Provenance",
        ]  # fmt: skip


def test_services_have_all_their_parts(browser: Any, tmp_path: Path, command: Command) -> None:
    for name, rate in (("a", 100), ("b", 300)):
        served = st.serve(
            {**SEVERAL, "rate": rate, "slo": "ttft=1s,tpot=50ms"}, out=tmp_path / name
        )
    path = tmp_path / "page.html"
    assert command("report", tmp_path / "b", tmp_path / "a", "--out", path) == 0
    with opened(browser, path) as page:
        assert page.locator("#sections a").all_inner_texts() == [
            "Summary", "Latencies", "Comparison", "Over time", "Steps", "Where the time went",
            "Slowest requests", "Provenance",
        ]  # fmt: skip
        assert "[object" not in page.inner_text("main")
        shown = f"{served.metrics['e2el_p99_ms']:,.2f}"
        assert shown in cells(page, "latency-table", 7)
        assert page.locator("#cdf-ttft .scatterlayer .trace").count() == 2
        assert "SLO" in page.locator("#cdf-tpot").text_content()
        assert page.locator("#time-chart .scatterlayer .trace").count() == 6
        whole = page.locator("#steps").inner_text()
        page.get_by_label("replica").select_option("1")
        assert page.locator("#steps").inner_text() != whole
        page.get_by_label("service").select_option("1")
        assert page.get_by_label("replica").input_value() == "all"
        assert "settings.rate" in page.inner_text("#compared")
        slowest = [float(text.replace(",", "")) for text in cells(page, "slowest-table", 8)]
        assert slowest == sorted(slowest, reverse=True)
