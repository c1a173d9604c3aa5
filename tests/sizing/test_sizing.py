"""``size_fifos``: what it gives, refuses, writes, and reads again."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import ArgError
from tests.placement.test_placed_runs import machine
from tests.small_programs import center

BYPASS = "linear_load#0>1"


def routed() -> tuple[st.Program, Any]:
    """Rows of one expert are packed by four before they are worked on."""
    with st.Program("routed", compute_bw=64) as program:
        routing = st.routing(st.spec(16, 1), experts=2)
        rows = st.linear_load(st.spec(16, 64), tile=(1, 64)).flatten(0, 1)
        done = []
        for part in st.partition(rows, routing.multihot()):
            block = part.reshape(4, pad=0).accum(st.fn.pack_rows, rank=1)
            done.append(block.map(st.fn.silu).flat_map(st.fn.unpack_rows(drop_padding=True)))
        st.linear_store(st.reassemble(done, routing.multihot()), "out")
    return program, routing


def test_the_bypass_holds_a_row_and_nothing_else_is_deep() -> None:
    sizes = st.size_fifos(center())
    assert sizes.depths[BYPASS] == 8
    assert sizes.slots == sum(sizes.depths.values()) == 16
    assert sizes.bytes == 16 * 16 * 64 * 2
    result = st.simulate(center(), fifo_depth=sizes.depths)
    assert (result.status, (result.cycles,)) == ("ok", sizes.cycles)
    assert sizes.cycles == sizes.unbounded_cycles
    assert (sizes.slowdown, sizes.proved) == (0.0, True)
    assert sizes.table.column("depth").to_pylist() == list(sizes.depths.values())
    assert sum(sizes.table.column("fifo_bytes").to_pylist()) == sizes.bytes
    assert json.loads(json.dumps(sizes.to_dict()))["depths"] == sizes.depths
    assert "16 slots" in str(sizes)


def test_depths_that_are_kept_are_part_of_the_result(tmp_path: Path) -> None:
    sizes = st.size_fifos(center(), fifo_depth={BYPASS: 9})
    assert sizes.depths[BYPASS] == 9
    assert BYPASS not in sizes.table["name"].to_pylist()
    sizes.save(tmp_path / "depths.yaml")
    for given in (sizes.depths, tmp_path / "depths.yaml"):
        result = st.simulate(center(), fifo_depth=given)
        assert (result.status, (result.cycles,)) == ("ok", sizes.cycles)
    for row in sizes.pareto().to_pylist():
        done = st.simulate(center(), fifo_depth=json.loads(row["fifo_depths"]))
        assert (done.status, done.cycles) == ("ok", row["cycles"])


def test_uniform_depths_are_compared_by_runs() -> None:
    sizes = st.size_fifos(center())
    rows = {row["uniform_depth"]: row for row in sizes.uniform((2, 7, 8)).to_pylist()}
    assert [rows[d]["status"] for d in (2, 7, 8)] == ["deadlock", "deadlock", "ok"]
    assert rows[2]["cycles"] is None
    assert rows[8]["cycles"] == st.simulate(center(), fifo_depth=8).cycles
    assert rows[8]["bytes_saved"] == 8 * 8 * 2048 - sizes.bytes


def test_the_curve_goes_down_in_bytes_and_up_in_cycles() -> None:
    sizes = st.size_fifos(center())
    rows = sizes.pareto().to_pylist()
    assert len(rows) > 1
    for before, after in pairwise(rows):
        assert after["fifo_bytes"] < before["fifo_bytes"]
        assert after["cycles"] > before["cycles"]
    for row in rows:
        assert row["slowdown"] <= row["slowdown_bound"]
        done = st.simulate(center(), fifo_depth=json.loads(row["fifo_depths"]))
        assert (done.status, done.cycles) == ("ok", row["cycles"])
    (last,) = sizes.pareto([math.inf]).to_pylist()
    assert last["fifo_bytes"] <= rows[-1]["fifo_bytes"]


def test_depths_are_enough_for_all_bindings() -> None:
    program, routing = routed()
    tables = [
        {routing: np.array(rows).reshape(16, 1)}
        for rows in ([0] * 16, [0, 1] * 8, [1] * 12 + [0] * 4, [0] * 8 + [1] * 8)
    ]
    sizes = st.size_fifos(program, bindings=tables)
    for table, cycles, unbounded in zip(tables, sizes.cycles, sizes.unbounded_cycles, strict=True):
        result = st.simulate(program, bindings=table, fifo_depth=sizes.depths)
        assert (result.status, result.cycles) == ("ok", cycles)
        assert cycles <= unbounded * 1.01
    alone = st.size_fifos(program, bindings=tables[1])
    assert alone.bytes <= sizes.bytes


def test_stated_depths_stay_unless_asked_for() -> None:
    program = center(5)
    assert "add#5" not in st.size_fifos(program).depths
    assert st.size_fifos(program, stated=True).depths["add#5"] == 2


def test_what_no_depth_helps_is_said_with_the_reason() -> None:
    with st.Program("stuck", compute_bw=1024) as program:
        x = st.linear_load(st.spec(64, 512), tile=(16, 64)).with_depth(2)
        total = x.accum(st.fn.add, rank=1)
        y = st.map(st.fn.add, x, total.unsqueeze(0).expand(8))
        st.linear_store(y, "y")
    prepared = st.prepare(program, fifo_depth={BYPASS: 2})
    from stepsim.sizing.sizing import sized

    with pytest.raises(
        st.errors.EvaluationError, match=r"unbounded, the run ends with status deadlock: "
    ):
        sized(prepared)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"slowdown": -0.1}, "slowdown must be a number from 0"),
        ({"slowdown": "1 %"}, "slowdown must be a number from 0"),
        ({"slowdown": math.nan}, "slowdown must be a number from 0"),
        ({"bindings": []}, "bindings is empty"),
        ({"bindings": 3}, "bindings must map"),
        ({"stated": 1}, "stated must be True or False"),
    ],
)
def test_arguments_that_are_none(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(st.errors.ArgError, match=message):
        st.size_fifos(center(), **arguments)


def test_a_file_gives_the_same_run(tmp_path: Path) -> None:
    sizes, path = st.size_fifos(center()), tmp_path / "depths.yaml"
    sizes.save(path)
    for given in (path, str(path)):
        result = st.simulate(center(), fifo_depth=given)
        assert (result.cycles,) == sizes.cycles
        assert result.provenance["fifo_depths"] == sizes.depths
    assert st.prepare(center(), fifo_depth=path).run().cycles == result.cycles


def test_null_is_unbounded_and_what_is_not_named_keeps_its_depth(tmp_path: Path) -> None:
    path = tmp_path / "depths.yaml"
    path.write_text(f'depths: {{"{BYPASS}": null}}\n')
    fifos = st.simulate(center(), fifo_depth=path).fifos
    depths = {row["name"]: row["depth"] for row in fifos.to_pylist()}
    assert (depths.pop(BYPASS), set(depths.values())) == (None, {2})


def test_a_file_for_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "depths.yaml"
    st.size_fifos(center()).save(path)
    with pytest.raises(st.errors.ArgError, match=r"line 6: it is for program 'center' with"):
        st.simulate(center(5), fifo_depth=path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "program_hash:" not in line))
    assert st.simulate(center(5), fifo_depth=path).status == "ok"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("depths:\n  map#5: 2\n  linear_lod#0>1: 3\n", r"line 3: .* 'linear_lod#0>1' \(near:"),
        ("depths:\n  map#5: 0\n", r"line 2: the depth of 'map#5' must be an int from 1"),
        ("depths:\n  map#5: many\n", r"line 2: the depth of 'map#5' must be an int from 1"),
        ("depth:\n  map#5: 2\n", "expected the key 'depths'"),
        ("deepths: 3\ndepths: {}\n", "line 1: unknown key 'deepths'; did you mean 'depths'"),
        ("- 3\n", "expected the key 'depths'"),
        ("depths: [\n", "not valid YAML"),
    ],
)  # fmt: skip
def test_files_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "depths.yaml"
    path.write_text(text)
    with pytest.raises(st.errors.ArgError, match=message) as refused:
        st.simulate(center(), fifo_depth=path)
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_and_the_word_of_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(st.errors.ArgError, match="cannot be read"):
        st.simulate(center(), fifo_depth=tmp_path / "none.yaml")
    with pytest.raises(st.errors.ArgError, match=r"st\.size_fifos"):
        st.simulate(center(), fifo_depth="auto")


def test_a_placed_program_with_tiles_that_only_a_run_knows_is_sized() -> None:
    with st.Program("ragged", compute_bw=64) as program:
        zeros, lengths = st.metadata([0, 0, 0]), st.metadata([3, 1, 2])
        addresses = st.flat_map(zeros, st.fn.cache_read_addresses(3), lengths)
        rows = st.random_load(addresses, st.spec(16, 2), (1, 2)).map(st.fn.silu)
        rows.accum(st.fn.pack_rows, rank=1).map(st.fn.exp).consume()
    prepared = st.prepare(program, machine(), place="row-major")
    found = st.size_fifos(prepared)
    sized, free = (
        prepared.changed(fifo_depths=depths).run()
        for depths in (found.depths, dict.fromkeys(found.depths))
    )
    assert free.cycles <= sized.cycles <= 1.01 * free.cycles
    assert found.bytes == st.size_fifos(program, machine()).bytes


@pytest.mark.parametrize("changed", ["place", "compute"])
def test_a_file_has_what_else_was_changed(changed: str, tmp_path: Path) -> None:
    """A run with the file as a fix has the cycles that it states; as depths it is refused."""
    program, target = center(), machine()
    if changed == "place":
        base = st.prepare(program, target, place="row-major")
    else:
        base = st.prepare(program, target)
        base = base.changed(compute={"add#1": 0.01})
    sizes = st.size_fifos(base)
    sizes.save(tmp_path / "sizes.yaml")
    assert st.simulate(program, target, fix=tmp_path / "sizes.yaml").cycles == sizes.cycles[0]
    assert st.simulate(program, target).cycles != sizes.cycles[0]
    with pytest.raises(ArgError, match="expected depths alone"):
        st.simulate(program, target, fifo_depth=tmp_path / "sizes.yaml")
