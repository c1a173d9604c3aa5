"""The comparison with the baseline, and the forms of what the benchmarks write."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import check, page, stages, whole_process, yardsticks
from bench.callgrind import can_count, counts_of
from bench.check import LIMITS, compare
from bench.measures import MEASURES
from bench.peers import __main__ as peers


def test_nothing_to_say_within_the_limit() -> None:
    assert compare({"a": 1049, "b": 500}, {"a": 1000, "b": 1000}, 1.05) == []


@pytest.mark.parametrize("kind", LIMITS)
def test_ten_percent_more_is_a_failure(kind: str) -> None:
    (problem,) = compare({"a": 1100, "b": 1000}, {"a": 1000, "b": 1000}, LIMITS[kind])
    assert problem == (
        f"a: baseline 1 000, found 1 100, 1.100 times as much; at most {LIMITS[kind]} is allowed"
    )


def test_measures_and_baseline_must_be_the_same() -> None:
    assert compare({"new": 1.5}, {"old": 1.5}, 1.08) == [
        "new: measured, but not in the baseline",
        "old: in the baseline, but not measured",
    ]


def test_the_baseline_has_every_measure() -> None:
    baseline = json.loads(check.BASELINE.read_text(encoding="utf-8"))
    names = [measure.name for measure in MEASURES]
    assert len(set(names)) == len(names)
    assert set(baseline) == {"instructions", "ratios"}
    for part in (baseline["instructions"], *baseline["ratios"].values()):
        assert list(part["measures"]) == names


def test_the_baseline_was_made_with_the_locked_packages() -> None:
    """Else nothing would be compared any more."""
    baseline = json.loads(check.BASELINE.read_text(encoding="utf-8"))
    lock = (check.BASELINE.parents[1] / "requirements.lock").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([a-z]+)==(\S+)", lock, flags=re.MULTILINE))
    for part in (baseline["instructions"], *baseline["ratios"].values()):
        found = {name: part["versions"][name] for name in check.PACKAGES}
        assert found == {name: locked[name] for name in check.PACKAGES}


@pytest.fixture
def baseline(tmp_path, monkeypatch):
    """A baseline of one measure, and what is found."""
    path = tmp_path / "baseline.json"
    monkeypatch.setattr(check, "BASELINE", path)

    def store(instructions, found, versions=None, processor="another processor"):
        versions = check._versions() | (versions or {})
        content = {
            "instructions": {"versions": versions, "measures": {"a": instructions}},
            "ratios": {processor: {"versions": versions, "measures": {"a": 1.0}}},
        }
        path.write_text(json.dumps(content), encoding="utf-8")
        monkeypatch.setattr(check, "_measure", lambda kind, names: {"a": found})
        monkeypatch.setattr(check, "_selected", lambda parts: ["a", *(["b"] if not parts else [])])
        return path

    return store


def test_names_select_measures_by_a_part_of_their_name() -> None:
    names = [measure.name for measure in MEASURES]
    assert check._selected(()) == names
    assert check._selected(("build:", "forks")) == [
        "engine: forks and joins", "build: Mixtral layer, dynamic", "build: attention, dynamic",
    ]  # fmt: skip
    with pytest.raises(SystemExit, match=r"no measure has 'forkz' in its name; the measures are"):
        check._selected(("forkz",))


def test_only_the_selected_measures_are_compared(baseline, capsys) -> None:
    path = baseline(1000, 1000)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["instructions"]["measures"]["b"] = 5
    path.write_text(json.dumps(content), encoding="utf-8")
    assert check._check("instructions", ["a"]) == 0
    assert check._check("instructions", ["a", "b"]) == 1
    assert "b: in the baseline, but not measured" in capsys.readouterr().err


@pytest.mark.slow
def test_a_child_measures_what_is_selected() -> None:
    command = [sys.executable, "-m", "bench.check", "--part", "time", "image: chain of 300 units"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert list(json.loads(done.stdout)) == ["image: chain of 300 units"]


@pytest.mark.parametrize(("found", "notes"), [(890, 1), (910, 0)])
def test_measures_far_below_the_baseline_are_a_note(baseline, capsys, found, notes) -> None:
    baseline(1000, found)
    assert check._check("instructions", ["a"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["measure", "instructions", "ratio", "to", "baseline"]
    note = "note: a: far below baseline.json; make bench-baseline keeps the gain\n"
    assert out.count(note) == notes


def test_a_regression_is_named_with_how_to_accept_it(baseline, capsys) -> None:
    baseline(1000, 1100)
    assert check._check("instructions", ["a"]) == 1
    message = capsys.readouterr().err
    assert "a: baseline 1 000, found 1 100, 1.100 times as much" in message
    assert "make bench-baseline" in message


def test_less_is_no_failure(baseline, capsys) -> None:
    baseline(1000, 900)
    assert check._check("instructions", ["a"]) == 0
    assert "0.900" in capsys.readouterr().out


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("name", ["python", "build", "compiler", "libc", "numba"])
def test_other_versions_are_not_comparable(baseline, capsys, kind: str, name: str) -> None:
    baseline(1000, 2000, {name: "2.7"}, page.processor_model())
    assert check._check(kind, ["a"]) == check.NOT_COMPARABLE == 3
    message = capsys.readouterr().err
    assert "baseline.json is not comparable, nothing was measured" in message
    assert f"({name} 2.7 there, {check._versions()[name]} here)" in message


def test_ratios_of_another_processor_are_not_comparable(baseline, capsys) -> None:
    baseline(1000, 2.0)
    assert check._check("ratios", ["a"]) == check.NOT_COMPARABLE
    message = capsys.readouterr().err
    assert f"ratios of another processor, none of {page.processor_model()}. Install" in message


def test_ratios_of_this_processor_are_compared(baseline) -> None:
    baseline(1000, 2.0, processor=page.processor_model())
    assert check._check("ratios", ["a"]) == 1


def test_a_processor_is_known_by_its_numbers(monkeypatch) -> None:
    text = "processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\nstepping\t: 1\n"
    monkeypatch.setattr(page.Path, "is_file", lambda path: True)
    monkeypatch.setattr(page.Path, "read_text", lambda path: f"{text}\n{text.replace('2', '3')}")
    assert page.processor() == "AMD EPYC"
    assert page.processor_model() == "AMD EPYC (cpu family 26, model 2, stepping 1)"
    monkeypatch.setattr(page.Path, "is_file", lambda path: False)
    assert page.processor_model() == page.processor()


def test_without_valgrind_only_ratios_of_this_processor_are_renewed(baseline, monkeypatch) -> None:
    path = baseline(1000, 2.0, {"numba": "0.1"})
    before = json.loads(path.read_text(encoding="utf-8"))
    monkeypatch.setattr(check, "can_count", lambda: False)
    assert check._renew() == 0
    after = json.loads(path.read_text(encoding="utf-8"))
    here = {"versions": check._versions(), "measures": {"a": 2.0}}
    assert after["instructions"] == before["instructions"]
    assert after["ratios"] == before["ratios"] | {page.processor_model(): here}
    assert check._check("ratios", ["a"]) == 0
    monkeypatch.setattr(check, "can_count", lambda: True)
    assert check._renew() == 0
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "instructions": here,
        "ratios": {page.processor_model(): here},
    }


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 1), (3, 0), (2, 2)])
def test_only_a_baseline_that_is_not_comparable_lets_checks_pass(
    tmp_path: Path, code: int, ends: int
) -> None:
    """Commands that do nothing stand in for all but the exit code of the check of speed."""
    script = check.BASELINE.parents[1] / ".ci" / "run"
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_bytes(script.read_bytes())
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\n[ "$2" = bench.check ] && exit {code}\necho "$@"\n')
    for name in ("make", "chromium"):  # without a browser, one would be installed
        (tmp_path / name).write_text("#!/bin/sh\n")
    for made in (python, tmp_path / "make", tmp_path / "chromium"):
        made.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", tmp_path / ".ci" / "run"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == ends
    assert ("SPEED WAS NOT CHECKED" in done.stderr) == (code == 3)
    assert ("build/tests.xml build/slow.xml" in done.stdout) == (ends == 0)


@pytest.mark.slow
@pytest.mark.skipif(not can_count(), reason="valgrind is not here to count instructions")
def test_blocks_are_counted_one_by_one(tmp_path) -> None:
    script = tmp_path / "loops.py"
    script.write_text(
        "from bench.callgrind import counted\n"
        "def loop(n):\n"
        "    for _ in range(n):\n"
        "        pass\n"
        "for n in (100, 10_000, 20_000):\n"
        "    with counted(f'loop {n}'):\n"
        "        loop(n)\n",
        encoding="utf-8",
    )
    found = counts_of([sys.executable, os.fspath(script)])
    few, some, many = (found[f"loop {n}"] for n in (100, 10_000, 20_000))
    assert 10 < (many - some) / 10_000 < 1000
    assert abs((many - some) - (some - few)) < 0.05 * many


def _table_of(name: str) -> tuple[list[str], list[list[str]]]:
    lines = page.block(name)
    header, rows = page.parse_table(lines)
    assert lines[0].startswith("Measured on 20")
    assert lines[-len(rows) - 2 :] == page.table(header, rows)
    return header, rows


def _are_numbers(cells: list[str]) -> bool:
    return all(re.fullmatch(r"-|[\d.]+(e\+\d+)?( %)?", cell) for cell in cells)


def test_the_page_has_the_table_of_peers() -> None:
    header, rows = _table_of("peers")
    assert tuple(header) == peers.HEADER
    assert [tuple(row[:2]) for row in rows] == [
        (label, str(depth)) for label in peers.NETWORKS for depth in peers.DEPTHS
    ]
    assert all(_are_numbers(row[1:]) for row in rows)


def test_the_page_has_the_table_of_yardsticks() -> None:
    header, rows = _table_of("yardsticks")
    assert tuple(header) == yardsticks.HEADER
    assert [row[0] for row in rows] == list(yardsticks.NAMES)
    assert all(_are_numbers(row[2:]) for row in rows)


def test_the_page_has_the_table_of_whole_processes() -> None:
    header, rows = _table_of("whole process")
    assert tuple(header) == whole_process.HEADER
    assert [row[0] for row in rows] == list(whole_process.reference())
    assert set(whole_process.reference()) == set(whole_process.COMMANDS)
    assert all(_are_numbers(row[1:]) for row in rows)


def test_the_page_has_the_table_of_stages() -> None:
    header, rows = _table_of("stages")
    assert tuple(header) == stages.HEADER
    assert [row[0] for row in rows] == [*stages.STAGES, "whole process"]
    assert all(_are_numbers(row[1:]) for row in rows)
