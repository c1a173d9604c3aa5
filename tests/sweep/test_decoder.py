"""Decoder layers in a sweep: pairs of traces, variants, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.errors import SweepError
from stepsim.sweep import open_table, plan_sweep, run_sweep
from stepsim.trace_io import (
    ParquetStream,
    RequestTrace,
    replay,
    replay_rows,
    synthetic_routing,
    write_routing as write_tables,
)

MODEL = {
    "name": "tiny",
    "model_dim": 64,
    "experts": {"count": 6, "active": 2, "inner_dim": 64},
    "attention": {"heads": 4, "kv_heads": 2, "head_dim": 16},
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


@pytest.mark.slow
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
    parameters = [point.resolved().workload.columns() for point in plan_sweep(given).points]
    names = ("tile", "attention", "strategy", "expert_regions", "tile_inter")
    assert [[p[name] for name in names] for p in parameters] == [
        [tile, heads, "dynamic", 32, 48]
        for tile in ("8", "dynamic")
        for heads in ("qwen3-30b-a3b", "qwen3-30b-a3b-step")
    ]
    del given["grid"]["attention"]
    assert {str(p.values["attention"]) for p in plan_sweep(given).points} == {"qwen3-30b-a3b-step"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"lengths": None}, "lengths: missing; workload decoder needs files of cache lengths"),
        ({"traces": None}, "traces: missing; workload decoder needs files or synthetic"),
        ({"model": None}, "model: missing (model whose layer is built)"),
        ({"model": "mixtral"}, "did you mean 'mixtral-8x7b'?"),
        ({"model": {"model_dim": 64, "experts": 3}}, "experts: expected keys and values, found 3"),
        ({"parameters": {"variant": "dynamic"}}, "variant: the published figure has no tiny, only"),
        ({"parameters": {}}, "strategy: missing (how requests are assigned to regions)"),
        (
            {"parameters": {"strategy": "coarse"}},
            "parameters.strategy: expected one of interleaved, dynamic, found 'coarse'",
        ),
        (
            {"parameters": {"strategy": "dynamic", "tile_inter": 33}},
            "tile_inter: expected a divisor of the inner dimension 64 of tiny, found 33",
        ),
        (
            {"parameters": {"strategy": "interleaved", "max_length": 33, "tile_inter": 32}},
            "max_length: expected a multiple of the KV tile of 32",
        ),
        ({"pairs": "zip"}, "pairs: expected 'all', 'step', 'order' or null (which traces"),
    ],
)
def test_problems_are_reported(files: Path, changes: dict[str, Any], expected: str) -> None:
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
        "token for each request; select windows" in text
    )
    steps = {"files": [str(files / "steps.parquet")], "steps": [1, 3]}
    text = message(spec(files, lengths=steps))
    assert "pairs: routing.parquet layer 0 step 2 and 1 more have no lengths of their step" in text
    one = {"files": [str(files / "routing.parquet")], "layers": [0]}
    text = message(spec(files, traces=one, lengths=steps))
    assert "pairs: routing.parquet layer 0 step 2 has no lengths of its step; select" in text
    assert "lengths.windows: the number of tokens per window is missing" in message(
        spec(files, lengths={**steps, "windows": "all"})
    )
    text = message(spec(files, lengths={"synthetic": {"tokens": 8, "seed": 1}}))
    assert "lengths: cache lengths are read from files; synthetic and layers are for" in text
    text = message({**spec(files), "workload": "moe", "pairs": None})
    assert "lengths: applies only to workloads with two traces; remove the key" in text


def test_steps_of_lengths_that_cannot_be_read(files: Path) -> None:
    (files / "bad.parquet").write_bytes(b"PAR1 and no more")
    both = {"files": [str(files / "steps.parquet"), str(files / "bad.parquet")]}
    text = message(spec(files, lengths=both))
    assert "pairs: the steps of bad.parquet are not known: " in text
    assert "; correct the file, take it out of lengths, or pair with all or order" in text
    assert "has no steps" not in text


def test_the_routing_decides_which_steps_are_run(files: Path) -> None:
    """A sample of it goes with a whole replay, of which most is not used."""
    replayed = {"files": [str(files / "steps.parquet")]}
    routing = {"files": [str(files / "routing.parquet")], "sample": 2, "seed": 1}
    found = pairs(spec(files, traces=routing, lengths=replayed))
    assert len(found) == 2
    assert all(step == other for _, step, _, other, _ in found)


PARTS = [
    {"parts": "experts", "tile": 4, "tile_inter": 32},
    {"parts": "attention", "strategy": "dynamic"},
    {"parts": "qkv+output"},
    {"parts": "qkv+attention+experts", "tile": 4, "tile_inter": 32, "strategy": "dynamic"},
]


def of_parts(files: Path, *points: dict[str, Any], **changes: Any) -> dict[str, Any]:
    given = {"parameters": {"attention_regions": 2}, "grid": {}, "points": list(points)}
    if any("experts" in point["parts"] for point in points):
        given["parameters"] = {}
    return spec(files, **given | changes)


@pytest.mark.slow
def test_parts_read_their_traces(files: Path, tmp_path: Path) -> None:
    assert run_sweep(of_parts(files, *PARTS, batch=5), tmp_path / "out").failures == 0
    rows = open_table(tmp_path / "out").to_table().to_pylist()
    both = {("routing.parquet", "steps.parquet", 8)}
    expected = [
        {("routing.parquet", None, 8)}, {(None, "steps.parquet", 8)}, {(None, None, 5)}, both,
    ]  # fmt: skip
    for point, traces in zip(PARTS, expected, strict=True):
        own = [row for row in rows if row["parts"] == point["parts"]]
        assert {(row["trace"], row["lengths"], row["batch"]) for row in own} == traces
        for name, part in (("tile", "experts"), ("kv_tile", "attention"), ("max_load", "experts")):
            assert {row[name] is None for row in own} == {part not in point["parts"]}
    assert len({row["run"] for row in rows}) == len(rows) == 4 + 2 + 1 + 4


def test_the_number_of_requests_is_part_of_a_run(files: Path) -> None:
    def keys(**changes: Any) -> list[str]:
        given = of_parts(files, PARTS[2], traces=None, lengths=None, pairs=None, **changes)
        plan = plan_sweep(given)
        return [chunk.run_key(trace) for chunk in plan.chunks() for trace in chunk.traces]

    assert keys() == keys(batch=64) != keys(batch=5)


@pytest.mark.parametrize(
    ("point", "changes", "expected"),
    [
        (0, {"pairs": None}, "lengths: has no effect on experts, only on attention; leave it out"),
        (1, {"pairs": None}, "traces: has no effect on attention, only on experts; leave it out"),
        (1, {}, "pairs: no design point reads both traces and lengths; remove the key"),
        (3, {"batch": 5}, "batch: has no effect on these design points; remove the key"),
        (0, {"parameters": {"kv_tile": 32}}, "kv_tile: has no effect on experts, only on attent"),
        (2, {"grid": {"tile": [4, 8]}}, "tile: has no effect on qkv+output, only on experts"),
    ],
)
def test_what_parts_do_not_use_is_refused(
    files: Path, point: int, changes: dict[str, Any], expected: str
) -> None:
    given = of_parts(files, PARTS[point], **changes)
    if "grid" in changes:
        given |= {"points": [], "parameters": PARTS[point]}
    assert expected in message(given)


def test_a_model_without_variants(files: Path) -> None:
    text = message(spec(files, model="glm-4.5", parameters={"variant": "dynamic"}))
    assert "variant: the published figure has no glm-4.5, only mixtral-8x7b and qwen3" in text
