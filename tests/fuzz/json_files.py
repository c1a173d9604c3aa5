"""Damaged JSON files: config.json of a model, sweep.json of a folder of results."""

from __future__ import annotations

import functools
import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepsim.documents import parse_json
from stepsim.errors import StepSimError
from stepsim.sweep import compare, design_costs, open_table, query, read_designs, run_sweep
from stepsim.workloads.models import read_model
from tests.fuzz.mutation import damaged_bytes, damaged_data, damaged_text
from tests.fuzz.reading import new_path, outcome, scratch
from tests.sweep.support import tiny
from tests.workloads.configs import CONFIGS

__all__ = ["damaged_sweep", "finished_sweep", "one", "sweep_spec"]


@functools.cache
def finished_sweep() -> Path:
    """A folder with a finished sweep of two design points; it goes with the process."""
    folder = scratch() / "finished"
    run_sweep(sweep_spec(), folder)
    return folder


def sweep_spec() -> dict[str, Any]:
    """What `finished_sweep` ran."""
    return tiny(grid={"tile": [2, "dynamic"]})


def _config(path: Path) -> None:
    model = read_model(str(path))
    assert model.model_dim >= 1


def _designs(path: Path) -> None:
    for label, design in read_designs(path.parent).items():
        assert isinstance(label, str)
        assert isinstance(design, dict)


def _table(path: Path) -> None:
    assert open_table(path.parent).count_rows() == open_table(finished_sweep()).count_rows()


def _query(path: Path) -> None:
    query(path.parent, "select sum(cycles) from runs")


def _compare(path: Path) -> None:
    compare(finished_sweep(), path.parent)


def _costs(path: Path) -> None:
    design_costs(path.parent, "cycles", "onchip_bytes")


def _resume(path: Path) -> None:
    before = sorted(file.name for file in path.parent.rglob("*.parquet"))
    run_sweep(sweep_spec(), path.parent, resume=True)
    assert sorted(file.name for file in path.parent.rglob("*.parquet")) == before


_OF_FOLDERS: tuple[Callable[[Path], None], ...] = (
    _designs, _table, _query, _compare, _costs, _resume,
)  # fmt: skip


def _plain(path: Path) -> None:
    """What is read is what any other reader of JSON finds."""
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    try:
        data = parse_json(text, "file", StepSimError).data
    except StepSimError:
        return
    assert repr(data) == repr(json.loads(text))


def damaged(rng: random.Random, text: str, other: str) -> bytes:
    """A JSON file after one kind of damage."""
    kind = rng.randrange(4)
    if kind == 0:
        return damaged_bytes(rng, text.encode(), other.encode())
    if kind == 1:
        return damaged_text(rng, text).encode(errors="surrogatepass")
    changed: Any = damaged_data(rng, json.loads(text))
    written = json.dumps(changed, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 2)))
    return written.encode(errors="surrogatepass")


def one(rng: random.Random) -> str:
    """Damage one file and read it."""
    config = json.dumps(rng.choice(list(CONFIGS.values())), indent=2)
    if rng.randrange(3):
        read = rng.choice((_config, _config, _plain))
        content = damaged(rng, config, config)
        with new_path("config.json", content) as path:
            return outcome(lambda: read(path), read.__name__, content)
    of_folder = rng.choice(_OF_FOLDERS)
    text = (finished_sweep() / "sweep.json").read_text()
    content = damaged(rng, text, config)
    with damaged_sweep("sweep.json", content, written=of_folder is _resume) as folder:
        return outcome(lambda: of_folder(folder / "sweep.json"), of_folder.__name__, content)


@contextmanager
def damaged_sweep(name: str | Path, content: bytes | None, *, written: bool) -> Iterator[Path]:
    """A copy of the finished sweep in which one file has another content, or is gone.

    It is kept for the next case, unless the folder is ``written`` to by what reads it.
    """
    folder = scratch() / "damaged"
    if not folder.exists():
        shutil.copytree(finished_sweep(), folder)
    path = folder / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    try:
        yield folder
    finally:
        if written:
            shutil.rmtree(folder)
        else:
            path.unlink(missing_ok=True)  # an old content may still be mapped
            shutil.copyfile(finished_sweep() / name, path)
