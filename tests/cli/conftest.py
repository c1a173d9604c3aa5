"""Running the command line inside the test process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stepsim.cli.heartbeat import Heartbeat
from stepsim.cli.main import main

LENGTHS = [5, 0, 40, 31, 32, 63, 64, 7]

REQUIRED = {
    "cycles": int,
    "offchip_bytes": int,
    "onchip_bytes": int,
    "flops": int,
    "padded_flops": int,
    "allocated_flops_per_cycle": int,
    "compute_utilization": float,
    "bandwidth_utilization": float,
    "engine_steps": int,
    "wall_seconds": float,
    "status": str,
    "provenance": dict,
}
"""What every run has, and its type in JSON."""


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code and both outputs."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        return json.loads(self.out)

    def has(self, **expected: object) -> dict[str, Any]:
        """The JSON object of a run, which is complete and has these values."""
        assert self.code == 0, self.err
        found = self.json()
        assert {name: type(found[name]) for name in REQUIRED} == REQUIRED
        assert {name: found[name] for name in expected} == expected
        return found


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Call ``stepsim`` with the given arguments."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    # A busy machine must not put signs of life among the messages.
    monkeypatch.setitem(Heartbeat.__init__.__kwdefaults__, "quiet_seconds", 3600.0)

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


QWEN_OF_32 = {
    "name": "qwen-of-32", "model_dim": 2048,
    "experts": {"count": 32, "active": 8, "inner_dim": 768},
}  # fmt: skip
"""The sizes of Qwen3-30B-A3B with a quarter of its experts, each of which takes time to build."""


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.yaml"
    path.write_text(yaml.safe_dump(QWEN_OF_32))
    return path


def flags(**given: object) -> list[object]:
    """Options of the command line; those that are None are left out."""
    present = {name: value for name, value in given.items() if value is not None}
    return [part for name, value in present.items() for part in (_option(name), value)]


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


@pytest.fixture
def run(cli: Cli, trace: Path, model_file: Path):
    """Run a layer of 32 experts on the trace with tile 4, unless told otherwise."""

    def call(*options: object, command: str = "run", **replace: object) -> Outcome:
        given = {"model": model_file, "routing": trace, "tile": 4, **replace}
        return cli(command, "moe", *flags(**given), *options)

    return call


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    """Cached tokens of eight short requests."""
    path = tmp_path / "kv.npy"
    np.save(path, np.array(LENGTHS))
    return path


@pytest.fixture
def attend(cli: Cli, requests: Path):
    """Run dynamic attention on the short requests, unless told otherwise."""

    def call(*options: object, command: str = "run", **replace: object) -> Outcome:
        given = {"model": "qwen3-30b-a3b", "kv_lengths": requests, "strategy": "dynamic", **replace}
        return cli(command, "attention", *flags(**given), *options)

    return call


@pytest.fixture
def decode(cli: Cli, requests: Path, tmp_path: Path):
    """Run the dynamic variant of a layer of Mixtral on the short requests, of experts 0 and 1."""
    np.save(tmp_path / "two.npy", np.tile([0, 1], (8, 1)))

    def call(*options: object, command: str = "run", **replace: object) -> Outcome:
        given = {
            "model": "mixtral-8x7b", "variant": "dynamic", "kv_lengths": requests,
            "routing": tmp_path / "two.npy", **replace,
        }  # fmt: skip
        return cli(command, "decoder", *flags(**given), *options)

    return call


SIZES = {"batch": 64, "hidden": 256, "intermediate": 512}


@pytest.fixture
def feed(cli: Cli):
    """Run the feed-forward layer with tiles of 16 x 32, unless told otherwise."""

    def call(*options: object, command: str = "run", **replace: object) -> Outcome:
        given = {"tile": 16, "tile_inter": 32, **SIZES, **replace}
        return cli(command, "swiglu", *flags(**given), *options)

    return call


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    """A file with a function ``own`` that returns a program."""
    source = tmp_path / "own.py"
    source.write_text(
        "import stepsim as st\n\n\n"
        "def own(rows: int = 64):\n"
        "    with st.Program('own', compute_bw=64) as program:\n"
        "        x = st.linear_load(st.spec(rows, 64), tile=(16, 64)).flatten(0, 1)\n"
        "        st.linear_store(x.map(st.fn.silu), 'out')\n"
        "    return program\n"
    )
    return source
