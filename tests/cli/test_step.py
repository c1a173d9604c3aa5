"""``stepsim run step``: new tokens from a file, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Cli

NEW, CACHED = [1, 40, 1], [64, 0, 200]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    routing = rng.random((64, 8)).argsort(axis=1)[:, :2]
    np.savez(tmp_path / "routing.npz", data=routing)
    np.save(tmp_path / "cached.npy", np.array(CACHED))
    text = "request,tokens\n" + "".join(f"{i},{n}\n" for i, n in enumerate(NEW))
    (tmp_path / "new.csv").write_text(text)
    return {
        name.split(".")[0]: tmp_path / name for name in ("routing.npz", "cached.npy", "new.csv")
    }


def options(files: dict[str, Path]) -> list[object]:
    return [
        "--model",
        "mixtral-8x7b",
        "--routing",
        files["routing"],
        "--kv-lengths",
        files["cached"],
    ]


@pytest.mark.slow
def test_new_tokens_of_a_column(cli: Cli, files: dict[str, Path]) -> None:
    new = ["--new-tokens", f"{files['new']},column=tokens"]
    found = cli("run", "step", *options(files), *new, "--json").json()
    assert (found["status"], found["batch"]) == ("ok", 3)
    assert found["kv_lengths"]["new_tokens"] == found["routing"]["tokens"] == sum(NEW)
    two = cli("run", "step", *options(files), *new, "--batch", 2, "--json").json()
    assert two["routing"]["tokens"] == sum(NEW[:2])
    assert two["lengths_id"] != found["lengths_id"]
    decode = cli("run", "step", *options(files), "--batch", 3, "--json").json()
    assert decode["flops"] < found["flops"]
    assert "new_tokens" not in decode["kv_lengths"]


def test_refused(cli: Cli, files: dict[str, Path], tmp_path: Path) -> None:
    part = cli("run", "step", *options(files), "--new-tokens", f"{files['new']},step=1")
    assert part.code == 2
    assert "--new-tokens: expected column= after the file, found 'step=1'" in part.err
    np.save(tmp_path / "zero.npy", np.array([1, 0, 1]))
    zero = cli("run", "step", *options(files), "--new-tokens", tmp_path / "zero.npy")
    assert zero.code != 0
    assert "row 1" in zero.err
    np.save(tmp_path / "more.npy", np.array([1, 1, 1, 1]))
    more = cli("run", "step", *options(files), "--new-tokens", tmp_path / "more.npy")
    assert more.code != 0
    assert "expected one number for each of the 3 requests of kv_lengths, found 4" in more.err
    longer = cli("run", "step", *options(files))
    assert longer.code == 2
    assert "found 64 in" in longer.err
    assert "--batch limits both, and --new-tokens says how many tokens each request" in longer.err
