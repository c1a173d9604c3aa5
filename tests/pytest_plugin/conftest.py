"""A project of a user, with a program in a module and tests that guard it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.fft  # noqa: F401
import pytest
import scipy.optimize  # noqa: F401

import stepsim as st
import stepsim.pytest_plugin.guard
import stepsim.pytest_plugin.updating
from stepsim.kernels.build.cache_key import cache_directory
from tests.pytest_plugin.programs import linear

# pytester forgets the modules that a run within this process imports, and those of numpy and scipy
# can be loaded once only. Hence the two imports above.

CACHE = str(cache_directory().parent)
OWN_PLUGINS = ("-p", "stepsim.pytest_plugin.plugin", "-p", "no:cacheprovider", "-p", "no:randomly")


@dataclass
class Project:
    """The folder of the user's tests; `run` is a session of pytest in it."""

    pytester: pytest.Pytester

    def write(self, body: str, name: str = "test_layer") -> None:
        head = (
            "import pytest\nimport stepsim as st\n"
            "from tests.pytest_plugin.programs import cached, linear, undecided\n\n"
        )
        self.pytester.makepyfile(**{name: head + body})

    def run(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess(*OWN_PLUGINS, *arguments)

    def run_process(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess(*OWN_PLUGINS, *arguments)

    def update(self, *arguments: str) -> pytest.RunResult:
        done = self.run("--update-cycles", *arguments)
        assert done.ret == 0, done.stdout.str()
        return done

    def file(self, name: str = "test_layer") -> Path:
        return self.pytester.path / f"{name}.cycles.json"

    def baselines(self, name: str = "test_layer") -> dict[str, dict[str, Any]]:
        return json.loads(self.file(name).read_text())["tests"]

    def edit(self, pattern: str, replacement: str) -> None:
        """Change the file of baselines; the pattern must occur."""
        text, count = re.subn(pattern, replacement, self.file().read_text())
        assert count
        self.file().write_text(text)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("STEPSIM_CACHE_DIR", CACHE)  # the home of inner processes is another one
    # An inner session is no worker of the one that runs this test; pytest-benchmark would think so.
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    assert st.simulate(linear()).status == "ok"  # loads the engine
    return Project(pytester)


def failure(done: pytest.RunResult) -> str:
    """What the failed check of a session says."""
    assert done.ret == 1, done.stdout.str()
    lines = [line[1:].strip() for line in done.outlines if line.startswith("E ")]
    return "\n".join(line for line in lines if line)
