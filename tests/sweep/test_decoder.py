"""Decoder layers in a sweep: the numbers of `stepsim run decoder`, on pairs of traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.cli.main import main
from stepsim.errors import SweepError
from stepsim.sweep import open_table, plan_sweep, run_sweep
from stepsim.trace_io import ParquetStream, RequestTrace, replay, replay_rows, synthetic_routing
from stepsim.trace_io import write_routing as write_tables

MODEL = {
    "moe": {"name": "tiny", "experts": 6, "active": 2, "model_dim": 64, "inner_dim": 64},
    "attention": {"name": "tiny", "model_dim": 64, "heads": 4, "kv_heads": 2, "head_dim": 16},
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two layers in two steps of 8 tokens, a replay with 8 requests, and other lengths."""
    write_tables(
        [
            synthetic_routing(8, 6, 2, seed=3, layer=layer, step=step)
            for step in (1, 2)
            for layer in range(2)
        ],
        tmp_path / "routing.parquet",
    )
    generator = np.random.default_rng(0)
    requests = RequestTrace(generator.integers(1, 60, 16), generator.integers(4, 9, 16))
    with ParquetStream(tmp_path / "steps.parquet") as out:
        out.write(replay_rows(list(replay(requests, 8))))
    np.save(tmp_path / "kv.npy", generator.integers(1, 60, 24))
    return tmp_path


def spec(files: Path, **changes: Any) -> dict[str, Any]:
    return {
        "workload": "decoder",
        "model": MODEL,
        "traces": {"files": [str(files / "routing.parquet")]},
        "lengths": {"files": [str(files / "steps.parquet")], "steps": [1, 2]},
        "pairs": "step",
        "parameters": {"tile_inter": 32, "strategy": "dynamic"},
        "grid": {"tile": [4, "dynamic"]},
        **changes,
    }


def message(given: dict[str, Any]) -> str:
    with pytest.raises(SweepError) as caught:
        plan_sweep(given)
    return str(caught.value)


def pairs(given: dict[str, Any]) -> list[tuple[Any, ...]]:
    found = []
    for trace in plan_sweep(given).traces:
        assert trace.lengths is not None
        own, other = trace, trace.lengths
        found.append((own.layer, own.step, own.window, other.step, other.window))
    return found


def test_pairs(files: Path) -> None:
    assert pairs(spec(files)) == [
        (0, 1, None, 1, None), (1, 1, None, 1, None), (0, 2, None, 2, None), (1, 2, None, 2, None),
    ]  # fmt: skip
    first = {"files": [str(files / "routing.parquet")], "layers": [0]}
    order = spec(files, traces=first, pairs="order")
    assert pairs(order) == [(0, 1, None, 1, None), (0, 2, None, 2, None)]
    windows = {"files": [str(files / "kv.npy")], "tokens": 8, "windows": [0, 2]}
    every = spec(files, traces=first, lengths=windows, pairs="all")
    assert pairs(every) == [(0, s, None, None, w) for w in (0, 2) for s in (1, 2)]
    del every["pairs"]
    assert len(pairs(every)) == 4
    both = {"tokens": 4, "windows": "all"}
    halves = spec(files, traces={**first, **both}, lengths={**spec(files)["lengths"], **both})
    assert pairs(halves) == [(0, s, w, s, w) for s in (1, 2) for w in (0, 1)]


def test_rows_are_those_of_the_command_line(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    routing, kv = tmp_path / "mixtral.npy", tmp_path / "mixtral-kv.npy"
    np.save(routing, synthetic_routing(4, 8, 2, seed=1).experts)
    np.save(kv, np.array([5, 40, 0, 33]))
    given = {
        "workload": "decoder",
        "model": "mixtral-8x7b",
        "traces": {"files": [str(routing)]},
        "lengths": {"files": [str(kv)]},
        "grid": {"variant": ["memory-matched", "dynamic"]},
    }
    assert run_sweep(given, tmp_path / "out").failures == 0
    for row in open_table(tmp_path / "out").to_table().to_pylist():
        with pytest.raises(SystemExit):
            main([
                "run", "decoder", "--model", "mixtral-8x7b", "--routing", str(routing),
                "--kv-lengths", str(kv), "--variant", row["variant"], "--json",
            ])  # fmt: skip
        found = json.loads(capsys.readouterr().out)
        names = {
            "cycles": "cycles",
            "offchip_bytes": "offchip_bytes",
            "onchip_bytes": "onchip_bytes",
            "allocated_compute": "allocated_flops_per_cycle",
            "offchip_bytes": "offchip_bytes",
            "attention": "attention",
            "attention_regions": "attention_regions",
            "moe_bw": "moe_bw",
            "qkv_bw": "qkv_bw",
            "batch": "batch",
        }
        assert {key: row[key] for key in names} == {
            key: found[whose] for key, whose in names.items()
        }
        assert row["tile"] == str(found["tile"])
        assert row["trace_id"] == found["routing"]["identity"]
        assert row["lengths_id"] == found["kv_lengths"]["identity"]
        assert row["max_load"] == found["routing"]["max_load"]
        assert (row["lengths"], row["lengths_step"]) == ("mixtral-kv.npy", None)


def test_runs_share_the_program_of_their_lengths(files: Path, tmp_path: Path) -> None:
    given = spec(files, chunk=50)
    plan = plan_sweep(given)
    for chunk in plan.chunks():
        assert len({trace.lengths.identity for trace in chunk.traces if trace.lengths}) == 1
    assert run_sweep(plan, tmp_path / "out").failures == 0
    rows = open_table(tmp_path / "out").to_table().to_pylist()
    assert len({row["run"] for row in rows}) == 8
    assert {(row["step"], row["lengths_step"]) for row in rows} == {(1, 1), (2, 2)}
    programs = {(row["tile"], row["lengths_id"]): row["program_hash"] for row in rows}
    assert all(programs[row["tile"], row["lengths_id"]] == row["program_hash"] for row in rows)
    assert min(row["onchip_bytes"] for row in rows) > 0


def test_published_variants_choose_their_attention(files: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "r.npy", synthetic_routing(4, 128, 8, seed=1).experts)
    np.save(tmp_path / "k.npy", np.arange(4))
    given = spec(
        files,
        model="qwen3-30b-a3b",
        traces={"files": [str(tmp_path / "r.npy")]},
        lengths={"files": [str(tmp_path / "k.npy")]},
        pairs="all",
        parameters={"variant": "dynamic"},
        grid={"tile": [8, "dynamic"], "attention": ["qwen3-30b-a3b", "qwen3-30b-a3b-step"]},
    )
    parameters = [dict(point.parameters) for point in plan_sweep(given).points]
    names = ("tile", "attention", "strategy", "expert_regions", "tile_inter")
    assert [[p[name] for name in names] for p in parameters] == [
        [tile, heads, "dynamic", 32, 48]
        for tile in (8, "dynamic")
        for heads in ("qwen3-30b-a3b", "qwen3-30b-a3b-step")
    ]
    del given["grid"]["attention"]
    assert {p.parameters["attention"] for p in plan_sweep(given).points} == {"qwen3-30b-a3b-step"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"lengths": None}, "lengths: missing; workload decoder needs files of cache lengths"),
        ({"traces": None}, "traces: missing; workload decoder needs files or synthetic"),
        ({"model": None}, "model: missing; workload decoder knows deepseek-r1"),
        ({"model": "mixtral"}, "did you mean 'mixtral-8x7b'?"),
        ({"model": {"moe": MODEL["moe"]}}, "found keys moe; the shape of a decoder has the keys"),
        ({"model": {**MODEL, "moe": {"experts": 2}}}, "model.moe: missing 3 required"),
        ({"model": {**MODEL, "attention": 3}}, "model.attention: expected a mapping, found 3"),
        ({"parameters": {"variant": "dynamic"}}, "variant: is for models that are known by name"),
        ({"parameters": {}}, "strategy: missing; give tile and strategy, or a variant"),
        (
            {"parameters": {"strategy": "coarse"}},
            "strategy: expected 'interleaved', 'dynamic' or null",
        ),
        ({"parameters": {"strategy": "dynamic", "tile_inter": 33}}, "tile_inter a divisor of 64"),
        (
            {"parameters": {"strategy": "dynamic", "attention_regions": 3, "tile_inter": 32}},
            "attention_regions that divide the requests",
        ),
        ({"pairs": "zip"}, "pairs: expected 'all', 'step', 'order' or null (which traces"),
    ],
)
def test_problems_are_told(files: Path, changes: dict[str, Any], expected: str) -> None:
    assert expected in message(spec(files, **changes))


def test_traces_that_do_not_fit_each_other(files: Path) -> None:
    text = message(spec(files, pairs="order"))
    assert "order needs as many batches of lengths as of routing, found 2 and 4" in text
    lengths = {"files": [str(files / "kv.npy")]}
    text = message(spec(files, lengths=lengths))
    assert "pairs: kv.npy has no steps, only files of `stepsim trace replay` have" in text
    text = message(spec(files, lengths=lengths, pairs="all"))
    assert (
        "pairs: routing.parquet layer 0 step 1 has 8 tokens, kv.npy 24 requests, expected one "
        "token for each request; take windows" in text
    )
    steps = {"files": [str(files / "steps.parquet")], "steps": [1, 3]}
    text = message(spec(files, lengths=steps))
    assert "pairs: routing.parquet layer 0 step 2 and 1 more have no lengths of their step" in text
    one = {"files": [str(files / "routing.parquet")], "layers": [0]}
    text = message(spec(files, traces=one, lengths=steps))
    assert "pairs: routing.parquet layer 0 step 2 has no lengths of its step; select" in text
    assert "lengths.windows: of how many tokens is not known" in message(
        spec(files, lengths={**steps, "windows": "all"})
    )
    text = message(spec(files, lengths={"synthetic": {"tokens": 8, "seed": 1}}))
    assert "lengths: cache lengths are read from files; synthetic and layers are for" in text
    text = message({**spec(files), "workload": "moe", "model": MODEL["moe"], "pairs": None})
    assert "lengths: is for workload decoder; remove the key" in text


def test_steps_of_lengths_that_cannot_be_read(files: Path) -> None:
    (files / "bad.parquet").write_bytes(b"PAR1 and no more")
    both = {"files": [str(files / "steps.parquet"), str(files / "bad.parquet")]}
    text = message(spec(files, lengths=both))
    assert "pairs: the steps of bad.parquet are not known: " in text
    assert "; mend the file, take it out of lengths, or pair with all or order" in text
    assert "has no steps" not in text


def test_the_routing_decides_which_steps_are_run(files: Path) -> None:
    """A sample of it goes with a whole replay, of which most is not used."""
    replayed = {"files": [str(files / "steps.parquet")]}
    routing = {"files": [str(files / "routing.parquet")], "sample": 2, "seed": 1}
    found = pairs(spec(files, traces=routing, lengths=replayed))
    assert len(found) == 2
    assert all(step == other for _, step, _, other, _ in found)


def test_a_model_without_variants(files: Path) -> None:
    text = message(spec(files, model="glm-4.5", parameters={"variant": "dynamic"}))
    assert "variant: published_decoder_config: no point for model 'glm-4.5'" in text
