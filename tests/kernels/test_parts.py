"""Code that all engines share is compiled once, is taken from the cache, and reports errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.kernels.build import part as one_part
from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.entries import is_whole
from stepsim.kernels.build.entry_point import EntryPoint, cached_entry
from stepsim.kernels.build.jit import kernel
from stepsim.kernels.build.part import Part, part
from stepsim.kernels.build.settings import is_jit_disabled
from stepsim.kernels.layout import State

pytestmark = pytest.mark.skipif(
    is_jit_disabled(), reason="NUMBA_DISABLE_JIT is set: nothing is compiled"
)

RECORD = np.dtype([("at", np.int64)], align=True)
LAYOUT = State(**dict.fromkeys(State._fields, np.dtype(np.int64)))._replace(
    units=np.dtype((np.record, RECORD))
)


def _add(un, state):  # type: ignore[no-untyped-def]
    state.scratch[0] += state.parameters[un.at]
    return state.scratch[0]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The only part that engines have, and no code of it anywhere."""
    from stepsim.kernels.build import compiling, parts as parts

    only: dict[str, Part] = {}
    for module in (one_part, compiling, parts):
        monkeypatch.setattr(module, "PARTS", only)
    monkeypatch.setattr(parts, "_made", {})
    monkeypatch.setattr(parts, "cache_directory", lambda: tmp_path)
    monkeypatch.setenv("STEPSIM_CACHE_DIR", str(tmp_path / "engines"))
    monkeypatch.setattr(parts, "ADD", part(_add, "add"), raising=False)
    return parts


def _engine(add: Any, times: int) -> EntryPoint:
    def entry(state):  # type: ignore[no-untyped-def]
        reference = by_reference(state)
        found = np.int64(0)
        for _ in range(times):
            found = add(state.units[0], reference)
        return found

    entry.__qualname__ += str(times)  # engines are stored by name
    return cached_entry(entry, LAYOUT)


def _state() -> State:
    words = State(*(np.zeros(3, np.int64) for _ in State._fields))
    words.parameters[:] = 5, 6, 7
    units = np.zeros(1, RECORD)
    units["at"] = 2
    return words._replace(units=units.view(np.recarray))


@pytest.mark.slow
def test_a_second_engine_takes_the_code_of_the_first(
    parts: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert _engine(parts.ADD, 2)(_state()) == 14
    (file,) = tmp_path.glob("parts.State.*.kernel")
    before = file.stat().st_mtime_ns
    monkeypatch.setattr(parts, "_made", {})  # as in another process
    monkeypatch.setattr(parts, "_compiled", None)
    assert _engine(parts.ADD, 3)(_state()) == 21
    assert file.stat().st_mtime_ns == before


@pytest.mark.slow
def test_damaged_code_is_compiled_again_and_replaced(
    parts: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert _engine(parts.ADD, 2)(_state()) == 14
    (file,) = tmp_path.glob("parts.State.*.kernel")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert not is_whole(file)
    monkeypatch.setattr(parts, "_made", {})
    assert _engine(parts.ADD, 3)(_state()) == 21
    assert is_whole(file)


def test_code_that_cannot_be_stored_is_used(
    parts: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(parts, "cache_directory", lambda: tmp_path / "file" / "folder")
    assert _engine(parts.ADD, 2)(_state()) == 14


@pytest.mark.slow
def test_a_part_made_after_another_engine_was_compiled_is_known(parts: Any) -> None:
    assert _engine(kernel(_add), 2)(_state()) == 14  # has no part
    assert _engine(part(_add, "added later"), 3)(_state()) == 21


def test_a_name_has_one_part(parts: Any) -> None:
    with pytest.raises(ValueError, match="two parts of the engines are named 'add'"):
        part(_add, "add")


CHECKED = """
from tests.kernels.test_parts import LAYOUT, _add, _engine, _state
from stepsim.errors import LoweringError
from stepsim.kernels.build.part import PARTS, part

PARTS.clear()
run = _engine(part(_add, "add"), 2)
for at in (2, 3):
    state = _state()
    state.units.at[0] = at
    try:
        print(run(state))
    except LoweringError as error:
        print(str(error).partition(";")[0])
"""


@pytest.mark.slow
def test_an_access_beyond_an_array_leaves_the_part_and_the_engine(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "STEPSIM_CACHE_DIR": str(tmp_path)}
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", CHECKED], env={**environment, "PYTHONPATH": root},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    error = "the compiled engine raised error 1, as for an index out of range"
    assert done.stdout.splitlines() == ["14", error]
