"""The pytest plugin: the fixture ``cycles`` and the option ``--update-cycles``.

pytest loads this module in every test run of an environment that has stepsim, so that it imports
nothing but pytest. What a check needs is imported by the first test that asks for the fixture.

PYTEST_DONT_REWRITE: nothing here is an assertion of a test.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stepsim.pytest_plugin.places import baseline_file, relative_to

if TYPE_CHECKING:
    from stepsim.pytest_plugin.guard import Cycles

_GUARD = "_stepsim_guard"
_PASSED = "_stepsim_passed"
"""Attributes of an item, for pytest has a stash only since version 7."""
_RECORDED = "stepsim_cycles"
"""Attribute of a report."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare ``--update-cycles``."""
    parser.getgroup("stepsim").addoption(
        "--update-cycles",
        action="store_true",
        help="Record the measurements of cycles.check as the new baselines of the tests that run.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the measurements of tests where their reports arrive, which is in one process."""
    _has_baselines.cache_clear()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Collector(config), "stepsim-cycles")


@pytest.fixture
def cycles(request: pytest.FixtureRequest) -> Cycles:
    """Checks simulated cycles, traffic and memory against the baseline next to the test file.

    ``cycles.check(program)`` simulates the program and fails if it has become slower, faster or
    larger than ``test_x.cycles.json`` says; ``pytest --update-cycles`` writes that file.
    """
    from stepsim.pytest_plugin.guard import Cycles

    made = Cycles(
        request.path,
        _name(request.node),
        root=request.config.rootpath,
        invoked_from=request.config.invocation_params.dir,
        updating=request.config.getoption("update_cycles"),
    )
    setattr(request.node, _GUARD, made)
    return made


# The form of a wrapper that every version of pluggy knows.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Send what the test measured with its last report; xdist carries it to its controller."""
    outcome = yield
    report = outcome.get_result()
    passed = report.passed and (call.when == "setup" or getattr(item, _PASSED, False))
    setattr(item, _PASSED, passed)
    # Fixtures may check too, until the last of them is torn down.
    if call.when != "teardown":
        return
    guard: Cycles | None = getattr(item, _GUARD, None)
    setattr(item, _GUARD, None)
    path: Path | None = getattr(item, "path", None)
    if path is None or (guard is None and not _has_baselines(path)):
        return
    checked = {"checks": {}, "notes": []} if guard is None else guard.measured()
    root = item.config.rootpath
    about = {
        "test_file": relative_to(path, root),
        "file": relative_to(baseline_file(path), root),
        "test": _name(item),
        "passed": passed,
    }
    # As text, since the channel between processes has limits for numbers.
    setattr(report, _RECORDED, json.dumps(about | checked))


def _name(item: pytest.Item) -> str:
    """Name of the test in its file, with its class and parameters."""
    return "::".join(
        node.name for node in item.listchain() if isinstance(node, pytest.Class | pytest.Item)
    )


@cache
def _has_baselines(test_file: Path) -> bool:
    return baseline_file(test_file).exists()


class _Collector:
    """Takes in the reports of all tests and writes the baselines when the session ends."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._measured: dict[tuple[str, str], tuple[dict[str, Any], bool]] = {}
        self._lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        text = getattr(report, _RECORDED, None)
        if text is not None:
            one = json.loads(text)
            # If a test is run again, the last run counts.
            self._measured[one["file"], one["test"]] = one, one["passed"]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._measured:
            return
        from stepsim.pytest_plugin import updating

        measured = list(self._measured.values())
        if self._config.getoption("update_cycles"):
            self._lines, complete = updating.update(self._config.rootpath, measured)
            if not complete and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        else:
            self._lines = updating.closing_lines(
                self._config.rootpath, self._config.invocation_params.dir, measured
            )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._lines:
            terminalreporter.section("cycles")
            for line in self._lines:
                terminalreporter.line(line)
