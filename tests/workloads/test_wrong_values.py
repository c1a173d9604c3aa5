"""Values that the classes of workloads cannot take: an error of ours names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.workloads.models import (
    AttentionShape,
    Dense,
    Experts,
    GroupedHeads,
    LatentHeads,
    MoEShape,
)

IDS = np.array([[0, 1], [1, 2]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"routing": "x"}, "routing: expected expert ids"),
        ({"routing": IDS}, "routing: expected a row for each of the 64 rows, found 2"),
        ({"routing": IDS, "kv_lengths": [1], "rows": 2}, "kv_lengths: expected a row for each"),
        ({"kv_lengths": [[1]], "rows": 1}, "kv_lengths: expected one whole number"),
        ({"rows": "many"}, "rows: expected a whole number"),
        ({"rows": -1}, "rows: expected a whole number"),
        ({"whole": None}, "whole: expected a whole number"),
    ],
)
def test_data_made_by_hand_is_checked(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgError, match=message):
        st.workloads.Data(**given)


@pytest.mark.parametrize("config", [IDS, 3, "unpublished"])
def test_settings_are_named(config: Any) -> None:
    with pytest.raises(ArgError, match="config: expected published, found"):
        st.workloads.Moe.of(model="mixtral-8x7b", tile=16, config=config)


def test_data_made_by_hand_is_that_of_the_method() -> None:
    made = st.workloads.Data(routing=IDS.tolist(), kv_lengths=[3, 4], rows=2, whole=2)
    usual = st.workloads.Data.of(routing=IDS, kv_lengths=[3, 4])
    case = st.simulation.make_case("decoder", usual, model=TINY, tile=2, strategy="interleaved")
    assert case.result(made).cycles == case.result(usual).cycles


TINY = {
    "model_dim": 64,
    "experts": {"count": 4, "active": 2, "inner_dim": 64},
    "attention": {"heads": 2, "kv_heads": 1, "head_dim": 16},
}


@pytest.mark.parametrize("rows", [np.array([1, 2]), "1", 1.0])
def test_rows_beside_arrays_are_a_number(rows: Any) -> None:
    with pytest.raises(ArgError, match="rows: expected a whole number"):
        st.workloads.Data.of(kv_lengths=[3], rows=rows)


def test_lengths_beyond_any_memory_are_named() -> None:
    with pytest.raises(ArgError, match=r"kv_lengths\[1\]: expected a length to 2\*\*40, found 18"):
        st.workloads.Data.of(kv_lengths=np.array([1, 2**64 - 1], np.uint64))


@pytest.mark.parametrize("kind", [st.workloads.Moe, st.workloads.Attention, st.workloads.Decoder])
def test_a_workload_is_built_of_data(kind: Any) -> None:
    own = {"moe": {"tile": 2}, "decoder": {"tile": 2, "strategy": "dynamic"}}.get(kind.name, {})
    with pytest.raises(ArgError, match="data: expected Data, found list"):
        kind(model=TINY, **own).build([3])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MoEShape("m", "x", 1, 64, 64), "MoE shape 'm': experts must be an int"),
        (lambda: MoEShape("m", IDS, 1, 64, 64), "experts must be an int"),
        (lambda: MoEShape(3, 1, 1, 64, 64), "MoE shape 3: name must be a string"),
        (lambda: AttentionShape("a", 64, 4, 2, None), "attention shape 'a': head_dim must be"),
        (lambda: Experts(4, 2, "x"), "experts: inner_dim must be an int"),
        (lambda: GroupedHeads(4, 2, 16.0), "heads: head_dim must be an int"),
        (lambda: LatentHeads(4, 8, 8, -1, 8), "latent heads: qk_rope_head_dim must be an int"),
        (lambda: Dense([1]), "dense network: inner_dim must be an int"),
        (lambda: st.workloads.Model(range(3), 64), "name must be a string"),
        (lambda: st.workloads.Model("m", 0), "model 'm': model_dim must be an int from 1"),
        (lambda: st.workloads.Model("m", 64, {"count": 1}), "experts must be Experts or None"),
        (lambda: st.workloads.Model("m", 64, kv_dtype="f9"), "expected one of"),
        (lambda: st.workloads.Model("m", 64, absent="x"), "absent must be pairs"),
        (lambda: st.workloads.Model.of(), "expected a shape at least"),
        (lambda: st.workloads.Model.of([1]), "expected a MoEShape or an AttentionShape"),
    ],
)
def test_models_of_wrong_values(make: Any, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        make()


def test_names_of_types_are_types() -> None:
    model = st.workloads.Model("m", np.int64(64), Experts(4, 2, 64), weight_dtype="f8e4m3")
    assert model.weight_dtype is st.graph.DType.f8e4m3
    assert type(model.model_dim) is int


@pytest.mark.parametrize(
    ("param", "message"),
    [
        ({"help": 3}, "parameter size: help must be a string"),
        ({"unit": None}, "parameter size: unit must be a string"),
        ({"like": IDS}, "parameter size: like must be a string or None"),
        ({"of_model": IDS}, "parameter size: of_model must be a function"),
        ({"unused": IDS}, "parameter size: unused must be a function"),
        ({"needed": "yes"}, "parameter size: needed must be True or False"),
        ({"needed": True}, "parameter size: expected the default None with Param"),
        ({"text": "yes"}, "parameter size: text must be True or False"),
        ({"least": IDS}, "parameter size: expected a whole number as least"),
        ({"most": st.graph.Dim(3)}, "parameter size: expected a whole number as most"),
    ],
)
def test_declarations_of_wrong_values(param: dict[str, Any], message: str) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Declared(st.workloads.Workload):
        name: ClassVar = "declared"

        size: Annotated[int, st.workloads.Param(**param)] = 3

    Declared.__annotations__["size"] = Annotated[int, st.workloads.Param(**param)]
    with pytest.raises(ArgError, match=message):
        Declared()
