"""A data folder of its own, a small data set, and a server that has it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepsim.data import Dataset
from tests.data.server import Server, serve

CONTENT = random.Random(0).randbytes(300_000)
FILE = "some folder/lengths.npy"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder, which does not exist yet."""
    path = tmp_path / "data"
    monkeypatch.setenv("STEPSIM_DATA_DIR", str(path))
    monkeypatch.delenv("STEPSIM_DATA_MIRROR", raising=False)
    return path


@pytest.fixture
def server() -> Iterator[Server]:
    with serve({"some%20folder/lengths.npy": CONTENT}) as found:
        yield found


@pytest.fixture
def dataset(server: Server, folder: Path) -> Dataset:
    return Dataset(
        name="group/name",
        about="",
        address=f"{server.address}/some%20folder/lengths.npy",
        file=FILE,
        bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        source="",
        license="",
    )
