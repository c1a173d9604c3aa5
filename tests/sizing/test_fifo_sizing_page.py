"""The page on linear programs prints what it shows."""

from __future__ import annotations

import re

import pytest

from stepsim.reproduce.streamtensor.sizing_methods import METHODS, method_table, network_task
from tests.design.cases import cases_of, needs_cases, network_of
from tests.test_docs import DOCS, run_examples

PAGE = "fifo-sizing-lp.md"


def test_the_page_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    run_examples(PAGE)
    shown = re.findall(r"```text\n(.*?)```", (DOCS / PAGE).read_text("utf-8"), flags=re.DOTALL)
    assert capsys.readouterr().out == "".join(shown)


@needs_cases("sizing")
def test_the_table_is_that_of_the_cases() -> None:
    cases = cases_of("sizing")
    least = sum(case["expected"]["min_slots"]["total"] for case in cases)
    found = {name: [0, 0, 0, 0.0, 0] for name in METHODS}
    for case in cases:
        network = network_of(case)
        for row in method_table(network_task(network)):
            sums = found[row.method]
            sums[0] += row.slots
            sums[1] += row.cycles is None
            sums[2] += row.cycles == network.cycles
            if row.slowdown is not None:
                sums[3] = max(sums[3], row.slowdown)
            sums[4] += row.runs
    page = (DOCS / PAGE).read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)`.*?\| ([\d.]+) \| (\d+) \| (\d+) \| \+([\d.]+) % \| (\S+) \|$",
                      page, flags=re.MULTILINE)  # fmt: skip
    assert [row[0] for row in rows] == list(METHODS)
    for name, slots, deadlocks, fast, longest, runs in rows:
        sums = found[name]
        assert sums[0] / least == pytest.approx(float(slots), abs=0.006)
        assert (sums[1], sums[2]) == (int(deadlocks), int(fast))
        assert sums[3] * 100 == pytest.approx(float(longest), abs=0.6)
        assert sums[4] / len(cases) == pytest.approx(float(runs), abs=0.06)
