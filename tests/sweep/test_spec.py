"""A specification is checked as a whole before anything runs, and says what is wrong."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from stepsim.errors import SweepError
from stepsim.machine import load_machine
from stepsim.sweep import SweepSpec, estimate_seconds, load_spec, plan_sweep
from stepsim.sweep.planning.plan import Chunk
from stepsim.sweep.running import time_left
from tests.sweep.support import tiny


def message(spec: Any) -> str:
    with pytest.raises(SweepError) as caught:
        plan_sweep(spec)
    return str(caught.value)


def drawn(tokens: int = 12, **changes: int) -> dict[str, Any]:
    return {"synthetic": {"tokens": tokens, "layers": 2, "steps": 3, "seed": 1, **changes}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"chunks": 3}, "chunks: unknown key 'chunks'; did you mean 'chunk'?"),
        ({"workload": "mou"}, "workload: unknown workload 'mou'; did you mean 'moe'?"),
        ({"metrics": ["cycle"]}, "found the text 'cycle'; did you mean 'cycles'?"),
        ({"chunk": 0}, "chunk: expected an integer from 1 to 2**40 (runs that are "),
        ({"traces": {"synthetic": {"tokens": 4}}}, "traces.synthetic.seed: missing"),
        ({"traces": None}, "traces: missing"),
        (
            {"traces": drawn() | {"seed": 7}},
            "traces.seed: is the seed of the sample, which",
        ),
        (
            {"traces": drawn() | {"layers": [0, 1, 0]}},
            "traces.layers: expected each number once, found 0 more than once",
        ),
        (
            {"traces": drawn() | {"steps": [2, 2]}},
            "traces.steps: expected each number once, found 2 more than once",
        ),
        ({"traces": {}}, "expected either files or synthetic, found neither"),
        ({"model": "qwen3-30b-a3"}, "did you mean 'qwen3-30b-a3b'?"),
        ({"model": None}, "and 3 more: model: missing (model whose layer is built)"),
        ({"model": {"experts": 2, "activ": 1}}, "unknown key 'activ'; known are name, model_dim"),
        ({"grid": {"tyle": [1]}}, "moe has no such parameter; did you mean 'tile'?"),
        (
            {"grid": {"hbm.channels": [1]}},
            "; write machine.hbm.channels for the key",
        ),
        ({"grid": {"tile": [4, 4]}}, "grid.tile: holds a value twice"),
        ({"grid": {"tile": []}}, "grid.tile: is empty"),
        ({"grid": {}}, "tile: missing (rows per tile); expected a whole"),
        ({"grid": {"tile": [0]}}, "design point 0 (tile=0): tile: "),
        (
            {"grid": {"tile": [4], "fifo_depth": [2, "depths.yaml"]}},
            "found 'depths.yaml'; design points have one depth for all FIFOs, or auto, which finds",
        ),
        (
            {"grid": {"tile": [4]}, "parameters": {"fifo_depth": "automatic"}},
            "parameters.fifo_depth: expected a whole number from 1, found 'automatic'",
        ),
        (
            {"grid": {"tile": [4], "regions": [4]}},
            "regions: expected a divisor of the 6 experts of",
        ),
        (
            {"grid": {"tile": [4], "tile_inter": [33]}},
            "tile_inter: expected a divisor of the inner dim",
        ),
        ({"grid": {"tile": [4], "machine.hbm.chanels": [4]}}, "did you mean 'hbm.channels'?"),
        ({"machine": "sda-124"}, "sda-1024"),
        (
            {"grid": {"tile": [4], "machine": [None]}},
            "(tile=4, machine=None): machine: expected a name or a file, found None; name a",
        ),
        ({"points": [{"tile": 2, "machine.hbm.channels": 8}]}, "design points 0 and 4 are the"),
        (
            {"grid": {}, "points": [{"tile": 4}, {"tile": 4, "fifo_depth": 2}]},
            "design point 1 (tile=4, fifo_depth=2): is the same as design point 0 (tile=4) once "
            "defaults are filled in; remove one of them",
        ),
        (
            {"grid": {"tile": [4], "machine.hbm.channels": [32]}, "points": [{"tile": 4}]},
            "design point 1 (tile=4): is the same as design point 0 (tile=4, machine.hbm",
        ),
    ],
)
def test_problems_name_key_finding_and_remedy(changes: dict[str, Any], expected: str) -> None:
    assert expected in message(tiny(**changes))


def test_all_problems_are_listed_at_once_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text("workload: moe\nmodel: mixtral-8x7b\nnmae: x\nchunk: none\n")
    text = message(path)
    assert "4 problems" in text
    assert "traces: missing; workload moe needs files or synthetic ones" in text
    assert "design point 0: tile: missing (rows per tile); " in text
    assert "line 3, nmae: unknown key 'nmae'; did you mean 'name'?" in text
    assert "line 4, chunk: expected an integer" in text
    many = message(tiny(grid={"tile": [0, -1, 4]}))
    assert "2 problems\n  design point 0 (tile=0): tile: " in many
    assert "design point 1 (tile=-1)" in many


def test_problems_of_all_stages_are_listed_at_once(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.array([[0, 1], [2, 5], [3, 4]]))
    path = tmp_path / "sweep.yaml"
    text = """\
        workload: moe
        chunk: none
        model: {name: tiny, model_dim: 64, experts: {count: 6, active: 2, inner_dim: 64}}
        traces:
          files: [absent.npy, t.npy, gone.npy]
        machine: sda-9999
        parameters: {tile_inter: 32, compute_bw: -1, foo: 3}
        grid:
          tile: [0, big, 2, 2]
          machine.hbm.chanels: [16, 32]
    """
    path.write_text(textwrap.dedent(text))
    lines = message(path).splitlines()
    starts = [
        f"sweep {path}: 10 problems",
        "  line 2, chunk: expected an integer from 1 to",
        "  line 9, grid.tile: holds a value twice",
        "  line 10, grid.machine.hbm.chanels: machine override: unknown key",
        "  line 6, machine: unknown machine 'sda-9999'",
        "  line 7, parameters.compute_bw: expected a whole number from 1, found -1",
        "  line 7, parameters.foo: moe has no such parameter",
        f"  line 5, traces.files[0]: {tmp_path / 'absent.npy'}: ",
        f"  line 5, traces.files[2]: {tmp_path / 'gone.npy'}: ",
        "  line 9, design point 0 (tile=0, machine.hbm.chanels=16) and 1 more: tile: ",
        "  line 9, design point 2 (tile=big, machine.hbm.chanels=16) and 1 more: tile: ",
    ]
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)
    path.write_text(path.read_text().replace("absent.npy, t.npy, gone.npy", "t.npy"))
    path.write_text(path.read_text().replace("  files:", "  layers: [0, 4]\n  files:"))
    assert "line 5, traces.layers: no source holds layer 4" in message(path)


def test_a_model_that_is_not_known_hides_no_other_problems() -> None:
    text = message(tiny(model="tini", machine="sda-1", grid={"tile": [0, 2]}))
    assert "sweep: 3 problems" in text
    assert "model: unknown model 'tini'" in text
    assert "machine: unknown machine 'sda-1'" in text
    assert "design point 0 (tile=0): tile: " in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "grdi: {tile: [0], tyle: [1]}",
            ["line 1, grdi: unknown key", "line 1, grid.tyle: moe has no", "tile: "],
        ),
        ("gridd: 3", ["unknown key 'gridd'"]),
        ("grid: 3", ["grid: expected"]),
        ("model: 3", ["model: expected"]),
        ("wrokload: swiglu", ["unknown key 'wrokload'", "tyle: moe has no", "unknown model"]),
    ],
)
def test_a_wrong_key_hides_nothing_that_can_be_reported(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    path = tmp_path / "sweep.yaml"
    rest = {"workload: moe", "machine: sda-1", "traces: {files: [absent.npy]}", "model: tiny"}
    if text.startswith("wrok"):
        rest.remove("workload: moe")
        text = text.replace("swiglu", "moe\ngrid: {tyle: [1]}")
    path.write_text("\n".join([text, *sorted(r for r in rest if text[:5] != r[:5])]))
    found = message(path)
    for part in ["unknown machine 'sda-1'", "absent.npy: ", *expected]:
        assert part in found


def test_an_unknown_workload_hides_nothing_that_can_be_reported() -> None:
    found = message(tiny(workload="mou", machine="sda-1", grid={"tile": []}))
    assert "sweep: 3 problems\n  workload: unknown workload 'mou'" in found
    assert "machine: unknown machine 'sda-1'" in found
    assert "grid.tile: is empty" in found


def test_both_halves_of_a_decoder_are_checked() -> None:
    text = message({"workload": "decoder", "model": "qwen3-30b-a3b", "parameters": {"tile": 8}})
    assert "traces: missing" in text
    assert "lengths: missing" in text
    assert "design point 0: strategy: missing" in text


def test_files_that_are_no_specification(tmp_path: Path) -> None:
    assert "cannot be read" in message(tmp_path / "absent.yaml")
    path = tmp_path / "sweep.yaml"
    path.write_text("- a\n")
    assert "expected a mapping with the key 'workload', found a list" in message(path)
    path.write_text("a: 1\na: 2\n")
    assert "key 'a' is given twice" in message(path)


def test_selection_of_traces(tmp_path: Path) -> None:
    drawn = {"tokens": 12, "layers": 3, "steps": 4, "seed": 1}

    def labels(**selection: Any) -> list[tuple[int | None, int | None]]:
        plan = plan_sweep(tiny(traces={"synthetic": drawn, **selection}))
        return [(trace.layer, trace.step) for trace in plan.traces]

    assert len(labels()) == 12
    assert labels(layers=[2], steps=[0, 3]) == [(2, 0), (2, 3)]
    sample = labels(sample=5, seed=3)
    assert sample == labels(sample=5, seed=3) == sorted(sample)
    assert len(set(sample)) == 5
    assert sample != labels(sample=5, seed=4)
    with pytest.raises(SweepError, match=r"the sources hold layers 0\.\.2 and steps 0\.\.3"):
        labels(layers=[3])
    with pytest.raises(SweepError, match="13 traces requested, but only 12 are selected"):
        labels(sample=13)


def test_trace_files_are_relative_to_the_specification(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.array([[0, 1], [2, 5], [3, 4]]))
    spec = tiny(traces={"files": ["t.npy"]}, grid={"tile": [2]})
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(spec))
    (trace,) = plan_sweep(path).traces
    assert (trace.source, trace.rows) == ("t.npy", 3)
    with pytest.raises(SweepError, match=r"traces.files\[0\]: t.npy: "):
        plan_sweep(spec)


def test_values_of_python_are_taken(tmp_path: Path) -> None:
    """NumPy counts, arrays, ranges and paths say the same as plain values."""
    np.save(tmp_path / "t.npy", np.arange(24).reshape(4, 3, 2) % 6)
    plain = tiny(
        traces={"files": [str(tmp_path / "t.npy")], "layers": [0, 2], "tokens": 2, "windows": [0]},
        grid={"tile": [1, 2], "machine.hbm.channels": [8, 16]},
        chunk=3,
    )
    experts = {name: np.int64(v) for name, v in plain["model"]["experts"].items()}
    model = {"name": "tiny", "model_dim": np.int32(64), "experts": experts}
    files = {"files": (tmp_path / "t.npy",), "layers": range(0, 3, 2), "tokens": np.int32(2)}
    python = tiny(
        model=model,
        traces={**files, "windows": np.array([0])},
        grid={"tile": np.array([1, 2]), "machine.hbm.channels": (np.uint8(8), 16)},
        parameters={"tile_inter": np.int64(32)},
        machine=Path("sda-1024"),
        chunk=np.int64(3),
    )
    assert load_spec(python) == SweepSpec(**python) == load_spec(plain)
    assert plan_sweep(python).digest() == plan_sweep(plain).digest()
    assert ", found 2.5" in message(tiny(chunk=np.float64(2.5)))


def test_keys_that_are_no_text() -> None:
    assert "[1]: keys should be strings, found 1" in message({**tiny(), 1: "x"})


def test_values_that_hold_themselves(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text("workload: moe\nmodel: &a {x: *a}\n")
    assert message(path) == (
        f"sweep {path}:2:8: a value holds itself; write out what is meant, without the alias"
    )


def test_numbers_no_run_could_count() -> None:
    """They are reported before the first run, and no memory is spent on them."""
    most = "expected a whole number from 1 to 2**40, found 1000"
    huge = 10**30
    text = message(tiny(grid={"tile": [2]}, parameters={"compute_bw": huge, "fifo_depth": huge}))
    assert text.count(most) == 2
    assert "2**40, or 'dynamic', found 1000" in message(tiny(grid={"tile": [huge]}))
    traces = {"synthetic": {"tokens": 8, "seed": 0}, "tokens": 4}
    assert "makes windows 0..1 of 4, but window" in message(
        tiny(traces={**traces, "windows": 10**12})
    )


def test_wrong_values_of_axes_and_points_have_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    text = yaml.safe_dump(tiny(), sort_keys=False).replace("- dynamic", "- dynamik\n  - 0")
    path.write_text(
        text.replace("- 8\n", "- 8\n  - -3\n") + "points:\n- {tile: x}\n- tile_inter: y\n"
    )
    lines = path.read_text().splitlines()

    def line(found: str) -> int:
        return next(number for number, text in enumerate(lines, 1) if text.strip() == found)

    found = message(path)
    axis = "(tile=dynamik, machine.hbm.channels=8) and 2 more: tile: expected a whole number"
    assert f"  line {line('- dynamik')}, design point 3 {axis} from 1, or 'dynamic'" in found
    assert f"  line {line('- 0')}, design point 6 (tile=0, machine.hbm.channels=8) and 2" in found
    assert f"  line {line('- -3')}, design point 1 (tile=2, machine.hbm.channels=-3) and 2" in found
    assert f"  line {line('- {tile: x}')}, design point 9 (tile=x): tile: expected" in found
    assert f"  line {line('- tile_inter: y')}, design point 10 (tile_inter=y): tile_int" in found


def test_the_value_of_a_misspelled_key_is_checked_too(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    spec = tiny(limit={"max_cycles": 0}) | {"chunks": 0, "metric": ["cycles"], "units": 3}
    del spec["chunk"]
    path.write_text(yaml.safe_dump(spec))
    lines = path.read_text().splitlines()
    found = message(path)
    assert found.startswith(f"sweep {path}: 6 problems\n")
    assert f"line {lines.index('chunks: 0') + 1}, chunks: unknown key" in found
    assert f"line {lines.index('chunks: 0') + 1}, chunk: expected an integer from 1" in found
    cycles = lines.index("  max_cycles: 0") + 1
    assert f"line {cycles}, limits.max_cycles: expected an integer from 1 to 2**40" in found
    assert "metric: unknown key" in found
    assert found.count("units: expected true or false") == 1


MANY = range(1, 10**5 + 1)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"grid": {"tile": MANY, "tile_inter": MANY}}, "grid: 10,000,000,000 design points"),
        ({"grid": {"tile": range(10**12)}}, "grid.tile: expected a list .* 1,000,000,000,000 val"),
        ({"grid": {"tile": range(2**100, 0, -(2**20))}}, r"1,208,925,819,614,629,174,706,176 val"),
        ({"grid": {"tile": np.zeros(10**6 + 1, np.int8)}}, "grid.tile: .* 1,000,001 values, more"),
        ({"traces": drawn(layers=2**40)}, "traces.synthetic: 3,298,534,883,328 tables, expected"),
        ({"traces": drawn(layers=10**5, steps=10**5)}, "10,000,000,000 tables, expected at most"),
        ({"traces": drawn(tokens=2**40)}, r"traces.synthetic.tokens: .* 2 for each of 1,099,511"),
        ({"traces": drawn(10**8, layers=10**3)}, "traces.synthetic: 600,000,000,000 choices"),
        ({"traces": drawn() | {"sample": 10**9}}, "traces.sample: 1000000000 traces requested"),
        ({"traces": drawn(10**6) | {"windows": "all", "tokens": 1}}, "6,000,000 traces are sel"),
    ],
)
def test_absurd_sizes_are_refused_at_once(changes: dict[str, Any], expected: str) -> None:
    assert re.search(expected, message(tiny(**changes)))


@pytest.mark.parametrize(
    "given",
    [
        {"from": 1.0e-300, "to": 1.0e300, "factor": 10},
        {"from": -1.0e308, "to": 1.0e308, "step": 1},
        {"from": 0, "to": 1, "step": 1e-320},
        {"from": 1, "to": 10**400},
        {"from": 1, "to": 10**5000},
        {"from": 10**400, "to": 10**401, "factor": 1.5},
    ],
)
def test_ranges_beyond_the_numbers_of_floats_are_refused(given: dict[str, Any]) -> None:
    text = message(tiny(grid={"tile": given}))
    assert "grid.tile: expected at most 10,000 values, and from and to whose ratio" in text


def test_runs_and_pairs_are_counted_before_they_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("stepsim.sweep.planning.plan.MOST_RUNS", 23)
    monkeypatch.setattr("stepsim.sweep.planning.plan.fit_of", None)
    assert "grid: 24 runs, expected at most 23; divide it" in message(tiny())
    monkeypatch.setattr("stepsim.sweep.spec.pairs.MOST_TRACES", 1)
    np.save(tmp_path / "lengths.npy", np.ones(24, dtype=np.int64))
    lengths = {"files": [str(tmp_path / "lengths.npy")], "tokens": 12, "windows": "all"}
    found = message(tiny(workload="decoder", lengths=lengths, grid={}))
    assert "pairs: 12 pairs of traces, expected at most 1; pair by step" in found


def test_a_few_of_many_synthetic_layers_are_drawn() -> None:
    few = drawn(layers=2**30) | {"layers": [2**30 - 1, 7]}
    assert [trace.layer for trace in plan_sweep(tiny(traces=few)).traces[::3]] == [7, 2**30 - 1]


def test_changes_of_a_machine_that_is_not_known_are_checked_by_name() -> None:
    text = message(tiny(machine=["nope"], grid={"tile": [2]}, parameters={"machine.hbm.modl": "x"}))
    assert "unknown key 'hbm.modl'" in text
    assert "sda-1024" not in text


def test_machine_files_are_relative_to_the_specification(tmp_path: Path) -> None:
    folder = tmp_path / "machines"
    folder.mkdir()
    for channels in (4, 8, 12, 16):
        machine = load_machine("sda-1024", {"hbm.channels": channels}).to_dict()
        (folder / f"m{channels}.yaml").write_text(yaml.safe_dump(machine))
    spec = tiny(
        machine="machines/m4.yaml",
        grid={"tile": [2], "machine": ["machines/m8.yaml", "sda-1024"]},
        points=[{"tile": 4, "machine": str(folder / "m12.yaml")}, {"tile": 6}],
    )

    def points(**changes: Any) -> list[tuple[int, str]]:
        path = tmp_path / "sweep.yaml"
        path.write_text(yaml.safe_dump({**spec, **changes}, sort_keys=False))
        return [(p.machine.hbm.channels, p.label) for p in plan_sweep(path).points]

    # Where the files lie is no part of the labels.
    assert points() == [
        (8, "0000-tile-2_machine-m8.yaml"), (32, "0001-tile-2_machine-sda-1024"),
        (12, "0002-tile-4_machine-m12.yaml"), (4, "0003-tile-6"),
    ]  # fmt: skip
    common = {**spec["parameters"], "machine": "machines/m16.yaml"}
    assert points(parameters=common, grid={}, points=[{"tile": 6}]) == [(16, "0000-tile-6")]


def test_design_points_are_grid_then_list() -> None:
    spec = load_spec(tiny(points=[{"tile": 3}]))
    assert isinstance(spec, SweepSpec)
    plan = plan_sweep(spec)
    assert [p.label for p in plan.points] == [
        "0000-tile-2_machine.hbm.channels-8",
        "0001-tile-2_machine.hbm.channels-32",
        "0002-tile-dynamic_machine.hbm.channels-8",
        "0003-tile-dynamic_machine.hbm.channels-32",
        "0004-tile-3",
    ]
    assert plan.points[0].machine.hbm.channels == 8
    assert plan.points[4].machine.hbm.channels == 32
    assert plan.runs == 30


def test_chunks_hold_every_run_once() -> None:
    plan = plan_sweep(tiny())
    chunks = list(plan.chunks())
    keys = [chunk.run_key(trace) for chunk in chunks for trace in chunk.traces]
    assert len(set(keys)) == len(keys) == plan.runs == 24
    assert [len(chunk.traces) for chunk in chunks] == [4, 2] * 4


def test_estimates_count_what_workers_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = set()

    def execute(chunk: Chunk) -> SimpleNamespace:
        assert len(chunk.traces) == 1
        seconds = 1.0 if chunk.key in prepared else 3.0
        prepared.symmetric_difference_update({chunk.key})
        return SimpleNamespace(timing={"seconds": seconds})

    monkeypatch.setattr(time_left, "execute_chunk", execute)
    plan = plan_sweep(tiny())
    # 24 runs of a second; four programs, each in two chunks, of which every worker has one.
    assert estimate_seconds(plan, 1) == 4 * 2 + 24
    assert estimate_seconds(plan, 2) == (4 * 2 * 2 + 24) / 2
    assert estimate_seconds(plan, 8) == (4 * 2 * 2 + 24) / 8
    with pytest.raises(SweepError, match="jobs is 0; expected at least 1"):
        estimate_seconds(plan, 0)
    for name in "abc":
        np.save(tmp_path / f"{name}.npy", np.array([3, 40, 12, 9]) + ord(name))
    files = {"files": [str(tmp_path / f"{name}.npy") for name in "abc"]}
    attention = {"workload": "attention", "model": "qwen3-30b-a3b-step", "traces": files}
    plan = plan_sweep({**attention, "parameters": {"regions": 2}})
    # One chunk, which one worker has.
    assert estimate_seconds(plan, 2) == 3 * (2 + 1)


def test_other_workloads(tmp_path: Path) -> None:
    np.save(tmp_path / "kv.npy", np.array([3, 40, 12, 9]))
    files = {"files": [str(tmp_path / "kv.npy")]}
    attention = {"workload": "attention", "model": "qwen3-30b-a3b-step", "traces": files}
    plan = plan_sweep({**attention, "grid": {"strategy": ["coarse", "dynamic"], "regions": [2]}})
    assert plan.runs == 2
    assert "(max_length=32): max_length: expected a multiple of the KV tile of 32" in message(
        {**attention, "grid": {"max_length": [32]}}
    )
    assert "for routing" in message({**attention, "traces": {**files, "layers": [1]}})
    assert "traces.files: expected at least one file" in message({**attention, "traces": {}})
    swiglu = {"batch": 8, "hidden": 16, "intermediate": 32, "tile_inter": 8}
    spec = {"workload": "swiglu", "parameters": swiglu, "grid": {"tile": [4, 8]}}
    assert plan_sweep(spec).runs == 2
    assert "tile: expected a divisor of the batch of 8, found 3" in message(
        {**spec, "grid": {"tile": [3]}}
    )
    assert "depends on no data" in message({**spec, "traces": files})
