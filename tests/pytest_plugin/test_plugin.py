"""The plugin among others: alone, with pytest-xdist, with pytest-benchmark, unused."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from stepsim.pytest_plugin import plugin
from tests.pytest_plugin.conftest import Project, failure

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[2]
ENTRY_POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "entry-points"
]["pytest11"]

MANY = (
    "@pytest.mark.parametrize('rows', range(16, 16 * 25, 16))\n"
    "def test_rows(cycles, rows):\n"
    "    cycles.check(linear(rows=rows))\n"
)


@pytest.mark.long
@pytest.mark.parametrize("distribution", ["load", "loadgroup"])
def test_workers_lose_no_baseline(project: Project, distribution: str) -> None:
    project.write("pytestmark = pytest.mark.xdist_group('one')\n" + MANY)
    workers = ("-p", "xdist", "-n", "2", "--dist", distribution)
    done = project.run_process(*workers, "--update-cycles")
    assert done.ret == 0, done.stdout.str()
    done.stdout.fnmatch_lines(["test_layer.cycles.json: 24 baselines written"])
    # Names of tests are those of a session without workers.
    alone = project.update()
    alone.stdout.fnmatch_lines(["test_layer.cycles.json: 0 baselines written, 24 unchanged"])
    project.edit(r'"cycles": 896', '"cycles": 895')
    done = project.run_process(*workers)
    assert "slower than its baseline" in failure(done)
    done.assert_outcomes(failed=1, passed=23)


@pytest.mark.long
def test_a_benchmark_repeats_a_check(project: Project) -> None:
    project.write(
        "def test_speed(benchmark, cycles):\n"
        "    result = benchmark.pedantic(cycles.check, args=(linear(),), rounds=3)\n"
        "    assert result.cycles == 896\n"
    )
    for arguments in (["--update-cycles"], []):
        done = project.run_process("-p", "pytest_benchmark.plugin", *arguments)
        done.assert_outcomes(passed=1)
        assert "test_speed" in done.stdout.str()
    assert [*project.baselines()] == ["test_speed"]


@pytest.mark.slow
def test_unused_it_imports_nothing(project: Project) -> None:
    project.pytester.makepyfile(
        "import sys\n"
        "def test_a():\n"
        "    ours = sorted(name for name in sys.modules if name.startswith('stepsim'))\n"
        "    assert ours == ['stepsim', 'stepsim._version', 'stepsim.deferred',\n"
        "                    'stepsim.pytest_plugin', 'stepsim.pytest_plugin.places',\n"
        "                    'stepsim.pytest_plugin.plugin']\n"
        "    heavy = {'numba', 'numpy', 'sympy', 'pyarrow', 'yaml', 'llvmlite', 'pydantic'}\n"
        "    assert not heavy & sys.modules.keys()\n"
    )
    project.run_process().assert_outcomes(passed=1)


@pytest.mark.long
def test_an_installed_package_offers_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry point of pyproject.toml is found without naming the plugin."""
    about = tmp_path / "packages" / "stepsim_of_a_user-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stepsim-of-a-user\nVersion: 1\n")
    lines = [f"{name} = {place}" for name, place in ENTRY_POINTS.items()]
    (about / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines]))
    (tmp_path / "test_a.py").write_text(
        "import stepsim as st\n"
        "from tests.pytest_plugin.programs import linear\n"
        "def test_a(cycles):\n    cycles.check(linear())\n"
    )
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(about.parent), str(ROOT)]),
    }  # fmt: skip
    environment.pop("PYTEST_DISABLE_PLUGIN_AUTOLOAD", None)
    for arguments in (["--update-cycles"], []):
        command = [sys.executable, "-m", "pytest", "-q", "-W", "error", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 passed" in done.stdout
    assert (tmp_path / "test_a.cycles.json").exists()


def test_a_test_that_runs_again_counts_once(project: Project) -> None:
    """A plugin that repeats failing tests sends several reports of one test."""
    project.pytester.makeconftest(
        "import pytest\n"
        "from _pytest.runner import runtestprotocol\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_runtest_protocol(item, nextitem):\n"
        "    for again in range(2):\n"
        "        item._initrequest()\n"
        "        runtestprotocol(item, nextitem=nextitem)\n"
        "    return True\n"
    )
    project.write(
        "runs = []\n"
        "def test_a(cycles):\n"
        "    runs.append(1)\n"
        "    cycles.check(linear(rows=16 * len(runs)))\n"
        "    assert len(runs) == 2\n"
    )
    project.run("--update-cycles").stdout.fnmatch_lines(["*: 1 baseline written"])
    assert project.baselines()["test_a"]["linear"]["cycles"] < 896


def test_the_wrapper_is_of_a_form_that_old_pluggy_knows() -> None:
    """With pluggy before 1.2, one of the new form breaks every session, used or not."""
    options = plugin.pytest_runtest_makereport.pytest_impl  # type: ignore[attr-defined]
    assert options["hookwrapper"]
    assert not options.get("wrapper")
