"""Running the command line inside the test process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code and both outputs."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Call ``stepsim`` with the given arguments."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")

    def call(*arguments: object) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        code = ended.value.code
        return Outcome(code if isinstance(code, int) else 0, out, err)

    return call


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tokens that all choose experts 0 to 7."""
    path = tmp_path_factory.mktemp("trace") / "routing.npy"
    np.save(path, np.tile(np.arange(8), (3, 1)))
    return path


@pytest.fixture
def run(cli: Cli, trace: Path):
    """Run Qwen3 on the trace with tile 4, unless told otherwise."""

    def call(*options: object, **replace: object) -> Outcome:
        arguments = {"model": "qwen3-30b-a3b", "routing": trace, "tile": 4, **replace}
        flat = [part for key, value in arguments.items() for part in (f"--{key}", value)]
        return cli("run", "moe", *flat, *options)

    return call
