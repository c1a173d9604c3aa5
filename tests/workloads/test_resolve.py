"""Where the value of a parameter comes from: given > machine > published > default."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from stepsim.errors import WorkloadError
from stepsim.machine import load_machine
from stepsim.simulation.cases.case import make_case
from stepsim.workloads import (
    Attention,
    Data,
    Decoder,
    Moe,
    ParameterError,
    Resolved,
    Swiglu,
    Workload,
    resolve,
)
from stepsim.workloads.models import MODELS

DEEP = load_machine("sda-1024", {"fifo.depth": 7})
PLAIN = load_machine("sda-1024")
DATA = Data.of(routing=[[0, 1]] * 16, kv_lengths=[3] * 16)

# what must be given, and what else the published experiment needs
WORKLOADS: dict[str, tuple[type[Workload], dict[str, Any]]] = {
    "moe": (Moe, {"model": "qwen3-30b-a3b", "tile": "dynamic"}),
    "attention": (Attention, {"model": "qwen3-30b-a3b"}),
    "decoder": (Decoder, {"model": "qwen3-30b-a3b", "variant": "dynamic"}),
    "swiglu": (Swiglu, {"tile": 16, "tile_inter": 64}),
}

# values and origins with published settings, of the parameters that are not given
PUBLISHED: dict[str, dict[str, tuple[Any, str]]] = {
    "moe": {
        "compute_bw": (6400, "published"), "pack_bw": (1024, "published"),
        "tile_inter": (64, "published"), "fifo_depth": (2, "published"),
        "regions": (None, "default"),
    },
    "attention": {
        "strategy": ("dynamic", "published"), "regions": (4, "published"),
        "kv_tile": (32, "published"), "compute_bw": (2048, "published"),
        "fifo_depth": (1, "published"), "max_length": (4672, "published"),
        "shape": ("qwen3-30b-a3b-step", "published"), "block": (None, "default"),
        "micro_batches": (None, "default"),
    },
    "decoder": {
        "tile": ("dynamic", "published"), "strategy": ("dynamic", "published"),
        "expert_regions": (32, "published"), "tile_inter": (48, "published"),
        "attention": ("qwen3-30b-a3b-step", "published"), "attention_regions": (4, "default"),
        "fifo_depth": (2, "default"), "max_length": (None, "default"),
    },
    "swiglu": {
        "batch": (64, "published"), "hidden": (256, "published"),
        "intermediate": (512, "published"), "compute_bw": (4096, "published"),
        "par_dispatch": (4, "published"), "fifo_depth": (1, "published"),
    },
}  # fmt: skip

DEFAULTS: dict[str, dict[str, tuple[Any, str]]] = {
    "moe": {
        "compute_bw": (4096, "default"), "pack_bw": (4096, "like compute_bw"),
        "tile_inter": (64, "default"), "fifo_depth": (2, "default"),
    },
    "attention": {
        "strategy": ("dynamic", "default"), "regions": (4, "default"),
        "fifo_depth": (1, "default"), "max_length": (None, "default"),
        "shape": ("qwen3-30b-a3b", "like model"),
    },
    "decoder": {
        "tile_inter": (64, "default"), "expert_regions": (None, "default"),
        "attention": ("qwen3-30b-a3b", "like model"),
    },
    "swiglu": {"compute_bw": (4096, "default"), "fifo_depth": (1, "default")},
}  # fmt: skip

NEEDED = {
    "decoder": {"variant": None, "tile": 8, "strategy": "interleaved"},
    "swiglu": {"batch": 64, "hidden": 256, "intermediate": 512},
}


def found(name: str, **options: Any) -> Resolved:
    kind, given = WORKLOADS[name]
    given = given | options.pop("given", {})
    return resolve(kind, given, data=[DATA], **{"machine": PLAIN} | options)


def check(result: Resolved, expected: dict[str, tuple[Any, str]]) -> None:
    for name, (value, origin) in expected.items():
        got = getattr(result.workload, name)
        assert (str(got) if isinstance(value, str) else got) == value, name
        assert result.origins[name] == origin, name


@pytest.mark.parametrize("name", WORKLOADS)
def test_published(name):
    result = found(name, config="published")
    check(result, PUBLISHED[name])
    assert {result.origins[one] for one in WORKLOADS[name][1]} == {"given"}
    assert set(result.origins) == set(result.workload.values())
    assert result.config == "published"


@pytest.mark.parametrize("name", WORKLOADS)
def test_defaults(name):
    result = found(name, given=NEEDED.get(name, {}))
    check(result, DEFAULTS[name])
    assert "published" not in result.origins.values()
    assert result.config is None


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("config", [None, "published"])
def test_the_machine_comes_before_what_is_published(name, config):
    given = {} if config else NEEDED.get(name, {})
    result = found(name, machine=DEEP, config=config, given=given)
    check(result, {"fifo_depth": (7, "machine")})


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("machine", [PLAIN, DEEP])
@pytest.mark.parametrize("config", [None, "published"])
def test_what_is_given_comes_first(name, machine, config):
    given = {"fifo_depth": 3} | ({} if config else NEEDED.get(name, {}))
    result = found(name, machine=machine, config=config, given=given)
    check(result, {"fifo_depth": (3, "given")})


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_published_setting_yields_to_what_is_given(name):
    kind, _ = WORKLOADS[name]
    settings = found(name, config="published").workload.values()
    own = {one: settings[one] for one, (_, origin) in PUBLISHED[name].items() if origin[0] == "p"}
    again = resolve(kind, WORKLOADS[name][1] | own, config="published", data=[DATA])
    assert again.workload == found(name, config="published").workload
    assert {again.origins[one] for one in own} == {"given"}


def test_batches_with_different_settings_need_a_choice():
    small, large = Data(rows=64), Data(rows=1024)
    given = {"model": "qwen3-30b-a3b", "tile": 16}
    with pytest.raises(ParameterError, match=r"^fifo_depth: .* have different values, 1024 and 2;"):
        resolve(Moe, given, config="published", data=[small, large])
    chosen = resolve(Moe, given | {"fifo_depth": 4}, config="published", data=[small, large])
    check(chosen, {"fifo_depth": (4, "given")})


TYPES = {"weight_dtype": "bf16", "activation_dtype": "bf16", "kv_dtype": "bf16"}


@pytest.mark.parametrize("name", ["moe", "attention", "decoder"])
@pytest.mark.parametrize("config", [None, "published"])
def test_element_types_that_are_not_given_are_those_of_the_model(name, config):
    given = {} if config else NEEDED.get(name, {})
    silent = found(name, given=given, config=config)
    own = {one: text for one, text in TYPES.items() if one in silent.workload.values()}
    check(silent, {one: (text, "model") for one, text in own.items()})
    stated = found(name, given=given | own, config=config)
    check(stated, {one: (text, "given") for one, text in own.items()})
    assert stated.workload == silent.workload
    narrow = found(name, given=given | {"activation_dtype": "fp8"}, config=config)
    check(narrow, {one: ("f8e4m3", "model") for one in own if one != "activation_dtype"})
    check(narrow, {"activation_dtype": ("f8e4m3", "given")})


@pytest.mark.parametrize("name", ["moe", "attention", "decoder"])
def test_columns_parameters_and_origins_agree_on_element_types(name):
    _, given = WORKLOADS[name]
    few = {"routing": DATA.routing} if name == "moe" else {"kv_lengths": DATA.kv_lengths}
    data = DATA if name == "decoder" else Data.of(**few)
    row = make_case(name, data, **given | NEEDED.get(name, {})).describe(data)
    values, origins = json.loads(row["parameters"]), json.loads(row["origins"])
    for one in TYPES.keys() & values.keys():
        assert (row[one], values[one], origins[one]) == ("bf16", "bf16", "model")


@pytest.mark.parametrize("order", [1, -1])
def test_settings_of_some_batches_need_a_choice_in_any_order(order):
    batches = [Data(rows=64, whole=64), Data(rows=80, whole=80)][::order]
    given = {"model": "qwen3-30b-a3b", "strategy": "coarse", "max_length": 8000}
    message = "^micro_batches: .* have different values, 64[+]16 and none; give one"
    with pytest.raises(ParameterError, match=message):
        resolve(Attention, given, config="published", data=batches)


@pytest.mark.parametrize("name", ["moe", "attention", "decoder"])
def test_published_settings_are_those_of_the_model_whatever_its_name(name):
    kind, given = WORKLOADS[name]
    model = MODELS["qwen3-30b-a3b"]
    renamed = given | {"model": replace(model, name="mine", source="mine/config.json")}
    check(found(name, given=renamed, config="published"), PUBLISHED[name])
    small = replace(model, model_dim=64, layers=2, source="mine/config.json")
    with pytest.raises(ParameterError) as caught:
        resolve(kind, given | {"model": small}, config="published", data=[DATA])
    assert "qwen3-30b-a3b" in str(caught.value)
    reason = "; the one of mine/config.json has the same name, but another model_dim, layers"
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "given", "missing"),
    [
        (Moe, {}, ["model", "tile"]),
        (Attention, {}, ["model"]),
        (Decoder, {"model": "qwen3-30b-a3b"}, ["tile", "strategy"]),
        (Swiglu, {"tile": 1}, ["tile_inter", "batch", "hidden", "intermediate"]),
    ],
)
def test_all_that_is_missing_is_reported(kind, given, missing):
    with pytest.raises(ParameterError) as caught:
        resolve(kind, given)
    assert [name for name, _ in caught.value.problems] == missing
    assert all(text.startswith("missing (") for _, text in caught.value.problems)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"rows": 3, "colums": 5},
            "workload odd: presets: expected names of parameters, found 'colums'; did you mean "
            "'columns'? Its parameters: rows, columns",
        ),
        ({1: 5}, "workload odd: presets: expected names of parameters, found 1. Its parameters: "),
        (None, "workload odd: presets: expected a mapping of parameters to values, found None; "),
    ],
)
def test_presets_set_parameters(settings, message):
    @dataclass(frozen=True, kw_only=True)
    class Odd(Workload):
        rows: int = 1
        columns: int = 1

        name = "odd"

        @classmethod
        def presets(cls, given, data, config):
            return settings

    with pytest.raises(WorkloadError) as caught:
        resolve(Odd, {"rows": 2})
    assert str(caught.value).startswith(message)
