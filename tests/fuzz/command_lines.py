"""Every command in this process, with arguments drawn from its own table of options.

A case is a command line that works, changed in a few places: options added, left out, doubled,
given twice or with values of the wrong kind. However it ends, the exit code is one of
:mod:`stepsim.cli.exit_codes`, a message says why, nobody sees a traceback of stepsim, and what is
on disk is whole.
"""

from __future__ import annotations

import functools
import io
import random
import shlex
from pathlib import Path
from signal import Signals
from typing import Any

import pyarrow.parquet as pq
from typer.main import get_command

from stepsim.cli.exit_codes import MEANINGS, SIGNAL
from stepsim.cli.main import app
from tests.fuzz.driver import note
from tests.fuzz.sandbox import INPUTS, Ended, call, parsed, sandbox

__all__ = ["one"]

_SWIGLU = "swiglu --tile 4 --tile-inter 8 --batch 8 --hidden 16 --intermediate 16"
_MOE = "moe --model model.yaml --routing routing.npy --tile 2"
_ATTENTION = "attention --model model.yaml --kv-lengths kv.npy --strategy dynamic"
_DECODER = (
    "decoder --model model.yaml --routing routing.npy,window=0 --kv-lengths kv.npy,window=0 "
    "--batch 4 --tile dynamic --strategy dynamic"
)
_LIMIT = "--max-seconds 2"

LINES = [
    *(f"run {work} {_LIMIT}" for work in (_SWIGLU, _MOE, _ATTENTION, _DECODER)),
    *(f"inspect {work}" for work in (_SWIGLU, _MOE, _ATTENTION, _DECODER)),
    f"run own.py:gemm {_LIMIT}",
    f"run own.py:raises {_LIMIT}",
    "inspect own.py:gemm",
    "trace info routing.npy",
    "trace info synth.parquet",
    "trace info kv.npy",
    "trace import requests.csv out.parquet",
    "trace import routing.npy out.parquet --experts 4",
    "trace select requests.csv --size 2 --out picked",
    "trace replay requests.csv --batch 2 --step-seconds 0.05 --out steps.parquet",
    "trace synth --out made.parquet --experts 4 --k 2 --tokens 8",
    "sweep run sweep.yaml --dry-run",
    "sweep run sweep.yaml --out swept",
    "sweep run sweep.yaml --out done --resume",
    "sweep pareto done",
    "sweep compare done done",
    "sweep compare done done --by layer --fail-above 1%",
    "compare run.parquet run.parquet",
    "sweep best done --per layer",
    "sweep tune tune.yaml --out tuned",
    f"why {_SWIGLU} {_LIMIT}",
    f"size {_SWIGLU}",
    "report done --out report.html",
    "sweep query done 'SELECT cycles FROM runs'",
    "machines",
    "machines --show sda-1024",
    "env",
    "data list",
    "data path step/qwen-b64",
    "data fetch step/qwen-b64",
]
"""Command lines that work, or fail in the way they should, and fast."""

DRAWING = ["trace plot routing.npy --out plot.png", "sweep pareto done --plot front.png"]
"""Those that take longer; drawn less often."""

LONG = ["demo --out text.txt", "reproduce 99 --out report", "reproduce validate --out text.txt"]
"""Those that would run for minutes if they worked: only what leaves them wrong is changed."""

_WORDS = [
    "", "x", "-1", "0", "1", "2", "3", "7", "1.5", "1e3", "1e400", "nan", "inf", "-inf", "true",
    "None",
    "4294967296", "9223372036854775807", "9223372036854775808", "9" * 40, "0x10", "1_0", "٣",
    " 4 ", "+4",
    "-", "--", "--x", "=", "a=b", "@x", "é", "\udcff", "\t", "a\nb", "[", "{}", "[1]", "!!int x",
    "&a",
    "%s", "[red]x[/red]", "[/]", "~", "*", "a" * 300, "1,2", "1+2", "0..3", "..", "all", "dynamic",
]  # fmt: skip

_PATHS = [
    *INPUTS, *INPUTS, "missing", "missing/x.parquet", "folder/x.parquet", "text.txt/x", ".", "..",
    "/",
    "/dev/null", "/dev/full", "out.parquet", "out.json", "out.csv", "out.npy", "out.npz", "out.png",
    "out", "own.py:gemm", "own.py:none", ":", "text.txt:x", "step/qwen-b64", "~", "a\x7fb",
    "x" * 300,
]  # fmt: skip

_VALUES: dict[str, list[str]] = {
    "--model": ["model.yaml", "qwen3-30b-a3b", "mixtral-8x7b"],
    "--tile": ["1", "2", "4", "dynamic"],
    "--set": [
        "hbm.channels=3",
        "fifo.depth=null",
        "hbm.channels=",
        "x=1",
        "hbm.interval=7",
        "name=a",
    ],
    "--machine": ["sda-1024", "sda-hdl", "machine.yaml"],
    "--config": ["published"],
    "--strategy": ["dynamic", "interleaved", "coarse"],
    "--format": ["npy", "csv", "parquet", "json", "azure", "vllm"],
    "--backend": ["local", "dask", "ray"],
    "--metric": ["cycles", "offchip_bytes", "flops", "program"],
    "--x": ["onchip_bytes", "cycles", "flops", "tile"],
    "--y": ["onchip_bytes", "cycles", "flops", "tile"],
    "--by": ["time", "requests", "mean", "stdev", "layer", "layer,step", "tile"],
    "--baseline": ["tile=2", "tile=4,channels=8"],
    "--per": ["layer", "layer,step", "tile"],
    "--where": ["tile == 2", "cycles > 1", "layer in (0, 1)"],
    "--cost": ["hbm_channels=1", "onchip_bytes=1e-6"],
    "--fail-above": ["1%", "0%"],
    "--column": ["ContextTokens", "GeneratedTokens", "x"],
    "--micro-batches": ["2+2", "4", "1+3"],
    "--jobs": ["1"],
}


def one(rng: random.Random) -> str:
    """One command line."""
    lines = rng.choices([LINES, DRAWING, LONG], [95, 2, 3])[0]
    line = shlex.split(rng.choice(lines))
    path, options = _command(tuple(line))
    kinds = ["add", "add", "value", "value", "drop", "twice", "stray"]
    if lines is LONG:
        kinds = ["add", "stray"]
        options = [option for option in options if "--out" not in option.opts]
    items = _items(line)
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        _change(rng, rng.choice(kinds), items, len(path), options)
    arguments = [part for item in items for part in item]
    with sandbox() as folder:
        before = {path: path.read_bytes() for path in _files(folder)}
        note(
            shlex.join(["stepsim", *(part.encode("unicode_escape").decode() for part in arguments)])
        )
        ended = call(arguments)
        _check(ended, arguments)
        _check_files(folder, before, arguments)
    return "accepted" if ended.code == 0 else "refused"


@functools.cache
def _command(line: tuple[str, ...]) -> tuple[tuple[str, ...], list[Any]]:
    """The words that name a command, and its table of options."""
    command: Any = get_command(app)
    path: list[str] = []
    with sandbox():
        while hasattr(command, "list_commands"):
            path.append(line[len(path)])
            command = command.get_command(None, path[-1])
    return tuple(path), [p for p in command.params if p.opts[0].startswith("-")]


def _items(line: list[str]) -> list[list[str]]:
    """A command line as words and options with their values."""
    items: list[list[str]] = []
    for word in line:
        if items and items[-1][0].startswith("--") and len(items[-1]) == 1 and word[:2] != "--":
            items[-1].append(word)
        else:
            items.append([word])
    return items


def _change(
    rng: random.Random, kind: str, items: list[list[str]], first: int, options: list[Any]
) -> None:
    """Change one item; the ``first`` are the name of the command."""
    places = range(first, len(items))
    if kind == "add" and options:
        items.append(_option(rng, rng.choice(options)))
    elif kind == "value" and places:
        place = rng.choice(places)
        items[place] = [*items[place][:-1], _value(rng, items[place][0], "")]
    elif kind == "drop" and places:
        del items[rng.choice(places)]
    elif kind == "twice" and places:
        items.append(items[rng.choice(places)])
    elif kind == "stray":
        items.insert(rng.choice(range(first, len(items) + 1)), [rng.choice(_WORDS + _PATHS)])


def _option(rng: random.Random, option: Any) -> list[str]:
    name = rng.choice(option.opts)
    if getattr(option, "is_flag", False):
        return [name]
    return [name, _value(rng, name, str(option.metavar or ""))]


def _value(rng: random.Random, name: str, metavar: str) -> str:
    """Half of the values fit the option."""
    if rng.random() < 0.5:
        if name in _VALUES:
            return rng.choice(_VALUES[name])
        if "|" in metavar:
            return rng.choice(metavar.split("|"))
        if metavar in ("N", "I", "STEP", "") and name.startswith("--"):
            return str(rng.choice([1, 2, 4, 8, 3, 0]))
        if metavar == "DTYPE":
            return rng.choice(["f32", "bf16", "mxfp4", "i4"])
    return rng.choice(rng.choice([_WORDS, _PATHS]))


def _check(ended: Ended, arguments: list[str]) -> None:
    code = ended.code or 0
    assert isinstance(code, int), f"exit code {code!r}"
    assert code in MEANINGS or code - SIGNAL in set(Signals), f"exit code {code}"
    users = "own.py" in " ".join(arguments)
    assert users or "Traceback" not in ended.err, f"a traceback: {ended.err[-4000:]}"
    if code:
        assert ended.err.strip() or "status" in ended.out, f"code {code} without a message"
    elif "--json" in arguments and not {"--help", "-h"} & set(arguments):
        parsed(ended.out)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _check_files(folder: Path, before: dict[Path, bytes], arguments: list[str]) -> None:
    """No file is half-written, and none that is not named was touched."""
    after = _files(folder)
    named = " ".join(arguments)
    for path, content in before.items():
        top = path.relative_to(folder).parts[0]
        # What a run writes beside run.parquet: run.units.parquet and run.fifos.parquet.
        parts = top.split(".")
        if top not in named and f"{parts[0]}.{parts[-1]}" not in named:
            assert path in after, f"a file is gone: {top}"
            assert path.read_bytes() == content, f"a file was changed: {top}"
    for path in after:
        if path in before and path.read_bytes() == before[path]:
            continue
        if path.name == ".lock":
            continue  # of a sweep's folder
        assert not path.name.startswith("."), f"a temporary file is left: {path.name[:20]}"
        assert path.suffix != ".tmp", f"a temporary file is left: {path.name[:20]}"
        content = path.read_bytes()
        if path.suffix == ".parquet" or content.startswith(b"PAR1"):
            pq.read_table(io.BytesIO(content))
        elif path.suffix == ".json":
            parsed(content.decode())
