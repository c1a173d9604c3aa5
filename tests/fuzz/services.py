"""Services with drawn parameters: requests, arrivals, schedulers, pools, engines and step times.

What is served obeys the laws of every service: tokens, blocks and time are conserved, the same
parameters give the same results, and latencies add up.
"""

from __future__ import annotations

import json
import math
import random
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from stepsim.serving import ServeResult, serve, why_served
from tests.fuzz.reading import outcome

__all__ = ["one"]

_SCHEDULERS = ("vllm", "vllm", "vllm", "static", "orca", "sarathi")
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "policy": ("fcfs", "priority"),
    "max_num_batched_tokens": (1, 7, 64, 1000),
    "max_num_seqs": (1, 2, 5, 64),
    "max_num_active_seqs": (1, 3),
    "block_size": (1, 4, 16),
    "max_model_len": (30, 200),
    "enable_chunked_prefill": (False, True),
    "enable_prefix_caching": (False, True),
    "long_prefill_token_threshold": (3, 20),
    "long_prefill_token_threshold_adaptive": (True,),
    "scheduler_reserve_full_isl": (False, True),
    "watermark": (0.0, 0.05),
    "prefill_schedule_interval": (1, 3),
    "pool": ("vllm", "recorded"),
}
_WRONG: dict[str, tuple[Any, ...]] = {
    "rate": (0, -1.0, math.nan, "fast"),
    "slo": ("ttft=1", "ttft=0s", "tpot=1h", "share=0.5"),
    "steps": ("linear", "linear:1", "linear:-1,0,0", "linear:1,2,x", "quadratic:1"),
    "num_blocks": (0, 1, -3, 2.5),
    "replicas": (0, 2.0, 10**9),
    "host": (5, "5", "-1ms", "1 day"),
    "scheduler": ("", "vlm", None),
    "tile": (8,),
    "seed": (-1, 2**32, 0.5),
}


def one(rng: random.Random) -> str:
    """Serve, and check the laws."""
    with tempfile.TemporaryDirectory() as folder:
        spec = _spec(rng, Path(folder))
        found: list[ServeResult] = []
        word = outcome(lambda: found.append(serve(spec)), "service", repr(spec).encode())
        for result in found:
            _check(result, spec)
        return word


def _spec(rng: random.Random, folder: Path) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "source": _source(rng, folder),
        "steps": rng.choice(["linear:1000,10,1", "linear:0,1,0", "linear:8000000,40000,80"]),
        "num_blocks": rng.choice([20, 40, 100, 3000]),
        "seed": rng.randrange(9),
        "scheduler": rng.choice(_SCHEDULERS),
    }
    spec |= _arrivals(rng) | _engines(rng)
    # Others have few of these settings.
    most = 5 if spec["scheduler"] == "vllm" else 2
    few = rng.sample(sorted(_SETTINGS), rng.randrange(most))
    spec |= {name: rng.choice(_SETTINGS[name]) for name in few}
    if rng.random() < 0.3:
        spec["host"] = rng.choice(["0s", "7ns", "1ms"])
    if rng.random() < 0.3:
        spec["slo"] = rng.choice(["ttft=1s", "ttft=1us,tpot=50ns,share=0.5", "e2el=3ms"])
    if rng.random() < 0.15:
        name = rng.choice(sorted(_WRONG))
        spec[name] = rng.choice(_WRONG[name])
    return spec


def _arrivals(rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(["poisson", "gamma", "even", "at-once", "users", None])
    given: dict[str, Any] = {} if kind is None else {"arrivals": kind}
    if kind in ("poisson", "gamma", "even"):
        given["rate"] = rng.choice([0.5, 20.0, 3000.0, 1e6])
    if kind == "gamma":
        given["burstiness"] = rng.choice([0.2, 1.0, 3.0])
    if kind == "users":
        given["users"] = rng.randrange(1, 9)
        if rng.random() < 0.5:
            given["think"] = rng.choice(["0s", "3us", "2ms"])
    return given


def _engines(rng: random.Random) -> dict[str, Any]:
    draw = rng.random()
    if draw < 0.5:
        return {}
    router = rng.choice(["round-robin", "least-outstanding", "prefix-aware"])
    if draw < 0.8:
        return {"replicas": rng.randrange(2, 5), "router": router}
    prefill, decode = rng.randrange(1, 3), rng.randrange(1, 3)
    split = {
        "prefill": prefill, "decode": decode, "latency": rng.choice(["0s", "5us"]),
        "bandwidth": rng.choice(["1GB/s", "inf"]),
    }  # fmt: skip
    several = {"router": router} if max(prefill, decode) > 1 else {}
    return {"split": split, "model": "gpt2-medium", **several}


def _source(rng: random.Random, folder: Path) -> dict[str, Any]:
    count = rng.randrange(1, 40)
    kind = rng.choice(["fixed", "random", "lognormal", "sessions", "tokens"])
    if kind == "fixed":
        prompt, output = rng.randrange(1, 60), rng.randrange(1, 30)
        return {
            "name": kind, "count": count, "prompt_tokens": prompt, "output_tokens": output
        }  # fmt: skip
    if kind == "random":
        return {
            "name": kind, "count": count, "input_len": rng.randrange(1, 60),
            "output_len": rng.randrange(1, 20), "prefix_len": rng.choice([0, 16, 33]),
        }  # fmt: skip
    if kind == "lognormal":
        medians = {"prompt_median": rng.randrange(1, 40), "output_median": rng.randrange(1, 10)}
        return {"name": kind, "count": count, **medians, "longest": 120}
    rows = _sessions(rng) if kind == "sessions" else _tokens(rng, count)
    path = folder / f"{kind}.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return {"name": kind, "path": str(path)}


def _sessions(rng: random.Random) -> list[dict[str, Any]]:
    rows = []
    for session in range(rng.randrange(1, 9)):
        for turn in range(rng.randrange(1, 5)):
            row: dict[str, Any] = {"session": session, "turn": turn}
            row |= {"new_tokens": rng.randrange(1, 30), "output_tokens": rng.randrange(1, 12)}
            if turn:
                row["think_seconds"] = rng.choice([0, 1e-6, 0.01])
            rows.append(row)
    return rows


def _tokens(rng: random.Random, count: int) -> list[dict[str, Any]]:
    shared = [rng.randrange(50) for _ in range(40)]
    return [
        {
            "prompt": [*shared[: rng.randrange(41)], rng.randrange(50)],
            "output_tokens": rng.randrange(1, 12),
        }
        for _ in range(count)
    ]


def _check(result: ServeResult, spec: dict[str, Any]) -> None:
    _check_requests(result)
    _check_steps(result, spec)
    _check_load(result, spec)
    again = serve(spec)
    assert again.requests.equals(result.requests), "the same parameters give other requests"
    assert again.steps.equals(result.steps), "the same parameters give other steps"
    assert again.summary == result.summary, "the same parameters give another summary"
    for time in why_served(result).times:
        total = sum(part.ns for part in time.parts)
        assert math.isclose(total, time.ns, rel_tol=1e-9, abs_tol=1e-3), f"{time} adds to {total}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "service"
        serve(spec, out=path)
        kept = serve(spec, out=path, resume=True)
        assert kept.requests.equals(result.requests), "other requests were written"


def _check_requests(result: ServeResult) -> None:
    """Times follow each other, and latencies and gaps add up."""
    for row in result.requests.to_pylist():
        arrival, first, end = (row[f"{name}_ns"] for name in ("arrival", "first_token", "finish"))
        assert arrival <= row["first_scheduled_ns"] <= first <= end, f"times of {row}"
        assert row["ttft_ns"] == first - arrival, f"TTFT of {row}"
        assert row["e2el_ns"] == end - arrival, f"latency of {row}"
        assert sum(row["itl_ns"]) == end - first, f"gaps of {row}"
        assert len(row["itl_ns"]) == row["output_tokens"] - 1, f"number of gaps of {row}"
        assert min(row["itl_ns"], default=0) >= 0, f"a gap of {row}"
        assert 0 <= row["cached_tokens"] < row["prompt_tokens"], f"cached tokens of {row}"
        assert (row["preemptions"] > 0) >= (row["recomputed_tokens"] > 0), f"recomputed: {row}"


def _check_steps(result: ServeResult, spec: dict[str, Any]) -> None:
    """Steps of an engine follow each other, and compute each token once, or once more."""
    host = {"7ns": 7, "1ms": 1_000_000}.get(spec.get("host", "0s"), 0)
    rows = result.requests.to_pylist()
    for replica in set(result.steps["replica"].to_pylist()):
        own = [row for row in result.steps.to_pylist() if row["replica"] == replica]
        for before, after in pairwise(own):
            end = before["start_ns"] + before["length_ns"]
            assert end + host <= after["start_ns"], f"steps overlap: {before}, {after}"
        for row in own:
            assert 0 < row["batch_requests"] <= row["new_tokens"], f"empty: {row}"
            assert row["batch_requests"] <= row["running_requests"], f"more than run: {row}"
            assert 0 <= row["free_blocks"] < spec["num_blocks"] + (spec.get("pool") == "recorded")
    computed = sum(result.steps["new_tokens"].to_pylist())
    needed = sum(r["prompt_tokens"] - r["cached_tokens"] + r["output_tokens"] - 1 for r in rows)
    again = sum(row["recomputed_tokens"] for row in rows)
    if any(row["preemptions"] for row in rows):
        assert computed <= needed + again, f"{computed} tokens of {needed} + {again}"
    else:
        assert computed == needed, f"{computed} tokens, expected {needed}"
    completed = result.metrics["completed"]
    assert completed == len(rows), f"{completed} of {len(rows)} requests"


def _check_load(result: ServeResult, spec: dict[str, Any]) -> None:
    """Requests that run or wait at a step of the only engine are those that have not ended.

    In a static batch those that have ended keep their blocks until all have.
    """
    if "split" in spec or spec.get("replicas", 1) != 1:
        return
    arrival, end = (result.requests[f"{n}_ns"].to_numpy() for n in ("arrival", "finish"))
    for row in result.steps.to_pylist():
        at = row["start_ns"]
        there = int(np.sum((arrival <= at) & (end > at)))
        counted = row["running_requests"] + row["waiting_requests"]
        held = spec["scheduler"] == "static" and counted > there
        assert held or counted == there, f"{counted} requests at {at} ns, expected {there}"
