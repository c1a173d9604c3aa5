"""Every parameter of a workload counts, and the search for ignored arguments finds one."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

import stepsim as st
from tests.fuzz import ignored, programs
from tests.fuzz.driver import campaign
from tests.fuzz.workloads import PARAMETERS, TINY, with_effect

BASES: dict[str, dict[str, Any]] = {
    "moe": {"model": TINY, "tile": "dynamic"},
    "attention": {"model": TINY, "strategy": "coarse", "block": 2},
    "decoder": {"model": TINY, "tile": 2, "strategy": "interleaved"},
    "swiglu": {
        "tile": 16,
        "tile_inter": 16,
        "batch": 32,
        "hidden": 16,
        "intermediate": 64,
        "weight_dtype": "f16",
    },
}
PARTS = (
    None, "qkv", "attention", "output", "experts", "qkv+attention", "norms+qkv", "router+experts",
    "norms+qkv+rotary+attention+output+residuals",
)  # fmt: skip
MORE = {
    "moe_bw": [512], "attention_bw": [512], "qkv_bw": [512], "max_length": [4096],
    "activation_dtype": ["f16"], "kv_dtype": ["i8"], "micro_batches": [(4, 6)],
    "parts": ["attention+experts"],
}  # fmt: skip


CASES = [
    (name, which, parts)
    for name in BASES
    for which in PARAMETERS[name]
    for parts in (PARTS if name == "decoder" and which not in ("variant", "parts") else (None,))
]


@cache
def usual_run(name: str, parts: str | None, blocks: bool) -> Any:
    """The run of the base of some parts, with or without the size of its blocks."""
    return ignored.run_of(name, base_of(name, parts, blocks), ignored.few_requests())


def base_of(name: str, parts: str | None, blocks: bool) -> dict[str, Any]:
    base = BASES[name]
    if parts is not None:
        base = with_effect(name, base | {"parts": parts}) | {"model": TINY}
    return {key: value for key, value in base.items() if blocks or key != "block"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "which", "parts"), CASES)
def test_every_parameter_counts(name: str, which: str, parts: str | None) -> None:
    """In a program of some parts of a decoder it counts as well, or it is refused."""
    data = ignored.few_requests()
    if which == "variant":  # it gives values of models that were published
        base = {"model": "qwen3-30b-a3b", "tile": 8}
        given = st.workloads.Decoder.of(**base, strategy="dynamic").values()
        assert st.workloads.Decoder.of(**base, variant="dynamic").values() != given
        return
    blocks = which != "strategy"  # only one of them has blocks
    base, usual = base_of(name, parts, blocks), usual_run(name, parts, blocks)
    refusals = []
    for value in (*PARAMETERS[name][which], *MORE.get(which, ())):
        try:
            if ignored.run_of(name, base | {which: value}, data) != usual:
                return
        except st.StepSimError as error:
            refusals.append(str(error))
    assert any(text.startswith(f"{which}: has no effect on {parts}, only") for text in refusals)


@pytest.mark.slow
def test_an_ignored_argument_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(g: programs.Grown) -> None:
        def load(columns: int) -> Any:
            return st.linear_load(st.spec(2, 4), (1, 4))

        g.make("load", load, g.small())

    monkeypatch.setattr(programs, "STEPS", [deaf])
    found = campaign(ignored.one, range(40))
    assert any("load 0 is ignored" in key for key in found.failures)


@pytest.mark.parametrize(
    "value", [True, 3, "f32", "f16", "addr", "w", [1, 2], np.array([0, 1]), st.fn.add, st.fn.mul]
)
def test_another_value_is_of_the_same_type(value: Any) -> None:
    other = ignored.changed(value)
    assert other is not None
    assert type(other[0]) is type(value)
    assert not np.array_equal(other[0], value)


def test_some_values_have_no_other() -> None:
    assert ignored.changed(None) is None
    assert ignored.changed(random.Random) is None
