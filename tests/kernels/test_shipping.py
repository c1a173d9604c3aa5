"""Code for wheels is compiled with the settings of a level, whatever else its maker has set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from stepsim.errors import ArgError, LoweringError
from stepsim.kernels.build import compiling, shipping
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.processors import LEVELS, settings_of
from stepsim.kernels.build.settings import is_jit_disabled

pytestmark = pytest.mark.skipif(
    is_jit_disabled() or not LEVELS,
    reason="nothing is compiled, or for no level of this kind of machine",
)

TOLD = "from stepsim.kernels.build.settings import compiler_settings; print(compiler_settings())"


class Numbers(NamedTuple):
    words: Any


def first(numbers: Numbers) -> Any:
    return numbers.words[0]


@pytest.mark.slow
def test_processes_are_reported_of_their_level_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, said = subprocess.run, []

    def asked(command: list[str], **how: Any) -> Any:
        *_, module, folder, engines, level = command
        assert (module, folder) == ("stepsim.kernels.build.shipping", str(tmp_path / "out"))
        assert engines == "runs,requests"
        done = real([sys.executable, "-c", TOLD], capture_output=True, text=True, **how)
        said.append((level, done.stdout))
        return done

    (tmp_path / ".numba_config.yaml").write_text("opt: '1'\nboundscheck: 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_DEBUGINFO", "1")
    monkeypatch.setattr(subprocess, "run", asked)
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = real([sys.executable, "-c", TOLD], env=here, capture_output=True, text=True, check=True)
    for name in ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT"):
        assert name in done.stdout
    shipping.ship(Path("out"), ["runs", "requests"])
    assert said == [(level, f"{settings_of(level)}\n") for level in LEVELS]


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgError, match="there is no engine 'run' for a wheel; engines are runs, "):
        shipping.ship(tmp_path, ["run"])


def test_other_settings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = cached_entry(first, Numbers(np.int64))
    level = next(iter(LEVELS))
    with pytest.raises(LoweringError, match=rf"settings are {{}}; expected .* for {level}: unset"):
        entry.build(tmp_path, level)
    for name, value in (("CPU_NAME", LEVELS[level]), ("CPU_FEATURES", "")):
        monkeypatch.setattr(numba.config, name, value)
    assert entry.build(tmp_path, level).parent == tmp_path
    monkeypatch.setattr(numba.config, "OPT", 1)
    with pytest.raises(LoweringError, match=r"settings are {'OPT': '1', "):
        entry.build(tmp_path, level)


def test_code_that_refers_to_the_process_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = next(iter(LEVELS))
    for name, value in (("CPU_NAME", LEVELS[level]), ("CPU_FEATURES", "")):
        monkeypatch.setattr(numba.config, name, value)
    made = compiling.Compiled(b"", "any", is_portable=False)
    monkeypatch.setattr(compiling, "compiled", lambda *_: made)
    with pytest.raises(LoweringError, match="refers to this process"):
        cached_entry(first, Numbers(np.int64)).build(tmp_path, level)
    assert not list(tmp_path.iterdir())
