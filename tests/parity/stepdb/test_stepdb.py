"""Programs of another project, measured there by the public simulator, run here to the cycle."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.parity.stepdb.comparison import Compared, compare, problems
from tests.parity.stepdb.page import PAGE, page_of
from tests.parity.stepdb.points import (
    SHARED_TABLE,
    TABLE,
    WORKLOADS,
    Point,
    read_points,
    routing_of,
)
from tests.parity.stepdb.router import Normals
from tests.shared import recorded

# A table that was named must be there.
needs_points = recorded(TABLE if TABLE == SHARED_TABLE else TABLE.parent)


@cache
def determined(table: Path = TABLE) -> list[Point]:
    points = read_points(table)
    assert {point.row["determined"] for point in points} <= {"yes", "no"}
    return [point for point in points if point.determined]


@cache
def compared(table: Path) -> list[Compared]:
    points = determined(table)
    unknown = {point.workload for point in points} - set(WORKLOADS)
    assert not unknown, f"workloads without a program: {sorted(unknown)}"
    assert points
    return [compare(point) for point in points]


def test_normal_numbers_are_those_of_the_source() -> None:
    expected = [1.92692, 1.48728, 0.90072, -2.10552, 0.67842, -1.23455, -0.04307, -1.60467]
    assert Normals().draw(2, 8)[0] == pytest.approx(expected, abs=1e-5)
    skipped, drawn = Normals(), Normals()
    skipped.skip(32)
    assert (skipped.draw(16) == drawn.draw(48)[32:]).all()


@needs_points
def test_routing_is_that_of_the_source() -> None:
    routed = [point for point in determined() if point.routed]
    assert routed
    for point in routed:
        assert routing_of(point) == point.row["routing_check"], point.name


@needs_points
def test_stepdb_points(capsys: pytest.CaptureFixture[str]) -> None:
    """Every determined point; one line each: id, ours, published, difference."""
    found = compared(TABLE)
    with capsys.disabled():  # the lines are what a reader of the run is after
        print()  # noqa: T201
        for one in found:
            print(one)  # noqa: T201
    # The share of routed points is one of StepDB: a table with a few of them adds to the shared.
    shared = compared(SHARED_TABLE) if SHARED_TABLE.is_file() else []
    routed = {one.point.name: one for one in (*shared, *found)}
    assert not problems(found, list(routed.values()))


@recorded(SHARED_TABLE)
def test_page_is_that_of_the_present_model() -> None:
    """Else write it again: ``python -m tests.parity.stepdb ../shared/data/stepdb/points.csv``."""
    assert PAGE.read_text(encoding="utf-8") == page_of(compared(SHARED_TABLE))


def made_up(cycles: int, ours: int, routed: bool = False, name: str = "gemm.square") -> Compared:
    row = {"id": name, "cycles": str(cycles), "routing_check": "first=0" if routed else ""}
    return Compared(Point(row), ours)


@pytest.mark.parametrize(("difference", "agrees"), [(-1, False), (0, True), (2, True), (3, False)])
def test_only_the_end_of_a_run_may_differ(difference: int, agrees: bool) -> None:
    one = made_up(100_000, 100_000 + difference)
    assert one.agrees is agrees
    assert problems([one], [one]) == ([] if agrees else [str(one)])
    assert str(one) == f"gemm.square {one.ours} 100000 {difference:+d}"


def test_routed_points_may_differ_more_but_not_most_of_them() -> None:
    near, far = made_up(100_000, 100_240, routed=True), made_up(100_000, 100_260, routed=True)
    assert near.agrees
    assert not far.agrees
    assert made_up(100_000, 103_900, routed=True, name="moe_routed.med_d256_nf2").agrees
    exact = made_up(100_000, 100_001, routed=True)
    assert problems([exact, exact, near], [exact, exact, near]) == []
    few = "only 1 of 2 routed points are within (0, 1, 2)"
    assert problems([exact, near], [exact, near]) == [few]
    assert problems([far], [exact, exact, far]) == [str(far)]


@needs_points
def test_a_table_of_ones_own_is_read_and_each_point_has_a_line(tmp_path: Path) -> None:
    rows = TABLE.read_text(encoding="utf-8").splitlines(keepends=True)
    near, far = sorted(
        (point for point in determined() if not point.routed), key=lambda point: point.published
    )[:2]
    (good,) = (row for row in rows if row.startswith(f"{near.name},"))
    (bad,) = (row for row in rows if row.startswith(f"{far.name},"))
    table = tmp_path / "own.csv"
    table.write_text(rows[0] + good + bad.replace(f",{far.published},", f",{far.published + 50},"))
    test = f"{Path(__file__)}::test_stepdb_points"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", test],
        env={**os.environ, "STEPSIM_STEPDB": str(table), "STEPSIM_SHARED": str(tmp_path)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert str(compare(near)) in lines
    ours = compare(far).ours
    odd = f"{far.name} {ours} {far.published + 50} {ours - far.published - 50:+d}"
    assert odd in lines
    assert done.returncode == 1
    assert "1 failed" in lines[-1]


@needs_points
def test_an_altered_table_is_noticed() -> None:
    plain = [point for point in determined() if not point.routed]
    point = min(plain, key=lambda point: point.published)
    altered = replace(point, row={**point.row, "cycles": str(point.published - 3)})
    assert compare(point).agrees
    assert not compare(altered).agrees


@needs_points
def test_a_workload_without_a_program_is_an_error(tmp_path: Path) -> None:
    table = tmp_path / "points.csv"
    text = TABLE.read_text(encoding="utf-8")
    table.write_text(text.replace(f",{determined()[0].workload},", ",convolution,"))
    with pytest.raises(AssertionError, match=r"workloads without a program: \['convolution'\]"):
        compared(table)
