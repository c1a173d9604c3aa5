"""``stepsim inspect moe``: symbolic shapes and metrics, without a simulation."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Cli

MIXTRAL = ("inspect", "moe", "--model", "mixtral-8x7b")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Five tokens, all to experts 0 and 1 of Mixtral."""
    path = tmp_path / "routing.npy"
    np.save(path, np.tile([0, 1], (5, 1)))
    return path


def test_formulas_stay_symbolic(cli: Cli) -> None:
    found = cli(*MIXTRAL, "--tile", 32, "--batch", 16, "--json").json()
    assert found["batch"] == 16
    weights = 3 * 4096 * 14336 * 2
    rest = 2 * 16 * 4096 + 2 * 16 * 2 + 2 * 16 * 4096
    assert found["formulas"]["offchip_bytes"] == (
        f"sum({weights}*ceil(n/32) for n in n0..n7) + {rest}"
    )
    assert found["numbers"] is None
    assert {op["kind"] for op in found["operators"]} >= {"Partition", "Reassemble"}


@pytest.mark.parametrize(
    ("options", "counting"),
    [
        ((), "executed"),
        (("--counting", "paper"), "paper"),
        (("--config", "published"), "published"),
    ],
)
def test_the_table_names_the_counting(cli: Cli, options: tuple[str, ...], counting: str) -> None:
    outcome = cli(*MIXTRAL, "--tile", 32, "--tile-inter", 64, "--batch", 16, *options)
    assert outcome.code == 0, outcome.err
    assert re.search(rf"^metrics, counted as {counting} *$", outcome.out, re.MULTILINE)


def test_inputs_are_those_of_a_run(cli: Cli, tmp_path: Path) -> None:
    """Both read the same window of the same trace."""
    path = tmp_path / "long.npy"
    np.save(path, np.random.default_rng(0).permuted(np.tile(np.arange(8), (12, 1)), axis=1)[:, :2])
    routing = f"{path},window=2"
    options = ("--model", "mixtral-8x7b", "--tile", 16, "--routing", routing, "--json")
    window = ("--batch", 4)
    run, inspect = (cli(command, "moe", *options, *window).json() for command in ("run", "inspect"))
    assert run["routing"] == inspect["routing"]
    assert (run["routing"]["first_token"], run["routing"]["tokens"]) == (8, 4)
    names = ("offchip_bytes", "onchip_bytes", "flops")
    assert [run[name] for name in names] == [inspect["numbers"][name] for name in names]


def test_numbers_of_a_trace(cli: Cli, trace: Path) -> None:
    def numbers(tile: object, counting: str) -> dict[str, int]:
        outcome = cli(
            *MIXTRAL, "--tile", tile, "--routing", trace, "--counting", counting, "--json"
        )
        return outcome.json()["numbers"]

    published = numbers(4, "published")
    per_row = 14 * 4096 * 14336 + 14336
    assert published["flops"] == 16 * per_row
    assert published["padded_flops"] == 6 * per_row
    exact = numbers(4, "executed")
    # Padding is what static tiles execute beyond tiles that fit.
    assert exact["padded_flops"] == exact["flops"] - numbers("dynamic", "executed")["flops"]
    assert exact["padded_flops"] > 0
    assert numbers("dynamic", "executed")["padded_flops"] == 0


def test_padding_of_a_shared_expert_counts(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "routing.npy"
    np.save(path, np.array([[3], [3], [0], [15], [3]]))
    model = ("inspect", "moe", "--model", "llama-4-scout", "--routing", path, "--json")
    static, dynamic = (
        cli(*model, "--tile", tile, "--counting", "executed").json()["numbers"]
        for tile in (4, "dynamic")
    )
    assert static["padded_flops"] == static["flops"] - dynamic["flops"] > 0
    assert dynamic["padded_flops"] == 0


def test_listing_shows_an_operator_of_all_experts_once(cli: Cli, trace: Path) -> None:
    outcome = cli(*MIXTRAL, "--tile", "dynamic", "--routing", trace)
    assert outcome.code == 0
    lines = [line.split() for line in outcome.out.splitlines()]
    assert [words[:4] for words in lines if words[:1] == ["silu.*"]] == [
        ["silu.*", "map", "silu", "8"]
    ]
    assert any(words[:1] == ["flops"] for words in lines)


def test_all_lists_every_operator(cli: Cli) -> None:
    outcome = cli(*MIXTRAL, "--tile", 16, "--all")
    assert sum("silu." in line for line in outcome.out.splitlines()) == 8


@pytest.mark.parametrize("counting", ["executed", "published"])
def test_operators_and_totals_are_counted_alike(cli: Cli, counting: str) -> None:
    sizes = ("--batch", 64, "--hidden", 256, "--intermediate", 512, "--tile", 16)
    options = ("inspect", "swiglu", *sizes, "--tile-inter", 32, "--counting", counting)
    text, numbers = cli(*options, "--all").out, cli(*options, "--json").json()["numbers"]
    assert f"counted as {counting})" in text.splitlines()[0]
    for letter, name in (("T", "offchip_bytes"), ("M", "onchip_bytes")):
        assert sum(map(int, re.findall(rf"{letter}=(\d+)", text))) == numbers[name]


@pytest.mark.parametrize(("language", "start"), [("dot", "digraph"), ("mermaid", "flowchart")])
def test_graph_languages(cli: Cli, language: str, start: str) -> None:
    outcome = cli(*MIXTRAL, "--tile", 16, "--graph", language)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(start)


def test_regions_are_counted(run) -> None:
    options = {"model": "mixtral-8x7b", "regions": 2, "command": "inspect"}
    lines = [line.split() for line in run(**options).out.splitlines()]
    assert [words[1:4] for words in lines if words[0:1] == ["silu.*"]] == [["map", "silu", "2"]]
    assert run("--json", **options).json()["regions"] == 2


def test_a_picture_before_any_run(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "p.svg"
    shown = cli("graph", *MIXTRAL[1:], "--tile", 32, "--batch", 16, "--out", out).out
    assert shown.startswith(f"wrote {out}: 148 operators and 16 broadcasts in 31 boxes")
    listed = cli(*MIXTRAL, "--tile", 32, "--batch", 16).out
    assert listed.startswith("moe_mixtral-8x7b_b16_32: 148 operators ")
    assert out.read_text(encoding="utf-8").startswith("<svg")
    wrong = cli("graph", "missing.py", "--out", tmp_path / "p.png")
    assert wrong.code == 2
    late = cli("graph", *MIXTRAL[1:], "--tile", 32, "--out", tmp_path / "p.png")
    assert (late.code, "expected a name that ends in .svg or .html" in late.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--graph", "dot", "--all"), "--all: has no effect, since --graph"),
        (("--graph", "dot", "--counting", "paper"), "--counting: has no effect, since --graph"),
        (("--addresses", "--all"), "--all: has no effect, since --addresses"),
        (("--json", "--all"), "--all: has no effect, since --json"),
    ],
)
def test_options_without_effect_are_refused(cli: Cli, options: tuple[str, ...], said: str) -> None:
    refused = cli(*MIXTRAL, "--tile", 32, "--batch", 16, *options)
    assert refused.code == 2
    assert said in refused.err
