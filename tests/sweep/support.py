"""Tiny sweeps, and ways to disturb them."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from stepsim.sweep import open_table, run_sweep
from stepsim.sweep.planning.plan import Chunk
from stepsim.sweep.running.work import ChunkRows, execute_chunk
from stepsim.sweep.storage.digests import Digests
from stepsim.sweep.storage.manifest import read_manifest
from stepsim.sweep.storage.parquet import write_tables

ROOT = Path(__file__).parents[2]

QWEN_TILES: dict[str, Any] = {
    "name": "qwen-tiles",
    "workload": "moe",
    "model": "qwen3-30b-a3b",
    "traces": {"synthetic": {"tokens": 64, "layers": 4, "steps": 10, "seed": 1}},
    "grid": {"tile": [8, 16, 32, 64, "dynamic"]},
    "chunk": 5,
}
"""200 runs of a whole model in 40 chunks, long enough for two workers to have a part in it."""

TINY: dict[str, Any] = {
    "workload": "moe",
    "model": {
        "name": "tiny",
        "model_dim": 64,
        "experts": {"count": 6, "active": 2, "inner_dim": 64},
    },
    "traces": {"synthetic": {"tokens": 12, "layers": 2, "steps": 3, "seed": 1}},
    "parameters": {"tile_inter": 32},
    "grid": {"tile": [2, "dynamic"], "machine.hbm.channels": [8, 32]},
    "chunk": 4,
}


def tiny(**changes: Any) -> dict[str, Any]:
    """The small specification with other keys; 24 runs in 8 chunks as it stands."""
    return {**TINY, **changes}


MANY = tiny(
    traces={"synthetic": {"tokens": 12, "layers": 5, "steps": 10, "seed": 1}},
    grid={"tile": [1, 2, 4, "dynamic"]},
    chunk=1,
)
"""200 runs, each a chunk of its own."""


def saved(folder: Path) -> set[str]:
    """Keys of the runs on disk; fails when a file is not whole."""
    return set(open_table(folder).to_table(columns=["run"])["run"].to_pylist())


def disturb_after(folder: Path, chunks: int, spec: Mapping[str, Any] = TINY) -> None:
    """A sweep that stops after some chunks."""

    def stop(progress: Any) -> None:
        nonlocal chunks
        chunks -= 1
        if not chunks:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(spec, folder, progress=stop)


def assert_as_undisturbed(folder: Path, spec: Mapping[str, Any] = TINY) -> None:
    assert rows_of(folder) == _undisturbed(json.dumps(spec))


@cache
def _undisturbed(spec: str) -> dict[str, bytes]:
    """What a sweep writes that nothing disturbs, which does not depend on the folder."""
    with tempfile.TemporaryDirectory() as folder:
        run_sweep(json.loads(spec), folder)
        return rows_of(Path(folder))


def rows_of(folder: Path) -> dict[str, bytes]:
    """Every file that holds results, by its place in the folder."""
    names = ("runs", "failures", "units")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for name in names
        for path in sorted((folder / name).rglob("*"))
        if path.is_file()
    }


def rewrite(path: Path, table: pa.Table) -> None:
    """Other rows in a file of results, as if the sweep had written them."""
    folder = path.parents[2]
    write_tables({path: table}, Digests.read(folder, read_manifest(folder).plan))


def sweep_command(spec: Mapping[str, Any], folder: Path, *options: str) -> list[str]:
    """``stepsim sweep`` as typed, with the specification in a file beside the folder."""
    file = folder.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(dict(spec)))
    return [
        sys.executable,
        "-m",
        "stepsim",
        "sweep",
        "run",
        str(file),
        "--out",
        str(folder),
        *options,
    ]


def routing_file(folder: Path, name: str) -> str:
    """A file of two layer-steps of two tokens each; returns its path."""
    np.save(folder / name, np.array([[[0, 1], [2, 3]], [[4, 5], [1, 0]]]))
    return str(folder / name)


def timings(folder: Path) -> list[dict[str, Any]]:
    """What was noted of every chunk that was saved, in the order of saving."""
    file = folder / "timings.jsonl"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Look again and again; fails when nothing comes of it."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(0.02)


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(chunk: Chunk) -> ChunkRows:
    """The first worker that gets the third chunk dies."""
    flag = Path(os.environ["STEPSIM_TEST_FLAG"])
    if chunk.key == "0001-00000" and not flag.exists():
        flag.touch()
        kill_self()
    return execute_chunk(chunk)


def die_of_one_chunk(chunk: Chunk) -> ChunkRows:
    """Every worker that gets the third chunk dies."""
    if chunk.key == "0001-00000":
        kill_self()
    return execute_chunk(chunk)


def work_without_end(chunk: Chunk) -> ChunkRows:
    while True:
        time.sleep(1)


def of_another_version(chunk: Chunk) -> ChunkRows:
    """The fourth chunk comes from a worker with other software."""
    rows = execute_chunk(chunk)
    if chunk.key == "0001-00001":
        return replace(rows, versions={**rows.versions, "numba": "0.1"})
    return rows


def die_while_sending(*answer: Any) -> bytes:
    """What comes next from this process is cut in half, and is the last that comes of it."""
    real = os.fdopen

    def fdopen(handle: int, mode: str) -> Any:
        file = real(handle, mode)

        class Half:
            def __enter__(self) -> Half:
                return self

            def __exit__(self, *error: object) -> None:
                pass

            def write(self, data: bytes) -> None:
                file.write(data[: len(data) // 2])
                file.flush()
                kill_self()

        return Half()

    os.fdopen = fdopen  # type: ignore[assignment]
    return b"x" * 20_000


def die_while_sending_once(chunk: Chunk) -> ChunkRows:
    """The first worker that gets the third chunk dies when it has sent half of its rows."""
    flag = Path(os.environ["STEPSIM_TEST_FLAG"])
    if chunk.key == "0001-00000" and not flag.exists():
        flag.touch()
        die_while_sending()
    return execute_chunk(chunk)
