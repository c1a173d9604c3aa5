"""``stepsim trace``: made traces are the same everywhere, and wrong ones are explained."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from stepsim.trace_io import read_routing
from stepsim.workloads.models import MODELS
from tests.cli.conftest import Cli

KNOWN = (
    f"Expected one of {', '.join(MODELS)}, or a YAML file with dimensions, a Hugging Face "
    "config.json, or a folder that holds one"
)


def synth(cli: Cli, path: Path, *more: object) -> None:
    outcome = cli("trace", "synth", "--out", path, *more)
    assert outcome.code == 0, outcome.err
    assert outcome.err == f"wrote {path}\n"


def test_synth_by_model(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    synth(cli, path, "--model", "qwen3-30b-a3b", "--tokens", 16)
    table = read_routing(path, experts=128, k=8, tokens=16)
    assert table.model == "qwen3-30b-a3b"


def test_same_seed_same_bytes_other_seed_other_trace(cli: Cli, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, seed in zip(paths, (3, 3, 4), strict=True):
        synth(cli, path, "--experts", 8, "--k", 2, "--seed", seed)
    first, second, third = (read_routing(path).identity() for path in paths)
    assert first == second != third


def test_synth_layers_and_steps_and_info(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    synth(cli, path, "--experts", 4, "--k", 2, "--layers", 3, "--steps", 2, "--skew", 0)
    tables = cli("trace", "info", path, "--experts", 4, "--json").json()["tables"]
    assert [(t["layer"], t["step"]) for t in tables] == [
        (layer, step) for layer in range(3) for step in range(2)
    ]
    assert all(sum(t["loads"]) == 128 and t["mean_load"] == 32 for t in tables)
    assert len(cli("trace", "info", path, "--layer", 2, "--json").json()["tables"]) == 2


def test_info_table_of_known_loads(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "r.npy"
    np.save(path, np.array([[0, 1], [0, 2], [0, 1]]))
    outcome = cli("trace", "info", path, "--experts", 4)
    assert outcome.code == 0
    words = outcome.out.splitlines()[1].split()
    assert words == ["-", "0", "0", "3", "2", "4", "3", "3", "1.50", "1.12", "2.00"]
    assert outcome.err == ""


def test_info_without_the_number_of_experts_says_what_it_took(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "r.npy"
    np.save(path, np.array([[0, 5]]))
    outcome = cli("trace", "info", path)
    assert "using the highest id + 1" in outcome.err
    assert cli("trace", "info", path, "--json").json()["tables"][0]["experts"] == 6


def test_long_listings_are_cut_with_a_remark(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    outcome = cli("trace", "synth", "--out", path, "--experts", 4, "--k", 1, "--layers", 45)
    assert len(outcome.out.splitlines()) == 41
    assert outcome.err.startswith("5 more tables; --layer and --step select one")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the size of the router is missing; give --model, or --experts and --k"),
        (
            ("--model", "mixtral"),
            f"--model: unknown model 'mixtral'; did you mean 'mixtral-8x7b'? {KNOWN}",
        ),
        (
            ("--model", "zzz"),
            f"--model: unknown model 'zzz'. {KNOWN}",
        ),
        (
            ("--model", "mixtral-8x7b", "--k", "3"),
            "--k 3: model mixtral-8x7b has 2; leave one of them out",
        ),
        (("--experts", "4", "--k", "2", "--layers", "0"), "--layers 0: expected at least 1"),
        (("--experts", "4", "--k", "5"), "synthetic_routing: k is 5, expected 1..4"),
    ],
)
def test_synth_mistakes(cli: Cli, tmp_path: Path, arguments, message: str) -> None:
    outcome = cli("trace", "synth", "--out", tmp_path / "r.parquet", *arguments)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"error: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_two_sources_of_the_number_of_experts_have_to_agree(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "r.npy"
    np.save(path, np.array([[0, 1]]))
    for command in (("info", path), ("import", path, tmp_path / "r.parquet")):
        options = ("--model", "mixtral-8x7b", "--experts")
        assert cli("trace", *command, *options, 8).code == 0
        outcome = cli("trace", *command, *options, 16)
        says = "error: --experts 16: model mixtral-8x7b has 8; leave one of them out\n"
        assert (outcome.code, outcome.err) == (2, says)


def test_info_of_a_wrong_model_and_of_nothing(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "r.npy"
    np.save(path, np.array([[0, 1, 2]]))
    outcome = cli("trace", "info", path, "--model", "mixtral-8x7b", "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert str(path) in outcome.err
    missing = cli("trace", "info", tmp_path / "no.npy")
    assert missing.code == 2
    assert missing.err.startswith(f"error: {tmp_path / 'no.npy'}: cannot be read")


def test_info_knows_the_experts_of_a_synthetic_trace(cli: Cli, tmp_path: Path) -> None:
    file = str(tmp_path / "t.parquet")
    assert cli("trace", "synth", "--experts", "128", "--k", "2", "--out", file).code == 0
    shown = cli("trace", "info", file, "--json")
    assert json.loads(shown.out)["tables"][0]["experts"] == 128


@pytest.mark.parametrize(
    "sizes",
    [("--steps", 2**63 - 1), ("--layers", 2**62), ("--steps", 1 << 16, "--tokens", 1 << 13)],
)
def test_a_trace_that_would_take_days_is_refused(
    cli: Cli, tmp_path: Path, sizes: tuple[object, ...]
) -> None:
    outcome = cli("trace", "synth", "--out", tmp_path / "x", "--experts", 4, "--k", 2, *sizes)
    assert outcome.code == 2
    assert "a trace has at most 262,144 pairs of a layer and a step" in outcome.err
    assert not (tmp_path / "x").exists()
