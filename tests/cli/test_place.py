"""``stepsim place``: a placement, a picture and figures out; machines without a network refused."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.cli.conftest import Cli


def test_a_placement_is_written_and_drawn(cli: Cli, own_file: Path) -> None:
    out, picture = own_file.with_name("placement.yaml"), own_file.with_name("placement.svg")
    done = cli(
        "place", f"{own_file}:own", "--set", "noc=mesh", "--effort", 0.1, "--out", out,
        "--picture", picture,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.out.startswith("4 operators on 4 tiles: busiest link 8,192 bytes")
    data = yaml.safe_load(out.read_text())
    assert (data["rows"], data["cols"], data["per_tile"]) == (8, 8, 1)
    assert list(data["operators"]) == ["linear_load#0", "flatten#1", "silu#2", "linear_store#3"]
    titles = [one.text or "" for one in ElementTree.parse(picture).iter() if "title" in one.tag]
    assert any("silu#2" in title for title in titles)
    assert any("memory port of linear_store#3" in title for title in titles)
    assert sum(": 8,192 bytes" in title for title in titles) >= 3


def test_json_names_the_busiest_streams(cli: Cli, own_file: Path) -> None:
    found = cli(
        "place", f"{own_file}:own", "--set", "noc=ring", "--per-tile", 2, "--effort", 0.1, "--json"
    ).json()
    assert found["busiest_link_bytes"] == 8192
    assert found["hop_bytes"] <= found["row_major_hop_bytes"]
    assert [one["bytes"] for one in found["busiest_link_streams"]] == [8192]


def test_what_cannot_be_placed(cli: Cli, own_file: Path) -> None:
    assert "has no network on chip" in cli("place", f"{own_file}:own").err
    small = ("--set", "noc=mesh", "--set", "noc.rows=1", "--set", "noc.cols=2")
    assert "larger than the machine" in cli("place", f"{own_file}:own", *small).err
    on_mesh = ("--set", "noc=mesh")
    assert ".yaml" in cli("place", f"{own_file}:own", *on_mesh, "--out", "x.txt").err
    assert "effort must be" in cli("place", f"{own_file}:own", *on_mesh, "--effort", 0).err


@pytest.mark.slow
def test_operators_on_several_tiles(cli: Cli, own_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "tiles.yaml"
    grid = ("--set", "noc=mesh", "--set", "noc.rows=3", "--set", "noc.cols=5")
    tiles = ("--tiles", "silu#2=3", "--tiles", "flatten#1=2")
    done = cli("place", own_file, *grid, *tiles, "--effort", 0.02, "--out", out, "--json")
    assert done.code == 0, done.err
    figures = done.json()
    assert figures["tiles"] == figures["operators"] + 3
    assert cli("run", own_file, *grid, "--place", out).code == 0
    for wrong in ("silu#2", "silu#2=x", "=2"):
        refused = cli("place", own_file, *grid, "--tiles", wrong)
        assert refused.code != 0
        assert "--tiles: expected OPERATOR=N" in refused.err


@pytest.mark.long
def test_runs_of_a_design_search_in_its_dies(cli: Cli, tmp_path: Path) -> None:
    folder, file = tmp_path / "design", tmp_path / "placement.yaml"
    made = cli("compile", "gpt2-medium", "--machine", "u55c", "--tokens", 32, "--out", folder)
    assert made.code == 0, made.err
    grid = ("--set", "noc=mesh", "--set", "noc.rows=8", "--set", "noc.cols=9")
    options = ("--per-tile", 8, "--effort", 0.01, "--out", file)
    assert cli("place", folder, *grid, *options).code == 0
    by_file = cli("run", folder, *grid, "--place", file, "--json").json()
    searched = cli("run", folder, *grid, "--place", "auto,per_tile=8,effort=0.01", "--json").json()
    assert searched["cycles"] == by_file["cycles"]
