"""Weights, activations and cache of any element type: traffic, times and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from stepsim.dtypes import DType
from stepsim.errors import ArgError
from stepsim.simulation import simulate
from stepsim.workloads import Attention, Data, Decoder, Moe, Swiglu, Workload
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.models import Experts, GroupedHeads, Model, read_model
from tests.property_profile import profile
from tests.workloads.configs import CONFIGS, write_config

MODEL = Model("tiny", 5, Experts(4, 2, 6, 3), GroupedHeads(4, 2, 3))
DATA = Data.of(routing=[[0, 1], [1, 2], [3, 0], [0, 1]], kv_lengths=[3, 7, 9, 12])
Types = dict[str, Any]

WORKLOADS: dict[str, tuple[type[Workload], Types]] = {
    "moe": (Moe, {"model": MODEL, "tile": 3, "tile_inter": 3}),
    "moe-dynamic": (Moe, {"model": MODEL, "tile": "dynamic", "tile_inter": 3}),
    "moe-regions": (Moe, {"model": MODEL, "tile": 3, "tile_inter": 3, "regions": 2}),
    "attention": (Attention, {"model": MODEL, "regions": 2, "kv_tile": 5}),
    "decoder": (
        Decoder,
        {
            "model": MODEL, "tile": 3, "tile_inter": 3, "strategy": "interleaved",
            "attention_regions": 2, "kv_tile": 5,
            # Heads of three columns cannot be rotated.
            "parts": "norms+qkv+attention+output+residuals+router+experts",
        },
    ),
    "swiglu": (Swiglu, {"batch": 6, "hidden": 5, "intermediate": 9, "tile": 3, "tile_inter": 3}),
}  # fmt: skip

NUMBERS = [d for d in DType if d.is_arithmetic]


def workload(kind: str, **types: Any) -> Workload:
    made, fixed = WORKLOADS[kind]
    return made(**fixed, **types)


@st.composite
def workloads_of_any_type(draw: st.DrawFn) -> Workload:
    """Any activations, with weights and cache of the same type or a narrower one."""
    kind = draw(st.sampled_from(sorted(WORKLOADS)))
    activations = draw(st.sampled_from(NUMBERS))
    narrower = [d for d in NUMBERS if d is activations or d.bits < activations.bits]
    types = {"activation_dtype": activations}
    for name in ("weight_dtype", "kv_dtype"):
        if name in WORKLOADS[kind][0].__dataclass_fields__:
            types[name] = draw(st.sampled_from(narrower))
    return workload(kind, **types)


@profile(30, 300)
@given(workloads_of_any_type())
def test_symbolic_traffic_and_flops_are_the_executed_ones(work: Workload) -> None:
    built = work.build(DATA)
    metrics = built.program.metrics(counting="paper").bind(built.symbols(DATA))
    result = simulate(built.program, bindings=built.bindings(DATA))
    assert result.offchip_bytes == metrics.off_chip_traffic
    assert result.flops == metrics.flops


@pytest.mark.parametrize("kind", sorted(WORKLOADS))
def test_types_are_those_of_the_model_unless_given(kind: str) -> None:
    silent = workload(kind)
    assert isinstance(silent.types, ElementTypes)
    usual = DType.f32 if kind == "swiglu" else DType.bf16
    assert silent.types == ElementTypes(usual, usual, usual)
    stated = workload(kind, activation_dtype=usual.text)
    programs = [one.build(DATA).program for one in (silent, stated)]
    assert programs[0].fingerprint() == programs[1].fingerprint()


def test_types_of_a_file(tmp_path: Path) -> None:
    config = dict(CONFIGS["DeepSeek-V3"])
    scheme = {"num_bits": 8, "type": "float"}
    config["quantization_config"] = {**config["quantization_config"], "kv_cache_scheme": scheme}
    model = read_model(str(write_config(tmp_path, config)))
    bf16, f8 = DType.bf16, DType.f8e4m3
    assert Moe(model=model, tile=8).types == ElementTypes(f8, bf16, f8)
    assert Attention(model=model).types == ElementTypes(f8, bf16, f8)
    wide = Moe(model=model, tile=8, activation_dtype="f32", weight_dtype="mxfp4")
    assert wide.types == ElementTypes(DType.f4, DType.f32, f8)
    narrow = Moe(model="mixtral-8x7b", tile=8, activation_dtype="fp8")
    assert narrow.types == ElementTypes(f8, f8, f8)


def test_bytes_by_hand() -> None:
    """Odd tiles of 4-bit weights: 5 x 3 elements are 8 bytes, 3 x 5 too."""
    work = workload("moe-dynamic", weight_dtype="int4", activation_dtype="fp8").build(DATA)
    routed, shared = 4 * 3 * 2 * 8, 3 * 1 * 8
    rows = 4 * 5 + 4 * 5 + 4 * 5 + 8  # activations, those of the shared expert, output, scales
    result = simulate(work.program, bindings=work.bindings(DATA))
    assert result.offchip_bytes == routed + shared + rows


def test_narrow_weights_take_fewer_cycles() -> None:
    model = Model("wide", 256, Experts(4, 2, 512))
    cycles = []
    for dtype in ("bf16", "fp8", "mxfp4"):
        built = Moe(model=model, tile=4, weight_dtype=dtype).build(DATA)
        cycles.append(simulate(built.program, bindings=built.bindings(DATA)).cycles)
    assert cycles == sorted(cycles, reverse=True)
    assert len(set(cycles)) == 3


WIDE = "expected the type of the activations, bf16, or a narrower one, found"
REFUSED = [
    (
        "moe", {"weight_dtype": "f32"},
        f"weight_dtype: {WIDE} f32; choose another activation_dtype or leave one of them out",
    ),
    ("moe", {"weight_dtype": "f16"}, f"weight_dtype: {WIDE} f16; "),
    ("moe-regions", {"weight_dtype": "u32"}, "weight_dtype: expected one of f32, bf16, f16, "),
    ("moe", {"weight_dtype": "fp7"}, "weight_dtype: expected one of f32, bf16, f16, f8e4m3, f8e5m2"
     ", i8, f4, i4, found 'fp7'; did you mean 'fp"),
    ("moe", {"weight_dtype": 8}, "weight_dtype: expected one of f32, bf16, f16, "),
    ("attention", {"kv_dtype": "f32"}, f"kv_dtype: {WIDE} f32; "),
    ("decoder", {"kv_dtype": "bool"}, "kv_dtype: expected one of f32, bf16, f16, "),
    ("swiglu", {"activation_dtype": "bf16"}, f"weight_dtype: {WIDE} f32; "),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "types", "message"), REFUSED)
def test_types_that_do_not_fit(kind: str, types: Types, message: str) -> None:
    with pytest.raises(ArgError) as error:
        workload(kind, **types).build(DATA)
    assert str(error.value).startswith(message)
