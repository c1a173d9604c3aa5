"""What ``stepsim trace`` writes: links stay links, and pipes and devices are left alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Cli, Outcome
from tests.trace_io import foreign

Command = Callable[[Cli, Path, Path], Outcome]


def _lengths(folder: Path) -> Path:
    rows = [f"2024-01-01 00:00:{i:02d},{100 + i * i},2" for i in range(8)]
    path = folder / "requests.csv"
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows, ""]))
    return path


def _array(folder: Path) -> Path:
    path = folder / "x.npy"
    np.save(path, foreign.routing(6))
    return path


def _import(cli: Cli, folder: Path, out: Path) -> Outcome:
    return cli("trace", "import", _array(folder), out)


def _synth(cli: Cli, folder: Path, out: Path) -> Outcome:
    return cli("trace", "synth", "--experts", 8, "--k", 2, "--out", out)


def _replay(cli: Cli, folder: Path, out: Path) -> Outcome:
    return cli("trace", "replay", _lengths(folder), "--batch", 2, "--out", out)


def _plot(cli: Cli, folder: Path, out: Path) -> Outcome:
    pytest.importorskip("matplotlib")
    return cli("trace", "plot", _array(folder), "--out", out)


def _select(cli: Cli, folder: Path, out: Path) -> Outcome:
    """All requests are one window, so that there is one name."""
    return cli("trace", "select", _lengths(folder), "--size", 8, "--out", out.parent)


COMMANDS = [
    pytest.param(command, name, id=command.__name__.strip("_"))
    for command, name in (
        (_import, "out.parquet"),
        (_synth, "out.parquet"),
        (_replay, "out.parquet"),
        (_plot, "out.png"),
        (_select, "conv_stdev0017_0001_0008.npy"),
    )
]


@pytest.mark.parametrize(("command", "name"), COMMANDS)
def test_a_link_stays_a_link(cli: Cli, tmp_path: Path, command: Command, name: str) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "out").mkdir()
    real = tmp_path / "far" / "real"
    real.write_text("old")
    link = tmp_path / "out" / name
    link.symlink_to(real)
    outcome = command(cli, tmp_path, link)
    assert outcome.code == 0, outcome.err
    assert link.is_symlink()
    assert real.read_bytes()[:4] in (b"PAR1", b"\x89PNG", b"\x93NUM")
    assert [path.name for path in real.parent.iterdir()] == ["real"]
    assert [path.name for path in link.parent.iterdir()] == [name]


def test_a_replay_without_steps_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01,5,0\n")
    outcome = cli("trace", "replay", path, "--batch", 2, "--out", tmp_path / "o")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"error: {path}: expected requests that generate tokens, found none; there are no steps "
        "to write\n"
    )
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("command", "name"), COMMANDS)
def test_a_pipe_stays_a_pipe(cli: Cli, tmp_path: Path, command: Command, name: str) -> None:
    (tmp_path / "out").mkdir()
    pipe = tmp_path / "out" / name
    os.mkfifo(pipe)
    # With a reader no command can hang that would open it.
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        outcome = command(cli, tmp_path, pipe)
    finally:
        os.close(reader)
    assert outcome.code == 2
    assert f"error: cannot write {pipe}: it is a folder or a device; name a file" in outcome.err
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(pipe.parent.iterdir()) == [pipe]
