"""The page on CI: its test, its messages, and the shell lines of its recipes on a small project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepsim.kernels.build.cache_key import cache_directory
from tests.pages import matches

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
TEST, *_ = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
SHELL = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
MESSAGE, COMPARISON = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
GITHUB, GITLAB = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)

_PYTEST = "-m pytest -p stepsim.pytest_plugin.plugin -p xdist -p no:cacheprovider"
_SHIMS = {
    "stepsim": f'exec {sys.executable} -m stepsim "$@"',
    "pytest": f'exec {sys.executable} {_PYTEST} "$@"',
    "pip": 'echo "pip $@" >> "$CALLS"',
    "gh": 'echo "gh $@" >> "$CALLS"',
    "curl": 'echo "curl $@" >> "$CALLS"',
}


class Shell:
    """Runs lines as a runner of CI does, in a project of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.calls = folder / "calls"
        self.folder.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        for name, line in _SHIMS.items():
            (programs / name).write_text(f"#!/bin/sh\n{line}\n")
            (programs / name).chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "CALLS": str(self.calls),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull,
            "STEPSIM_CACHE_DIR": str(cache_directory().parent),
        }  # fmt: skip

    def __call__(self, lines: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", lines],
            cwd=self.folder,
            env=self.environment | variables,
            capture_output=True,
            text=True,
        )

    def ok(self, lines: str) -> str:
        done = self(lines)
        assert done.returncode == 0, (lines, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    (made.folder / "test_linear.py").write_text(TEST)
    program = re.search(r"def linear.*?return program\n", TEST, flags=re.DOTALL)
    assert program is not None
    (made.folder / "linear.py").write_text(f"import stepsim as st\n\n\n{program[0]}")
    return made


@pytest.mark.long
def test_the_test_of_the_page_and_its_message(shell: Shell) -> None:
    assert "no baseline of 'linear'" in shell("pytest test_linear.py").stdout
    shell.ok(SHELL[0])
    assert (shell.folder / "test_linear.cycles.json").exists()
    (shell.folder / "test_linear.py").write_text(TEST.replace("(tile=tile)", "(tile=8)"))
    done = shell(SHELL[1])
    assert done.returncode == 1
    printed = {line[1:].strip() for line in done.stdout.splitlines() if line.startswith("E ")}
    shown = [line.strip() for line in MESSAGE.splitlines() if line.strip() not in ("", "...")]
    assert len(shown) > 10
    assert printed >= {line for line in shown if not line.startswith("linear on")}
    assert any(line.endswith(shown[0]) for line in printed)


def test_the_commands_that_compare(shell: Shell) -> None:
    shell.ok(SHELL[2])
    done = shell(SHELL[3])
    assert done.returncode == 1, done.stderr
    assert matches(COMPARISON, done.stdout), done.stdout


@pytest.fixture
def pull_request(shell: Shell) -> str:
    """The base of a change that makes the layer slower."""
    shell.ok("pytest --update-cycles && git init -q && git add . && git commit -qm base")
    base = shell.ok("git rev-parse HEAD").strip()
    path = shell.folder / "linear.py"
    path.write_text(path.read_text().replace("tile: int = 16", "tile: int = 8"))
    shell.ok("git commit -qam slower")
    return base


@pytest.mark.long
def test_the_recipe_for_github(shell: Shell, pull_request: str) -> None:
    recipe: dict[Any, Any] = yaml.safe_load(GITHUB)
    (job,) = recipe["jobs"].values()
    assert set(recipe[True]) == {"pull_request"}  # "on" is a boolean in YAML 1.1
    cached = next(s["with"]["path"] for s in job["steps"] if "actions/cache" in s.get("uses", ""))
    assert job["env"]["STEPSIM_CACHE_DIR"].endswith(f"/{cached}")
    values = {"github.event.pull_request.base.sha": pull_request, "github.event.number": "7"}
    codes = {}
    for step in job["steps"]:
        if "run" in step:
            lines = re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1]], step["run"])
            done = shell(lines)
            codes[step.get("name", step["run"])] = done.returncode
            assert done.returncode in (0, 1), done.stderr
    assert codes == {
        "pip install stepsim pytest pytest-xdist": 0,
        "load or compile the engine": 0,
        "guard the programs": 0,
        "compare with the base of the pull request": 1,
        "comment on the pull request": 0,
    }
    comment = (shell.folder / "comment.md").read_text()
    assert comment.startswith("**Regression**: cycles +76.85%, worse by more than 1%.")
    assert Path(shell.environment["GITHUB_STEP_SUMMARY"]).read_text() == comment
    last = shell.calls.read_text().splitlines()[-1]
    assert last == "gh pr comment 7 --body-file comment.md --edit-last --create-if-none"


@pytest.mark.long
def test_the_recipe_for_gitlab(shell: Shell, pull_request: str) -> None:
    recipe: dict[str, Any] = yaml.safe_load(GITLAB)
    (job,) = recipe.values()
    assert job["variables"]["STEPSIM_CACHE_DIR"].endswith(f"/{job['cache']['paths'][0]}")
    done = shell(
        "\n".join(job["script"]),
        CI_MERGE_REQUEST_DIFF_BASE_SHA=pull_request,
        COMMENT_TOKEN="secret",
        CI_API_V4_URL="https://example.org",
        CI_PROJECT_ID="3",
        CI_MERGE_REQUEST_IID="4",
    )
    assert done.returncode == 1, done.stderr
    assert "**Regression**: cycles +76.85%" in done.stdout
    assert "regression: cycles +76.85%" in done.stderr
    last = shell.calls.read_text().splitlines()[-1]
    assert last.startswith("curl --fail")
    assert last.endswith("/projects/3/merge_requests/4/notes")
