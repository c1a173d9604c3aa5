"""Step times from profiled tables: worked numbers, compiled and plain, and wrong profiles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from stepsim.errors import ArgError, StepSimError, TraceError
from stepsim.kernels import table_time
from stepsim.serving import Batch, Link, TableSteps, read_profile
from tests.shared import SERVING_RUNS, recorded

SEQUENCE = {
    "prologue": ["embedding"],
    "pre_attn": ["layernorm", "attention"],
    "post_attn": ["o_proj"],
    "mlp_dense": ["down_proj"],
    "mlp_moe": [],
    "head": ["lm_head"],
}
PROFILE = {
    "hardware": "some", "model": "small", "tp": 1, "layers": 3, "hidden": 8, "vocab": 100,
    "heads": 2, "kv_heads": 1, "head_dim": 4, "ffn": 16, "moe_ffn": None, "experts": 0, "top_k": 0,
    "dtype_bytes": 2, "sequence": SEQUENCE,
    "dense": {
        "embedding": [[1, 50], [4, 80]],
        "layernorm": [[1, 10]],
        "o_proj": [[2, 100], [4, 200]],
        "down_proj": [[1, 1000]],
    },
    "per_sequence": {"lm_head": [[1, 7], [3, 9]]},
    "skew": None,
}  # fmt: skip
ATTENTION = """\
prefill_chunk,n_decode,kv_prefill,kv_decode,ns
0,1,0,10,100
0,1,0,20,300
0,4,0,10,400
8,0,0,0,500
8,0,16,0,900
"""
SKEW = {
    "alpha_default": 0.5,
    "axes": {
        "n_bins": [0, 2, 9], "n_labels": ["few", "more"],
        "skew_rate_bins": [-0.01, 0.4, 1.01], "skew_rate_labels": ["low", "high"],
        "kv_big_bins": [0, 99], "kv_big_labels": ["any"],
        "kp_bins": [-1, 99], "kp_labels": ["any"],
    },
}  # fmt: skip
SKEWS = "pc,n,skew_rate,kv_big,kp,alpha\n0,few,high,any,any,0.25\n0,more,low,any,any,0\n"


def write(folder: Path, *, attention: str = ATTENTION, skews: str = SKEWS, **fields: Any) -> Path:
    (folder / "profile.json").write_text(json.dumps({**PROFILE, **fields}))
    (folder / "attention.csv").write_text(attention)
    (folder / "skew.csv").write_text(skews)
    return folder


def batch(*entries: tuple[int, int]) -> Batch:
    """New tokens, and tokens before, of every request."""
    new, before = np.array(entries).T
    return Batch(np.arange(len(new)), new, before, new > 0)


def expected(
    attention: int, *, embedding: int, o_proj: int, head: int, transfer: int = 0, around: int = 0
) -> int:
    return 2 * transfer + around + embedding + 3 * (10 + attention + o_proj + 1000) + head


def test_times_are_interpolated_and_extrapolated(tmp_path: Path) -> None:
    steps = TableSteps(read_profile(write(tmp_path)), 1.0)
    # One decode in the middle of two lengths; tables below their first keys, above the last ones.
    found = steps.time(0, batch((1, 15)))
    assert found.ns == expected(200, embedding=50, o_proj=100, head=7, transfer=4)
    assert found.how == "table"
    # Above the last length of a decode: on the line through the last two.
    assert steps.time(0, batch((1, 30))).ns - found.ns == 3 * 300
    # Two decodes are a third of the way from one to four; four have one length of their own.
    two = steps.time(0, batch((1, 10), (1, 12))).ns
    assert two == expected(120 + (400 - 120) // 3 + 0, embedding=60, o_proj=100, head=8, transfer=8)
    # A prefill alone: half way in tokens before it, 16 tokens are twice those of the table.
    long = steps.time(0, batch((8, 8))).ns
    assert long == expected(700, embedding=120, o_proj=400, head=7, transfer=32)


def test_decodes_of_different_lengths_take_longer(tmp_path: Path) -> None:
    steps = TableSteps(read_profile(write(tmp_path, skew=SKEW)), 1e9)
    plain = TableSteps(read_profile(write(tmp_path)), 1e9)

    def added(*befores: int) -> int:
        one = batch(*((1, before) for before in befores))
        return (steps.time(0, one).ns - plain.time(0, one).ns) // 3

    # Mean 14, longest 20: tables 180 + (400 - 180) / 3 = 253 and 300 + 33 = 333.
    assert added(8, 20) == round(0.25 * (333 - 253))
    assert added(14, 14) == 0
    assert added(9) == 0
    # More decodes of a low skew have a correction of 0, of a high one that by default.
    assert added(10, 10, 30) == 0
    assert added(10, 26, 30) > 0


@pytest.mark.parametrize("loaded", [False, True])
def test_layers_wait_for_their_weights(tmp_path: Path, loaded: bool) -> None:
    profile = read_profile(write(tmp_path))
    steps = TableSteps(profile, 1e9, memory_gbps=0.1 if loaded else None, weights_loaded=loaded)
    time = 0
    # Weights of 100 * 8, 8, 8 * 8, 16 * 8, 100 * 8 values of two bytes each, ten ns per byte.
    ready = {"embedding": 16_000, "layernorm": 160, "o_proj": 1280, "down_proj": 2560}
    ready["lm_head"] = 16_000
    own = {"embedding": 50, "layernorm": 10, "attention": 200, "o_proj": 100, "down_proj": 1000}
    own["lm_head"] = 7
    for name in ("embedding", *("layernorm", "attention", "o_proj", "down_proj") * 3, "lm_head"):
        time = max(time, ready.get(name, 0) if loaded else 0) + own[name]
    assert steps.time(0, batch((1, 15))).ns == time


def test_blocks_wait_for_late_weights(tmp_path: Path) -> None:
    """Weights that come while the blocks run: only the first block waits for them."""
    few = {**PROFILE["dense"], "embedding": [[1, 1]]}
    profile = read_profile(write(tmp_path, dense=few, vocab=1))
    steps = TableSteps(profile, 1e9, memory_gbps=0.1, weights_loaded=True)
    time = 160 + 1
    for at in range(3):
        time = max(time, 160) + 10 + 200
        time = max(time, 1280) + 100
        time = max(time, 2560) + 1000
        assert at or time == 3560
    assert steps.time(0, batch((1, 15))).ns == max(time, 160) + 7


def test_devices_add_their_sums(tmp_path: Path) -> None:
    alone = TableSteps(read_profile(write(tmp_path)), 1.0).time(0, batch((1, 15))).ns
    profile = read_profile(write(tmp_path, tp=2))
    steps = TableSteps(profile, 1.0, memory_gbps=4.0, link=Link(1.0, 20.0, (2,)))
    # Of 16 bytes, eight are a message: 20 + 8 / 1.073 ns, and 3 * 2 ns to add them.
    reduce = 2 * 27 + 3 * 2 + 30
    assert steps.time(0, batch((1, 15))).ns == alone + 2 * 3 * reduce + 4


def test_rings_of_several_dims(tmp_path: Path) -> None:
    """Sums are scattered from the inner ring to the outer one and gathered on the way back."""
    alone = TableSteps(read_profile(write(tmp_path)), 1.0).time(0, batch((1, 15))).ns
    profile = read_profile(write(tmp_path, tp=4))
    link = Link(1e9 / 2**30, 5.0, (2, 2))
    steps = TableSteps(profile, 1.0, memory_gbps=1.0, link=link)
    ring = [(8, True), (4, True), (4, False), (8, False)]
    reduce = sum(5 + message + 20 + (3 * message if adds else 0) for message, adds in ring)
    assert steps.time(0, batch((1, 15))).ns == alone + 2 * 3 * reduce + 4


@recorded(SERVING_RUNS)
@pytest.mark.parametrize(
    ("folder", "host", "times"),
    [
        ("rtxpro6000-llama8b-tp1", 256, (10_998_250, 11_146_817, 18_547_975)),
        ("rtx4090-llama8b-tp1", 256, (17_078_016, 16_642_486, 37_916_651)),
    ],
)
def test_worked_steps(folder: str, host: int, times: tuple[int, ...]) -> None:
    steps = TableSteps(read_profile(SERVING_RUNS / "profiles" / folder), host)
    batches = batch((10, 0)), batch((1, 10)), batch((300, 512), (1, 100), (1, 1000), (1, 37))
    assert tuple(steps.time(0, one).ns for one in batches) == times


@recorded(SERVING_RUNS)
def test_worked_sizes() -> None:
    llama = read_profile(SERVING_RUNS / "profiles" / "rtxpro6000-llama8b-tp1")
    assert llama.weight_bytes() == 16_060_522_496
    assert llama.kv_blocks(int(96 * 2**30 * 0.9), 16) == 36_578
    assert llama.kv_blocks(int(96 * 2**30 * 0.18), 16) == 1_189
    assert llama.kv_blocks(int(96 * 2**30 * 0.18), 64) == 297
    with pytest.raises(TraceError, match="16060522496 bytes of weights"):
        llama.kv_blocks(1 << 30, 16)


@recorded(SERVING_RUNS)
def test_experts_on_one_device() -> None:
    """The first token of the run `moe_multi`, whose first request is alone on its device."""
    profile = read_profile(SERVING_RUNS / "profiles" / "rtxpro6000-qwen30b-tp1")
    assert TableSteps(profile, 256).time(0, batch((10, 0))).ns == 27_379_430


_KERNEL = table_time


@numba.njit
def _compiled(words: Any, reals: Any, amounts: Any) -> Any:
    found = np.empty(len(amounts), np.int64)
    for k in range(len(amounts)):
        a = amounts[k]
        found[k] = _KERNEL(words, reals, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7])
    return found


@recorded(SERVING_RUNS)
@pytest.mark.parametrize("folder", ["rtxpro6000-llama8b-tp1", "rtxpro6000-qwen30b-tp1"])
def test_compiled_times_are_those_of_plain_python(folder: str) -> None:
    steps = TableSteps(read_profile(SERVING_RUNS / "profiles" / folder), 256)
    rng = np.random.default_rng(1)
    amounts, plain = [], []
    for _ in range(300):
        decodes, prefills = rng.integers(0, 200), rng.integers(0, 3)
        least = int(rng.integers(0, 3000))
        befores = rng.integers(least, least + rng.integers(1, 5000), decodes)
        chunks = rng.choice([2, 16, 100, 512, 3000], prefills)
        earlier = rng.choice([0, 7, 512, 9000], prefills)
        if not decodes + prefills:
            continue
        entries = [(1, b) for b in befores.tolist()]
        entries += list(zip(chunks.tolist(), earlier.tolist(), strict=True))
        plain.append(steps.time(0, batch(*entries)).ns)
        amounts.append([
            decodes + chunks.sum(), len(entries), chunks.sum(), earlier.sum(), decodes,
            befores.sum(), befores.min(initial=1 << 62), befores.max(initial=0),
        ])  # fmt: skip
    found = _compiled(steps.words, steps.reals, np.array(amounts, dtype=np.int64))
    assert found.tolist() == plain


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "`layers` is 0, expected a whole number from 1"),
        ({"dense": {}}, "has a layer `embedding` without a table"),
        ({"dense": []}, "`dense` is [], expected an object"),
        (
            {"dense": {**PROFILE["dense"], "o_proj": [[2, 1], [2, 3]]}},  # type: ignore[dict-item]
            "dense.o_proj: expected ascending keys",
        ),
        (
            {"dense": {**PROFILE["dense"], "o_proj": [1, 2]}},  # type: ignore[dict-item]
            "dense.o_proj: is [1, 2], expected a list of [key, ns]",
        ),
        ({"sequence": {**SEQUENCE, "tail": []}}, "sequence has 'tail', expected only"),
        ({"sequence": {**SEQUENCE, "mlp_moe": ["moe"]}}, "both mlp_dense and mlp_moe"),
        ({"attention": "a,b\n"}, "line 1 is ['a', 'b'], expected prefill_chunk,"),
        ({"attention": ATTENTION + "1,2\n"}, "line 7: has 2 of 5 fields"),
        ({"attention": ATTENTION + "8,0,16,0,901\n"}, "has two rows 8,0,16,0, expected one"),
        ({"attention": ATTENTION + "8,0,16,-1,901\n"}, "line 7: has a number below 0"),
        ({"attention": ATTENTION + "8,0,16,x,901\n"}, "expected whole numbers in all columns"),
        ({"attention": ATTENTION.splitlines()[0]}, "has no rows"),
        ({"skew": {}}, "`skew` lacks 'axes'"),
        (
            {"skew": SKEW, "skews": SKEWS + "0,many,high,any,any,1\n"},
            "'many' is not a number, or not",
        ),
    ],
)
def test_wrong_profiles_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError) as error:
        read_profile(write(tmp_path, **change))
    assert message in str(error.value)


def test_a_folder_without_a_profile_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"profile\.json: cannot be read"):
        read_profile(tmp_path)


@pytest.mark.parametrize(
    ("tp", "make", "message"),
    [
        (1, lambda p: TableSteps(p, 0.0), "host_gbps is 0.0, expected GB/s above 0"),
        (1, lambda p: TableSteps(p, 1.0, memory_gbps=1.0), "memory_gbps has no effect"),
        (1, lambda p: TableSteps(p, 1.0, weights_loaded=True), "memory_gbps is needed"),
        (1, lambda p: TableSteps(p, 1.0, link=Link(1.0, 0.0, (1,))), "has no link between"),
        (2, lambda p: TableSteps(p, 1.0), "a profile of 2 devices, which needs the link"),
        (
            2,
            lambda p: TableSteps(p, 1.0, memory_gbps=1.0, link=Link(1.0, 0.0, (4,))),
            "is for 4 devices, expected 2",
        ),
        (2, lambda p: Link(0.0, 0.0, (2,)), "expected a bandwidth above 0"),
    ],
)
def test_wrong_table_steps_are_named(
    tmp_path: Path, tp: int, make: Callable[[Any], Any], message: str
) -> None:
    profile = read_profile(write(tmp_path, tp=tp))
    with pytest.raises(ArgError) as error:
        make(profile)
    assert message in str(error.value)
    assert isinstance(error.value, StepSimError)
