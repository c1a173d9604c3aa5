"""Tiny sweeps, and ways to disturb them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from stepsim.sweep.plan import Chunk
from stepsim.sweep.work import ChunkRows, execute_chunk

TINY: dict[str, Any] = {
    "workload": "moe",
    "model": {"name": "tiny", "experts": 6, "active": 2, "model_dim": 64, "inner_dim": 64},
    "traces": {"synthetic": {"tokens": 12, "layers": 2, "steps": 3, "seed": 1}},
    "parameters": {"tile_inter": 32},
    "grid": {"tile": [2, "dynamic"], "machine.hbm.channels": [8, 32]},
    "chunk": 4,
}


def tiny(**changes: Any) -> dict[str, Any]:
    """The small specification with other keys; 24 runs in 8 chunks as it stands."""
    return {**TINY, **changes}


def rows_of(folder: Path) -> dict[str, bytes]:
    """Every file that holds results, by its place in the folder."""
    names = ("runs", "failures", "units")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for name in names
        for path in sorted((folder / name).rglob("*"))
        if path.is_file()
    }


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
