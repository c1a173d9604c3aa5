"""Which points a figure has, and which runs they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepsim.errors import ArgError
from stepsim.reproduce import FIGURES, archived_points, points_of
from stepsim.reproduce.choice import choose_figures
from stepsim.reproduce.pages.validation import recorded_points
from stepsim.reproduce.published import published, run_key
from stepsim.reproduce.settings import KV_TRACES
from tests.shared import TRACES, needs_traces

SIZES = {
    "8": 45, "9": 10, "10": 16, "12": 12, "13": 6, "14": 18, "15": 8, "17": 6, "19": 10, "20": 16,
    "21": 81,
}  # fmt: skip


def test_sizes_of_the_figures() -> None:
    assert {figure: len(points_of(figure)) for figure in FIGURES} == SIZES
    for figure in FIGURES:
        points = points_of(figure)
        assert len({p.point_id for p in points}) == len({p.run for p in points}) == len(points)
        assert {p.figure for p in points} == {figure}


def test_figures_that_show_the_same_runs_share_them() -> None:
    runs = {figure: {p.run for p in points_of(figure)} for figure in FIGURES}
    assert runs["9"] == runs["19"]
    assert runs["10"] == runs["20"]
    assert runs["13"] < runs["12"]
    assert runs["14"] < runs["21"]
    assert len(runs["15"] & runs["21"]) == 2
    assert len(set().union(*runs.values())) == 176


def test_runs_of_different_settings_are_told_apart_by_their_keys() -> None:
    points = [p for figure in FIGURES for p in points_of(figure)] + archived_points()
    keys = {run_key(p.run) for p in points}
    assert len(keys) == len({p.run for p in points})
    run = points_of("12")[0].run
    for change in ({"regions": 2}, {"tile": 8}, {"tile_inter": 64}, {"fifo_depth": 1}):
        changed = replace(run, parameters={**run.parameters, **change})
        assert run_key(changed) != run_key(run)


def test_windows_of_kv_lengths() -> None:
    groups: dict[tuple[int, str], int] = {}
    for trace in KV_TRACES:
        groups[trace.requests, trace.kv_class] = groups.get((trace.requests, trace.kv_class), 0) + 1
        first, last = trace.file.removesuffix(".npy").split("_")[-2:]
        assert int(last) - int(first) + 1 == trace.requests
    assert set(groups.values()) == {3}
    assert len(groups) == 9


def test_figure_17_says_what_is_known_of_it() -> None:
    ratios = {"memory-matched": (1.0, 1.0), "performance-matched": (1.2, 1.25), "dynamic": (1.5, 2)}
    rows = [
        {"series": series, "model": "mixtral-8x7b", "ratio": ours, "published_ratio": theirs}
        for series, (ours, theirs) in ratios.items()
    ]
    *known, speedup = FIGURES["17"].remarks(rows)
    starts = ["known from the text", "known from the bars", "taken from the paper's", "unknown"]
    assert [line.startswith(start) for line, start in zip(known, starts, strict=True)] == [True] * 4
    assert speedup == (
        "speedup of the dynamic variant, Mixtral-8x7B: 1.500 over memory-matched, 2.000 in the "
        "figure; 1.250 over performance-matched, 1.600 in the figure"
    )
    alone = [{**row, "published_ratio": None} for row in rows]
    assert (
        FIGURES["17"]
        .remarks(alone)[-1]
        .endswith("1.500 over memory-matched; 1.250 over performance-matched")
    )
    assert FIGURES["17"].remarks(rows[:2]) == known


def test_figure_17_states_the_lengths_only_of_recorded_traces() -> None:
    def of_text(trace: str) -> str:
        row = {"series": "dynamic", "model": "mixtral-8x7b", "trace": trace}
        return str(FIGURES["17"].remarks([row])[0])

    assert of_text("a.npz; b.npy").endswith("; cache lengths of median deviation")
    assert "cache lengths" not in of_text("synthetic")


def test_unknown_figure() -> None:
    with pytest.raises(ArgError, match="unknown figure '11'; expected one of 8, 9, 10, 12"):
        points_of("11")


@pytest.mark.parametrize(
    ("names", "chosen"),
    [(["21", "8"], ["8", "21"]), (["fig9", "Fig. 9", "figure12"], ["9", "12"]),
     (["8", "all"], list(FIGURES)), (["fig08"], ["8"])],
)  # fmt: skip
def test_choice_of_figures(names: list[str], chosen: list[str]) -> None:
    assert [one.number for one in choose_figures(names)] == chosen


@pytest.mark.parametrize("names", [["16"], ["9", "x"], [""], []])
def test_no_such_figure(names: list[str]) -> None:
    with pytest.raises(
        ArgError, match=r"expected one or more of 8, 9, .* 'all', or a file FILE.py .*, found"
    ):
        choose_figures(names)


def test_every_plotted_point_is_produced_under_its_name() -> None:
    wanted = {
        (figure, row.point_id)
        for row in published().rows
        if not row.archived and row.mean_of is None and row.key is not None
        for figure in row.figures
    }
    assert len(wanted) > 100
    found = set()
    for figure in FIGURES:
        for point in points_of(figure):
            row = published().plotted(figure, point.run)
            if row is not None:
                assert row.point_id == point.point_id
                found.add((figure, row.point_id))
    assert found == wanted


def test_every_point_with_canonical_cycles_is_run() -> None:
    recorded = recorded_points(published())
    assert {p.published.point_id for p in recorded} == set(published().canonical)


@needs_traces
def test_all_traces_are_there() -> None:
    points = [p for figure in FIGURES for p in points_of(figure)] + archived_points()
    for run in {p.run for p in points}:
        for name in filter(None, (run.routing, run.lengths)):
            assert (TRACES / name).is_file()
