"""``stepsim noc``: tables and traces in, metrics, tables and a picture out."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

import stepsim as st
from tests.cli.conftest import Cli

TABLE = "time,source,destination,bytes\n0,0,63,4096\n0,1,62,8192\n"


@pytest.fixture
def traffic(tmp_path: Path) -> Path:
    path = tmp_path / "traffic.csv"
    path.write_text(TABLE)
    return path


def test_a_table_gives_metrics_tables_and_a_picture(cli: Cli, traffic: Path) -> None:
    out, picture = traffic.with_name("run.parquet"), traffic.with_name("run.svg")
    done = cli("noc", traffic, "--out", out, "--picture", picture, "--json")
    assert done.code == 0, done.err
    found = done.json()
    assert (found["network"], found["transfers"], found["cycles"]) == ("mesh", 2, 450)
    table = pq.read_table(out)
    assert table["arrival_cycle"].to_pylist() == [331, 450]
    assert table.schema.field("arrival_cycle").metadata[b"unit"] == b"cycles"
    links = pq.read_table(out.with_suffix(".links.parquet"))
    assert sum(links["link_bytes"].to_pylist()) == 4096 * 14 + 8192 * 12
    root = ElementTree.fromstring(picture.read_text())
    lines = root.findall("{http://www.w3.org/2000/svg}line")
    assert len(lines) == links.num_rows == 2 * 2 * 7 * 8
    titles = [line[0].text or "" for line in lines]
    assert any(title.startswith("(0, 1) east: 85.3%, 2 transfers") for title in titles)


def test_people_see_the_busiest_links(cli: Cli, traffic: Path) -> None:
    done = cli("noc", traffic, "--rows", 1, "--set", "flits.quantum=16")
    assert done.code == 0, done.err
    assert "(0, 1) east    85.3%" in done.out
    assert "(0, 2) east" not in done.out
    assert "latency_max" in done.out


def test_a_trace_is_compared_with_silicon(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    rows = [[0, 0, 0, 0, 1, 1, 2, 2, 4096], [300, 2, 0, 0, 1, 1]]
    lines = [{"id": name, "device": "wormhole_b0", "events": rows} for name in ("a", "b")]
    path.write_text("\n".join(map(json.dumps, lines)))
    done = cli("noc", path, "--trace", "b", "--model", "npe", "--json")
    assert done.code == 0, done.err
    found = done.json()
    assert (found["network"], found["trace"], found["measured_cycles"]) == ("wormhole", "b", 280)
    # The first step ends in cycle 384 with 3203 bytes at 28.1 per cycle; 893 more take 32 cycles.
    assert found["trace_cycles"] == found["cycles"] == 384 + 32
    assert "has several; choose one of a, b" in cli("noc", path).err


def test_networks_are_listed_and_shown(cli: Cli, tmp_path: Path) -> None:
    assert list(cli("noc", "--list", "--json").json()) == list(st.noc.list_networks())
    shown = cli("noc", "--show", "ring", "--set", "cols=5")
    path = tmp_path / "ring.yaml"
    path.write_text(shown.out)
    assert st.noc.load_network(path) == st.noc.load_network("ring", {"cols": 5})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "TRAFFIC: missing"),
        (["--list", "x.csv"], "take no traffic; leave it out"),
        (["--list", "--show", "mesh"], "--list has no effect with --show or --set"),
        (["x.txt"], "expected a table of transfers"),
        (["none.csv"], "expected a table of transfers"),
        (["none.json"], "expected a trace of tt-npe"),
        (["x.csv", "--trace", "a"], "--trace has no effect on a table"),
        (["x.csv", "--rows", "1", "--json"], "--rows has no effect with --json"),
        (["x.csv", "--picture", "p.png"], "expected a name that ends in .svg"),
        (["x.csv", "--set", "color=1"], "network override: unknown key 'color'"),
    ],
)
def test_mistakes_are_named(cli: Cli, arguments: list[str], message: str) -> None:
    done = cli("noc", *arguments)
    assert done.code != 0
    assert message in done.err
    assert not done.out


@pytest.mark.parametrize("asked", [("--list",), ("--show", "mesh")])
@pytest.mark.parametrize(
    "more",
    [
        ("--model", "npe"), ("--step", 3), ("--no-congestion",), ("--trace", "a"),
        ("--out", "x.parquet"), ("--picture", "x.svg"), ("--rows", 0), ("--network", "mesh"),
        ("--memory-cycles", 5),
    ],
    ids=lambda more: more[0],
)  # fmt: skip
def test_networks_are_printed_without_a_simulation(
    cli: Cli, asked: tuple[str, ...], more: tuple[str, ...]
) -> None:
    refused = cli("noc", *asked, *more)
    assert refused.code == 2
    assert f"{more[0]}: has no effect, since --show and --list print networks" in refused.err
