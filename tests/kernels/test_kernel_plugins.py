"""Memory models and functions of other packages inside the engine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepsim
from stepsim.kernels.build.cache_key import source_digest
from stepsim.plugins import found, usable

FINE = """
from stepsim.kernels.calendar import schedule
from stepsim.kernels.memory.declaration import MemoryModel

MODEL = MemoryModel("quick", "responds in the next cycle")

@MODEL.issue
def issue(state, port, clock, requests):
    schedule(state, state.ports[port].unit, clock + 1)

EMPTY = MemoryModel("empty", "has no kernel")
TAKEN = MemoryModel("published", "has a name of ours")
TAKEN.kernels.update(MODEL.kernels)
"""

RUN = """
import stepsim as st
with st.Program(compute_bw=16) as p:
    st.linear_store(st.linear_load(st.spec(16, 16), tile=(16, 16)))
machine = st.load_machine("sda-1024", overrides={"hbm.model": "quick"})
print(st.simulate(p, machine=machine).cycles < st.simulate(p).cycles)
"""


def install(folder: Path, module: str, group: str, points: dict[str, str]) -> None:
    (folder / "fine.py").write_text(module)
    info = folder / "fine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fine\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Plugins are looked for again, and forgotten afterwards."""
    for function in (found, usable):
        function.cache_clear()
    yield monkeypatch
    sys.modules.pop("fine", None)
    for function in (found, usable):
        function.cache_clear()


def test_the_sources_of_a_memory_model_are_part_of_the_cache_key(
    fresh: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without = source_digest()
    install(tmp_path, FINE, "stepsim.memory_models", {"quick": "fine:MODEL"})
    fresh.syspath_prepend(str(tmp_path))
    for function in (found, usable):
        function.cache_clear()
    with_plugin = source_digest()
    (tmp_path / "fine.py").write_text(FINE.replace("clock + 1)", "clock + 2)"))
    assert len({without, with_plugin, source_digest()}) == 3


def test_functions_are_no_part_of_the_cache_key(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without = source_digest()
    install(tmp_path, FINE, "stepsim.functions", {"quick": "fine:EMPTY"})
    fresh.syspath_prepend(str(tmp_path))
    for function in (found, usable):
        function.cache_clear()
    assert usable("stepsim.functions")
    assert source_digest() == without


@pytest.mark.slow
def test_memory_models_that_cannot_be_used_are_named_and_the_rest_works(tmp_path: Path) -> None:
    problems = {
        "fine:issue": "fine:issue is a function, expected a MemoryModel",
        "fine:EMPTY": "fine:EMPTY has no kernel 'issue'",
        "fine:TAKEN": "the name 'published' is taken; choose another",
        "fine:nothing": "has no attribute 'nothing'",
        "missing:MODEL": "No module named 'missing'",
    }
    (tmp_path / "stepsim").symlink_to(Path(stepsim.__file__).parent)
    points = {f"bad{number}": value for number, value in enumerate(problems)}
    points = {**points, "quick": "fine:MODEL"}
    install(tmp_path, FINE, "stepsim.memory_models", points)
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert done.stdout == "True\n", done.stderr
    said = done.stderr.splitlines()
    for problem in problems.values():
        assert [line for line in said if problem in line and "package fine" in line], problem


USE = """
import stepsim as st
with st.Program(compute_bw=16) as p:
    x = st.linear_load(st.spec(16, 16), tile=(16, 16))
    st.linear_store(st.map(st.fn.a, st.map(st.fn.b, x)))
print(p.metrics().flops, st.simulate(p).flops)
"""


@pytest.mark.slow
def test_functions_of_packages_may_have_one_name(tmp_path: Path) -> None:
    """They are data, so that nothing in the engine goes by the name."""
    (tmp_path / "stepsim").symlink_to(Path(stepsim.__file__).parent)
    module = (
        "import stepsim as st\n"
        'FIRST = st.function("twice", "m n -> m n", lambda m, n: m * n)\n'
        'SECOND = st.function("twice", "m n -> m n", lambda m, n: 3 * m + 2)\n'
    )
    install(tmp_path, module, "stepsim.functions", {"a": "fine:FIRST", "b": "fine:SECOND"})
    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert done.stdout == f"{256 + 50} {256 + 50}\n", done.stderr
