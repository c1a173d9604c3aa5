"""The example of a plugin is installed and used, and one that is broken does no harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "plugin"
PARTS = ("stepsim.workloads gemm", "stepsim.functions leaky_relu", "stepsim.memory_models pipes",
         "stepsim.trace_formats tern", "stepsim.request_sources bursts",
         "stepsim.schedulers shortest-first", "stepsim.step_models per-token",
         "stepsim.clocks polling")  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, as pip installs it."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
            "--no-build-isolation", "--target", str(folder), str(EXAMPLE),
        ],
        check=True,
    )  # fmt: skip
    return folder


def stepsim(site: Path, *arguments: object, code: int = 0) -> str:
    """Run the command with the package at hand; without compilation, which takes longer."""
    done = subprocess.run(
        [sys.executable, "-m", "stepsim", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(site), "NUMBA_DISABLE_JIT": "1", "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.slow
def test_env_lists_what_is_found_and_from_which_package(site: Path) -> None:
    assert json.loads(stepsim(site, "env", "--json"))["plugins"] == dict.fromkeys(
        PARTS, "stepsim-example 1.0"
    )


@pytest.mark.long
def test_the_workload_runs_with_the_function(site: Path) -> None:
    row = json.loads(stepsim(site, "run", "gemm", "--m", 64, "--json"))
    assert (row["workload"], row["status"], row["tile"]) == ("gemm", "ok", "16")
    assert row["flops"] == 2 * 64 * 64 * 64 + 2 * 64 * 64
    assert row["provenance"]["versions"]["stepsim"] == row["stepsim_version"]
    plugins = row["provenance"]["plugins"]
    assert list(plugins) == [
        "stepsim.functions leaky_relu", "stepsim.memory_models pipes", "stepsim.workloads gemm",
    ]  # fmt: skip
    assert {one.rpartition(" ")[0] for one in plugins.values()} == {"stepsim-example 1.0"}
    assert {one.rpartition(" ")[2] for one in plugins.values()} == {row["workload_digest"]}
    wrong = stepsim(site, "run", "gemm", "--m", 60, code=2)
    assert "--tile: expected a divisor of m = 60, found 16" in wrong
    assert "gemm" in stepsim(site, "run", "--help")


@pytest.mark.slow
def test_the_memory_model_is_chosen_by_a_machine(site: Path) -> None:
    def cycles(*options: str) -> int:
        return int(json.loads(stepsim(site, "run", "gemm", "--json", *options))["cycles"])

    assert cycles("--set", "hbm.model=pipes") != cycles()


@pytest.mark.long
def test_the_parts_of_a_service_are_found_and_run(site: Path, tmp_path: Path) -> None:
    parts = (
        "--source", "bursts:bursts=2,size=3", "--scheduler", "shortest-first",
        "--steps", "per-token:1000", "--clock", "polling", "--num-blocks", 64,
    )  # fmt: skip
    summary = json.loads(stepsim(site, "serve", *parts, "--out", tmp_path / "out", "--json"))
    # Prompts of 32, 64 and 96 tokens and three more tokens each, one request after the other.
    ends = [35, 35 + 67, 35 + 67 + 99]
    # Idle since 201 us, the service looks every 10 ms, so that it is late for the second burst.
    mean = sum(ends) / 3 + 201 / 2
    assert summary["metrics"]["completed"] == 6
    assert summary["metrics"]["e2el_mean_ms"] == pytest.approx(mean / 1000)
    assert summary["settings"]["scheduler"] == "shortest-first"
    assert "prefill" in stepsim(site, "why", tmp_path / "out")
    wrong = stepsim(site, "serve", *parts, "--host", "1us", code=2)
    assert "host: has no effect" in wrong
    missing = stepsim(site, "serve", *parts[:3], "shortest-fist", *parts[4:], code=2)
    assert "unknown scheduler 'shortest-fist'; did you mean 'shortest-first'?" in missing


@pytest.mark.slow
def test_the_trace_format_is_recognized(site: Path, tmp_path: Path) -> None:
    log = tmp_path / "router.log"
    log.write_text("tern 1\n0 0 17 3\n0 0 5 17\n0 1 2 40\n0 1 2 41\n")
    stepsim(site, "trace", "import", log, tmp_path / "routing.parquet", "--experts", 64)
    shown = stepsim(site, "trace", "info", tmp_path / "routing.parquet", "--json")
    found = json.loads(shown)["summary"]
    assert (found["layers"], found["rows"], found["experts"], found["k"]) == (2, 4, 64, 2)


@pytest.mark.slow
def test_the_sources_of_the_plugin_are_part_of_the_key_of_the_engine(site: Path) -> None:
    code = "from stepsim.kernels.build.cache_key import cache_directory; print(cache_directory())"

    def key(path: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        return done.stdout

    assert key(str(site)) != key("")


@pytest.mark.slow
def test_sweeps_depend_on_the_plugins_of_the_engine(site: Path) -> None:
    code = "from stepsim.sweep.planning.plan import versions; print(*versions(), sep=chr(10))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(site), "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert {"stepsim.functions leaky_relu", "stepsim.memory_models pipes"} <= {
        *done.stdout.split("\n")
    }


@pytest.mark.slow
def test_a_plugin_that_cannot_be_imported_is_named_and_the_rest_works(
    site: Path, tmp_path: Path
) -> None:
    info = tmp_path / "broken-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    groups = ("workloads", "functions", "memory_models", "trace_formats")
    (info / "entry_points.txt").write_text(
        "\n".join(f"[stepsim.{group}]\nbad = broken_module:BAD" for group in groups)
    )
    both = Path(f"{site}{os.pathsep}{tmp_path}")
    found = json.loads(stepsim(both, "env", "--json"))["plugins"]
    assert found["stepsim.workloads gemm"] == "stepsim-example 1.0"
    missing = "broken 0.1, cannot be used: ModuleNotFoundError: No module named 'broken_module'"
    assert [found[f"stepsim.{group} bad"] for group in groups] == [missing] * len(groups)
    assert json.loads(stepsim(both, "run", "gemm", "--m", 64, "--json"))["status"] == "ok"
    refused = stepsim(both, "run", "bad", code=2)
    assert "workload 'bad' of package broken cannot be used: ModuleNotFoundError" in refused
