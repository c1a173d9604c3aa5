"""Damaged files in the folder of a sweep."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepsim.sweep import compare, design_costs, open_table, query, read_runs, run_sweep
from tests.fuzz.json_files import damaged_sweep, finished_sweep, sweep_spec
from tests.fuzz.mutation import damaged_bytes, damaged_text
from tests.fuzz.reading import outcome

__all__ = ["one"]


def _rows(folder: Path) -> list[Any]:
    return list(open_table(folder).to_table().to_pylist())


def _runs(folder: Path) -> list[Any]:
    return list(read_runs(folder, ["run", "cycles", "design"]).to_pylist())


def _query(folder: Path) -> list[Any]:
    return list(query(folder, "select run, cycles from runs order by run").to_pylist())


def _compare(folder: Path) -> list[Any]:
    found = compare(finished_sweep(), folder)
    return [found.changes]


def _costs(folder: Path) -> list[Any]:
    return [repr(design_costs(folder, "cycles", "onchip_bytes"))]


def _resume(folder: Path) -> list[Any]:
    run_sweep(sweep_spec(), folder, resume=True)
    return _rows(folder)


_READERS: tuple[Callable[[Path], list[Any]], ...] = (
    _rows, _runs, _query, _compare, _costs, _resume,
)  # fmt: skip


@functools.cache
def _saved(reader: Callable[[Path], list[Any]]) -> list[Any]:
    return reader(finished_sweep())


def _damaged(rng: random.Random, source: Path, chosen: Path, other: Path) -> bytes | None:
    """Other content for a file of a folder, None to delete it."""
    content = (source / chosen).read_bytes()
    if rng.random() < 0.15:
        return None
    if chosen.suffix in (".json", ".jsonl") and rng.random() < 0.5:
        return damaged_text(rng, content.decode()).encode(errors="surrogatepass")
    return damaged_bytes(rng, content, (source / other).read_bytes())


def one(rng: random.Random) -> str:
    """Damage or delete one file of a finished sweep: the same numbers or an error."""
    source = finished_sweep()
    files = sorted(path.relative_to(source) for path in source.rglob("*.*") if path.is_file())
    binary = [file for file in files if file.suffix == ".parquet"]
    chosen = rng.choice(binary if rng.random() < 0.8 else files)
    content = _damaged(rng, source, chosen, rng.choice(files))
    reader = rng.choice(_READERS)
    with damaged_sweep(chosen, content, written=reader is _resume) as folder:

        def read() -> None:
            found = reader(folder)
            assert found == _saved(reader), "other numbers than were saved"

        return outcome(read, f"{reader.__name__} {chosen}", content)
