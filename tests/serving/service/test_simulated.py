"""Services whose steps are simulated, on a model of a few small layers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepsim.errors import StepSimError
from stepsim.serving import serve, why_served

_MODEL = (
    "name: tiny\nmodel_dim: 64\nlayers: 2\nvocabulary: 128\n"
    "experts: {count: 4, active: 2, inner_dim: 64}\n"
    "attention: {heads: 2, kv_heads: 1, head_dim: 32}\n"
)
_SERVICE: dict[str, Any] = {
    "machine": "sda-1024",
    "overrides": {"clock_ghz": 1.0},
    "memory_bytes": 10**7,
    "source": "fixed:count=6,prompt_tokens=9,output_tokens=4",
    "rate": 1e5,
    "tile": 4,
    "tile_inter": 32,
    "kv_tile": 16,
    "attention_regions": 2,
    "weight_loads": 2,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.yaml"
    path.write_text(_MODEL)
    return path


@pytest.mark.slow
def test_exact_steps_have_cycles_bytes_and_bounds(model: Path) -> None:
    result = serve(model=str(model), steps="exact", **_SERVICE)
    assert result.metrics["completed"] == 6
    assert set(result.steps["how"].to_pylist()) == {"exact"}
    assert result.steps["step_cycles"].to_pylist() == result.steps["length_ns"].to_pylist()
    assert min(result.steps["step_offchip_bytes"].to_pylist()) > 0
    assert "" not in result.steps["bound"].to_pylist()
    assert sum(part.ns for part in why_served(result).times[0].parts) == max(
        result.requests["e2el_ns"].to_pylist()
    )


_SPLIT = "prefill=1,decode=1,latency=1us,bandwidth=1GB/s"


def test_engines_of_prompts_and_outputs_have_steps_of_their_own(model: Path) -> None:
    result = serve(model=str(model), steps="exact", split=_SPLIT, **_SERVICE)
    assert set(result.requests["prefill_replica"].to_pylist()) == {0}
    assert set(result.requests["replica"].to_pylist()) == {1}
    steps = result.steps.group_by("replica").aggregate([("new_tokens", "sum")])
    assert dict(zip(*(column.to_pylist() for column in steps), strict=True)) == {0: 54, 1: 18}
    # Two layers with one head of 32 bf16 elements each for key and value, 9 tokens, at 1 B/ns.
    assert result.requests["kv_sent_bytes"].to_pylist() == [9 * 2 * 2 * 32 * 2] * 6
    assert result.requests["link_ns"].to_pylist() == [9 * 256 + 1000] * 6
    worst, *_ = why_served(result).times
    assert sum(part.ns for part in worst.parts) == max(result.requests["e2el_ns"].to_pylist())
    assert {"on the link", "prefill", "decode"} <= {part.stage for part in worst.parts}


@pytest.mark.slow
def test_audited_steps_report_their_error(model: Path) -> None:
    result = serve(model=str(model), steps="audited", **_SERVICE)
    assert set(result.steps["how"].to_pylist()) <= {"estimated", "audited"}
    assert result.summary["estimators"][0]["steps"] == len(result.steps)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "rounds"), [(0.9, 0), pytest.param(1e-7, 5, marks=pytest.mark.slow)]
)
def test_a_service_is_served_again_until_its_error_is_small(
    model: Path, error: float, rounds: int
) -> None:
    busy = _SERVICE | {"source": "lognormal:count=12,prompt_median=12,output_median=5"}
    lines: list[str] = []
    result = serve(model=str(model), steps="audited", error=error, progress=lines.append, **busy)
    begun = [line.partition(": ")[0] for line in lines if line.startswith("round ")]
    assert sorted(set(begun)) == [f"round {number}" for number in range(2, rounds + 2)]
    assert lines[0].startswith("0 of 12 requests, ")
    drawn = [line.rpartition(": ")[2] for line in lines if "services with drawn errors" in line]
    every = [f"{one} of 39 services with drawn errors of steps" for one in range(40)]
    assert rounds or drawn == every
    stated = result.summary["errors"]
    assert (stated["rounds"], stated["within"], stated["wanted"]) == (rounds, True, error)
    assert set(stated["intervals"]) == {
        "ttft_mean_ms", "ttft_p99_ms", "tpot_mean_ms", "tpot_p99_ms",
    }  # fmt: skip
    assert result.summary["estimators"][0]["steps"] == len(result.steps)
    text = str(result)
    low, high = stated["intervals"]["ttft_p99_ms"]
    assert f"TTFT p99 {100 * low:+.2f} % to {100 * high:+.2f} %" in text
    assert f"within the {100 * error:g} % that was asked for" in text
    if rounds:  # nothing is left to be estimated
        exact = serve(model=str(model), steps="exact", **busy)
        assert result.requests.equals(exact.requests)
        assert result.metrics == exact.metrics
        assert set(result.steps["how"].to_pylist()) == {"exact"}
        assert set(map(tuple, stated["intervals"].values())) == {(0.0, 0.0)}


_KILLED = """
import os, signal, sys
from stepsim.serving import serve
from stepsim.serving.service import serve as module
from stepsim.serving.steps.layers import StepPrograms

module._SAVE_SECONDS = 0.0
layers, left = StepPrograms.layers, [int(sys.argv[3])]

def counted(self, *arguments):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return layers(self, *arguments)

StepPrograms.layers = counted
serve(sys.argv[1], out=sys.argv[2], resume=sys.argv[4] == "resume")
print(-left[0])
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("steps", "split"), [("exact", None), ("audited", None), ("audited", _SPLIT)]
)
def test_killed_service_simulates_nothing_twice(
    model: Path, tmp_path: Path, steps: str, split: str | None
) -> None:
    spec = tmp_path / "serve.yaml"
    spec.write_text(
        "\n".join(f"{key}: {value}" for key, value in _SERVICE.items() if key != "overrides")
        + f"\noverrides: {{clock_ghz: 1.0}}\nmodel: {model}\nsteps: {steps}\n"
        + ("" if split is None else f"split: {split}\n")
    )

    def start(folder: str, until: int, how: str = "new") -> tuple[int, int]:
        code = [sys.executable, "-c", _KILLED, str(spec), str(tmp_path / folder), str(until), how]
        done = subprocess.run(code, check=False, env=dict(os.environ), capture_output=True)
        return done.returncode, int(done.stdout or 0)

    code, runs = start("whole", 0)
    assert code == 0
    assert start("killed", 4)[0] == -signal.SIGKILL
    code, rest = start("killed", 0, "resume")
    assert code == 0
    assert rest <= runs - 2
    for name in ("requests.parquet", "steps.parquet", "summary.json"):
        whole, killed = (tmp_path / folder / name for folder in ("whole", "killed"))
        assert killed.read_bytes() == whole.read_bytes(), name


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"overrides": {}}, "states no clock"),
        ({"machine": None, "overrides": {}}, "machine: missing"),
        ({"model": None, "num_blocks": 99}, "model: missing"),
        ({"memory_bytes": 10**4}, "does not fit"),
        ({"routing": "zipf:much"}, "zipf:EXPONENT"),
        ({"tile": 0}, "tile: expected"),
        ({"model": "tinyllama-1.1b", "memory_bytes": 10**10, "routing": "zipf:1"}, "no experts"),
    ],
)
def test_refused_before_anything_runs(model: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(StepSimError, match=message):
        serve(**({"model": str(model), "steps": "exact"} | _SERVICE | wrong))
