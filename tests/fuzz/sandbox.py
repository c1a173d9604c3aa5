"""A folder with a file of every kind that commands read, and one call of the command in it."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import requests

import stepsim as st
from stepsim.cli.main import main

__all__ = ["INPUTS", "Ended", "call", "parsed", "sandbox"]

_GEMM = '''import stepsim as st


def gemm(m: int = 8, k: int = 4, n: int = 4, tile: int = 2) -> st.Program:
    """Product of two matrices, a tile of rows at a time."""
    with st.Program("gemm", compute_bw=4096) as program:
        a = st.linear_load(st.spec(m, k), tile=(tile, k)).flatten(0, 1)
        b = st.linear_load(st.spec(k, n), tile=(k, n), ref=a).flatten(0, 1)
        st.linear_store(st.map(st.fn.matmul, a, b.flatten(0, 1)), "c")
    return program


def raises(m: int = 8) -> st.Program:
    raise ZeroDivisionError(m)
'''

_MODEL = """name: small
model_dim: 32
layers: 2
attention: {heads: 4, kv_heads: 2, head_dim: 8}
experts: {count: 4, active: 2, inner_dim: 64}
"""

_SWEEP = """name: small
workload: swiglu
parameters: {tile_inter: 8, batch: 8, hidden: 16, intermediate: 16}
grid:
  tile: [2, 4]
"""

_REQUESTS = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,37,4
2023-11-16 18:15:50.9951690,11,2
2023-11-16 18:15:51.2225670,63,3
2023-11-16 18:15:52.1225670,5,1
"""

_SEARCH = "search: {objectives: [cycles, onchip_bytes], sampler: random, trials: 2}\n"

INPUTS = (
    "routing.npy", "kv.npy", "requests.csv", "model.yaml", "machine.yaml", "sweep.yaml",
    "tune.yaml", "own.py", "text.txt", "empty", "folder", "done", "run.parquet", "run.json",
    "synth.parquet", "caf\udce9.npy",
)  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """What a command left: exit code and both outputs."""

    code: object
    out: str
    err: str


@functools.cache
def _original() -> Path:
    """The folder that every case gets a copy of."""
    folder = Path(tempfile.mkdtemp(prefix="stepsim-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    np.save(folder / "routing.npy", np.array([[0, 1], [1, 2], [3, 0], [2, 1]]))
    np.save(folder / "kv.npy", np.array([5, 0, 40, 31]))
    shutil.copy(folder / "kv.npy", folder / "caf\udce9.npy")  # a name that is no UTF-8
    texts = {
        "requests.csv": _REQUESTS, "model.yaml": _MODEL, "sweep.yaml": _SWEEP,
        "tune.yaml": _SWEEP + _SEARCH, "own.py": _GEMM,
        "text.txt": "no file of any kind\n", "empty": "",
        "machine.yaml": st.load_machine().to_yaml(),
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "folder").mkdir()
    with contextlib.chdir(folder):
        swiglu = "run swiglu --tile 4 --tile-inter 8 --batch 8 --hidden 16 --intermediate 16"
        made = call([*swiglu.split(), "--json", "--out", "run.parquet"])
        (folder / "run.json").write_text(made.out, encoding="utf-8")
        for line in (
            "sweep run sweep.yaml --out done",
            "trace synth --out synth.parquet --experts 4 --k 2 --tokens 8",
        ):
            ended = call(line.split())
            assert ended.code == 0, ended.err
    return folder


@contextlib.contextmanager
def sandbox() -> Iterator[Path]:
    """A fresh folder with all inputs, as the working directory."""
    original = _original()
    with tempfile.TemporaryDirectory(prefix="stepsim-fuzz-") as name:
        folder = Path(name) / "work"
        shutil.copytree(original, folder)
        with contextlib.chdir(folder):
            yield folder


def call(arguments: list[str]) -> Ended:
    """Call the command in this process, with outputs as strict as those of a real one."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.TextIOWrapper(
        io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True
    )
    settings = {
        "NO_COLOR": "1",
        "TERM": "dumb",
        "COLUMNS": "100",
        "STEPSIM_DATA_DIR": str(Path.cwd()),
    }
    code: object = "returned"
    with (
        mock.patch.dict(os.environ, settings),
        mock.patch.object(requests.Session, "send", _unplugged),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return Ended(code, *texts)


def _unplugged(*given: object, **options: object) -> None:
    raise requests.ConnectionError("no network here")


def parsed(text: str) -> object:
    """JSON as the standard has it: no NaN, no infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)
