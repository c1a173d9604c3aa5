"""Services as targets of sweeps and searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import stepsim as st
from stepsim.errors import SweepError
from stepsim.results import SERVING
from stepsim.sweep import (
    best,
    compare_baseline,
    curves,
    design_costs,
    estimate_seconds,
    plan_sweep,
    read_failures,
    read_runs,
    run_sweep,
    tune,
)
from tests.cli.conftest import Cli

CHAT: dict[str, Any] = {
    "source": {"name": "lognormal", "count": 30, "prompt_median": 200, "output_median": 20},
    "rate": 4,
    "num_blocks": 400,
    "steps": "linear:8000000,40000,80",
    "slo": {"ttft": "200ms", "tpot": "10ms"},
}
SPEC: dict[str, Any] = {
    "service": CHAT,
    "grid": {"rate": [4, 40], "max_num_batched_tokens": [64, 512]},
    "replicates": {"seed": [0, 1, 2]},
}
_IN_ROWS = [name for name in SERVING if not name.startswith("estimate_")]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("services") / "out"
    summary = run_sweep(SPEC, out)
    assert (summary.runs, summary.simulated, summary.failures) == (12, 12, 0)
    return out


@pytest.mark.slow
def test_a_run_is_the_service_of_its_parameters(swept: Path) -> None:
    columns = ["rate", "max_num_batched_tokens", "seed", "workload", "replicate", "slo", *_IN_ROWS]
    for row in read_runs(swept, columns).to_pylist():
        names = ("rate", "max_num_batched_tokens", "seed")
        alone = st.serve(CHAT, **{name: row[name] for name in names})
        assert {name: row[name] for name in _IN_ROWS} == {
            name: alone.metrics[name] for name in _IN_ROWS
        }
        assert (row["workload"], row["replicate"]) == ("service", f"seed={row['seed']}")
        assert row["slo"] == "ttft=200ms,tpot=10ms,share=0.99"


@pytest.mark.slow
def test_a_file_of_a_service_is_relative_to_the_specification(swept: Path, tmp_path: Path) -> None:
    (tmp_path / "chat.yaml").write_text(yaml.safe_dump(CHAT, sort_keys=False), encoding="utf-8")
    spec = tmp_path / "sweep.yaml"
    named = {**SPEC, "service": "chat.yaml"}
    spec.write_text(yaml.safe_dump(named, sort_keys=False), encoding="utf-8")
    run_sweep(spec, tmp_path / "out")
    assert read_runs(tmp_path / "out", ["run", "goodput"]) == read_runs(swept, ["run", "goodput"])


@pytest.mark.slow
def test_a_sweep_of_services_goes_on_where_it_was_interrupted(swept: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def interrupt(progress: st.sweep.SweepProgress) -> None:
        if progress.done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(SPEC, out, progress=interrupt)
    summary = run_sweep(SPEC, out, resume=True)
    assert summary.complete
    assert 1 <= summary.computed <= 7
    for path in swept.glob("runs/*/part.parquet"):
        assert (out / path.relative_to(swept)).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_replicates_are_compared_in_pairs(swept: Path) -> None:
    found = compare_baseline(
        swept, metric="ttft_mean_ms", baseline={"max_num_batched_tokens": "64"}
    )
    rows = read_runs(swept, ["rate", "max_num_batched_tokens", "ttft_mean_ms"]).to_pylist()
    for row, rate in zip(found.rows, (4, 40), strict=True):
        ours, theirs = (
            np.array([
                one["ttft_mean_ms"]
                for one in rows
                if (one["rate"], one["max_num_batched_tokens"]) == (rate, budget)
            ])
            for budget in (512, 64)
        )  # fmt: skip
        logs = np.log(ours / theirs)
        half = 4.302652729911275 * logs.std(ddof=1) / np.sqrt(3)  # t of two degrees of freedom
        assert row.ratio == pytest.approx(np.exp(logs.mean()))
        assert row.low == pytest.approx(np.exp(logs.mean() - half))
        assert row.high == pytest.approx(np.exp(logs.mean() + half))
        assert row.is_clear is True


def test_curves_have_means_and_intervals_over_replicates(swept: Path) -> None:
    found = curves(swept, "rate", ["goodput", "p95_tpot_p99_ms"])
    assert (found.x, found.x_unit, found.by) == ("rate", "requests/s", ("max_num_batched_tokens",))
    assert [one.label for one in found.metrics["goodput"]] == [
        "max_num_batched_tokens=64", "max_num_batched_tokens=512",
    ]  # fmt: skip
    rows = read_runs(swept, ["rate", "max_num_batched_tokens", "goodput"]).to_pylist()
    for curve, budget in zip(found.metrics["goodput"], (64, 512), strict=True):
        assert [point.x for point in curve.points] == [4, 40]
        for point in curve.points:
            own = [
                row["goodput"]
                for row in rows
                if (row["rate"], row["max_num_batched_tokens"]) == (point.x, budget)
            ]
            half = 4.302652729911275 * np.std(own, ddof=1) / np.sqrt(3)
            assert point.y == pytest.approx(np.mean(own))
            assert (point.low, point.high) == pytest.approx(
                (np.mean(own) - half, np.mean(own) + half)
            )
    assert all(p.low is None for one in found.metrics["p95_tpot_p99_ms"] for p in one.points)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": []}, "have the same rate on one curve; they differ in max_num_batched_tokens"),
        ({"by": ["rate"]}, "rate, rate has a name twice"),
        ({"x": "steps"}, "expected a number to compare designs by"),
        ({"x": "ratte"}, "unknown name 'ratte'; did you mean 'rate'"),
        ({"y": ["goodpt"]}, "objective 'goodpt' is unknown"),
        ({"y": ["cycles"]}, "has no cycles"),
        ({"y": ["served_cycles"]}, "services have it whose steps are simulated"),
        ({"y": []}, "expected at least one metric"),
    ],
)
def test_wrong_curves_are_refused(swept: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(st.StepSimError, match=message):
        curves(swept, **{"x": "rate", "y": ["goodput"], **options})


@pytest.mark.slow
def test_curves_are_drawn_by_one_command(swept: Path, tmp_path: Path, cli: Cli) -> None:
    picture = tmp_path / "curves.svg"
    ran = cli(
        "sweep", "plot", swept, "--x", "rate", "--y", "goodput,ttft_p99_ms", "--out", picture,
        "--title", "chat",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    text = picture.read_text("utf-8")
    for shown in ("mean goodput [requests/s]", "max_num_batched_tokens=512", "chat", "mean ttft"):
        assert shown in text
    first = next(line for line in ran.out.splitlines() if line.split()[:2] == ["64", "4"])
    assert "±" in first


def test_the_page_of_a_sweep_has_the_metrics_of_services(
    swept: Path, tmp_path: Path, cli: Cli
) -> None:
    page = tmp_path / "page.html"
    assert cli("report", swept, "--out", page).code == 0
    text = page.read_text("utf-8")
    assert '"ttft_p99_ms"' in text
    assert '"onchip_bytes":' not in text


def test_a_goodput_of_zero_is_a_result(tmp_path: Path) -> None:
    spec = {"service": {**CHAT, "slo": "ttft=0.001ms"}, "grid": {"rate": [4, 40]}}
    run_sweep(spec, tmp_path)
    costs = design_costs(tmp_path, "tpot_p99_ms", "goodput")
    assert [one.y for one in costs] == [0, 0]
    assert [one.pareto_optimal for one in costs] == [True, False]


@pytest.mark.slow
def test_a_search_finds_the_best_service(tmp_path: Path) -> None:
    grid = {"max_num_batched_tokens": [64, 128, 256, 512], "max_num_seqs": [4, 8, 64]}
    options = {
        "objectives": ["ttft_p99_ms"], "constraints": ["good_share > 0"], "sampler": "grid",
        "trials": 12,
    }  # fmt: skip
    found = tune({"service": CHAT, "grid": grid, "search": options}, tmp_path)
    assert len(found.trials) == 12
    every = {
        (budget, seqs): st.serve(
            CHAT, max_num_batched_tokens=budget, max_num_seqs=seqs
        ).metrics["ttft_p99_ms"]
        for budget in grid["max_num_batched_tokens"]
        for seqs in grid["max_num_seqs"]
    }  # fmt: skip
    assert found.front[0].values["ttft_p99_ms"] == min(every.values())
    (design,) = {tuple(one.design.values()) for one in found.front[:1]}
    assert every[design] == min(every.values())


def test_requests_that_change_meanwhile_are_failures(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens", "2023-11-16 18:15:46.6805900,20,5"]
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    service = {"trace": str(trace), "num_blocks": 64, "steps": "linear:8000000"}
    plan = plan_sweep({"service": service, "grid": {"max_num_seqs": [2, 4]}})
    trace.write_text("\n".join([*lines[:1], lines[1].replace("20,5", "21,5")]) + "\n")
    summary = run_sweep(plan, tmp_path / "out")
    assert summary.errors == {"SweepError": 2}
    for text in read_failures(tmp_path / "out", ["message"])["message"].to_pylist():
        assert "the requests have changed since the sweep was planned" in text


def test_a_service_that_a_limit_stops_has_not_succeeded(tmp_path: Path) -> None:
    run_sweep({"service": CHAT, "grid": {"max_steps": [3]}}, tmp_path)
    (row,) = read_failures(tmp_path, ["error", "message"]).to_pylist()
    assert (row["error"], "give a larger max_steps" in row["message"]) == ("limit", True)
    assert read_runs(tmp_path, ["served_steps"]).num_rows == 0
    assert read_runs(tmp_path, ["served_steps"], ok_only=False).to_pydict() == {"served_steps": [3]}


_WRONG: list[tuple[dict[str, Any], str]] = [
    ({"grid": {"max_num_batched_token": [1]}}, "did you mean 'max_num_batched_tokens'"),
    ({"workload": "moe"}, "workload: 'moe' is given beside a service; keep one"),
    ({"units": True}, "units: has no effect on a service"),
    ({"traces": {"files": ["x"]}}, "traces: has no effect on a service"),
    ({"limits": {"max_steps": 3}}, "has the parameter max_steps"),
    ({"grid": {"rate": [0]}}, r"rate: expected a number above 0, found 0"),
    ({"grid": {"machine.hbm.channels": [8]}}, "has no effect without a machine"),
    ({"machine": "sda-1024", "grid": {"machine.hbm.chanels": [8]}}, "did you mean 'hbm.channels'"),
    ({"service": {**CHAT, "tille": 3}}, "service.tille: unknown; did you mean 'tile'"),
    ({"service": {**CHAT, "machine": "sda"}}, "service.machine: unknown machine"),
    ({"service": "none.yaml"}, "none.yaml: cannot be read"),
    ({"service": [1]}, "service: expected a text, a mapping or null"),
    ({"parameters": {"overrides": {}}}, r"overrides: is for files of services; write machine"),
    ({"parameters": {"users": 3}}, "parameters.users: has no effect"),
    ({"metrics": ["cycles"]}, "metrics: services have no cycles"),
    ({"service": {**CHAT, "slo": None}, "metrics": ["goodput"]}, "no service states slo"),
    ({"model": "qwen3-30b-a3b", "service": {**CHAT, "model": "x"}}, "model: given twice"),
    ({"grid": {"rate": [4, 4.0]}}, "is the same as design point 0"),
    ({"grid": {"fifo_depth": ["auto"]}}, "fifo_depth: expected a whole number"),
]


@pytest.mark.parametrize(("change", "message"), _WRONG)
def test_wrong_specifications_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SweepError, match=message):
        plan_sweep({"service": CHAT, **change})


def test_measures_of_services_need_services() -> None:
    swiglu = {"workload": "swiglu", "parameters": {"batch": 8, "hidden": 16, "intermediate": 32}}
    with pytest.raises(SweepError, match="metrics: only services have goodput"):
        plan_sweep({**swiglu, "grid": {"tile": [4]}, "metrics": ["goodput"]})


@pytest.mark.parametrize(
    ("change", "search", "message"),
    [
        ({"slo": None}, {"objectives": ["goodput"]}, r"objectives\[0\]: goodput needs limits"),
        (
            {"slo": None},
            {"objectives": ["ttft_p99_ms"], "constraints": ["good_share > 0.5"]},
            "search.constraints: good_share needs limits",
        ),
        ({}, {"objectives": ["cycles"]}, "cycles is not among those of services"),
        ({}, {"objectives": ["served_steps"]}, "unknown which values of served_steps are better"),
    ],
)
def test_wrong_searches_are_refused(
    change: dict[str, Any], search: dict[str, Any], message: str, tmp_path: Path
) -> None:
    spec = {
        "service": {**CHAT, **change},
        "grid": {"rate": [4]},
        "search": {"sampler": "random", "trials": 1, **search},
    }
    with pytest.raises(SweepError, match=message):
        tune(spec, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_time_of_services_is_not_guessed() -> None:
    with pytest.raises(SweepError, match="known only from whole runs"):
        estimate_seconds(plan_sweep({"service": CHAT}))


@pytest.mark.slow
def test_metrics_of_programs_are_refused_on_services(swept: Path) -> None:
    for metric in ("cycles", "energy_joules", "cycles_p95"):
        message = f"no {metric}; only runs of programs have it; .*such as tpot_p99_ms or goodput"
        with pytest.raises(SweepError, match=message):
            design_costs(swept, metric, "goodput")
        with pytest.raises(SweepError, match=message):
            best(swept, metric)


def test_metrics_that_services_lack_have_their_causes(tmp_path: Path) -> None:
    plain = {name: value for name, value in CHAT.items() if name != "slo"}
    run_sweep({"service": plain}, tmp_path / "every")
    with pytest.raises(SweepError, match="has goodput; services have it if they state limits as"):
        design_costs(tmp_path / "every", "goodput", "tpot_p99_ms")
    run_sweep({"service": plain, "metrics": ["tpot_p99_ms"]}, tmp_path / "few")
    with pytest.raises(SweepError, match="no ttft_p99_ms; add them to the key 'metrics'"):
        design_costs(tmp_path / "few", "ttft_p99_ms", "tpot_p99_ms")


@pytest.mark.long
def test_services_are_the_same_in_several_processes(swept: Path, tmp_path: Path) -> None:
    run_sweep(SPEC, tmp_path, jobs=2)
    for path in swept.glob("runs/*/part.parquet"):
        assert (tmp_path / path.relative_to(swept)).read_bytes() == path.read_bytes()


@pytest.mark.long
def test_a_mapping_is_an_axis(tmp_path: Path) -> None:
    service = {
        "source": "fixed:count=4,prompt_tokens=24,output_tokens=3",
        "arrivals": "at-once",
        "num_blocks": 64,
        "machine": "sda-1024",
        "overrides": {"clock_ghz": 1},
        "model": "qwen3-30b-a3b",
    }
    grid = {"tile": [16, "dynamic"], "machine.hbm.channels": [16, 32]}
    run_sweep({"service": service, "grid": grid}, tmp_path)
    rows = read_runs(tmp_path, ["tile", "served_cycles", "served_offchip_bytes", "machine_json"])
    found = rows.to_pydict()
    assert found["tile"] == ["16", "16", "dynamic", "dynamic"]
    slow, fast = found["served_cycles"][2:]
    assert slow > fast
    assert all('"clock_ghz": 1.0' in text for text in found["machine_json"])
    assert all(moved > 0 for moved in found["served_offchip_bytes"])
