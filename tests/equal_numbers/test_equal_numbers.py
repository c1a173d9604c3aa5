"""Numbers do not depend on the compiler, the processor or the versions of libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepsim.kernels.build.settings import is_jit_disabled
from tests.equal_numbers.digest import COMMON, GROUPS, STORED, differing, digest

ROOT = Path(__file__).parents[2]
needs_compiler = pytest.mark.skipif(
    is_jit_disabled(), reason="NUMBA_DISABLE_JIT is set: nothing is compiled"
)


def run(groups: list[str], **variables: str) -> None:
    command = [sys.executable, "-m", "tests.equal_numbers.digest", *groups]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_group_is_stored() -> None:
    assert list(json.loads(STORED.read_text())) == list(GROUPS)


@pytest.mark.slow
@pytest.mark.parametrize("group", COMMON)
def test_numbers_are_those_that_are_stored(group: str) -> None:
    assert not differing([group])


@pytest.mark.slow
@pytest.mark.parametrize("group", [group for group in GROUPS if group not in COMMON])
def test_numbers_of_other_engines_are_those_that_are_stored(group: str) -> None:
    assert not differing([group])


def test_other_numbers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest("requests")
    monkeypatch.setitem(GROUPS, "requests", lambda: iter([1]))
    assert digest("requests") != before
    assert differing(["requests"]) == ["requests"]


@pytest.mark.long
def test_plain_python_has_the_same_numbers() -> None:
    run(["cases", "requests", "hardware"], NUMBA_DISABLE_JIT="1")


@pytest.mark.long
@needs_compiler
@pytest.mark.timeout(600)
def test_code_for_any_processor_has_the_same_numbers(tmp_path: Path) -> None:
    run(COMMON, NUMBA_CPU_NAME="generic", STEPSIM_CACHE_DIR=str(tmp_path))
