"""Workloads through the public Python interface: cases, their classes, models, data, own classes.

A case is small enough to run. In a third of them all values are valid by construction; then the run
obeys the laws of :mod:`tests.fuzz.laws`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

import stepsim as st
from stepsim.workloads.models import AttentionShape, MoEShape
from tests.fuzz.laws import check_export, check_result, check_same
from tests.fuzz.script import Refused, Script

__all__ = ["PARAMETERS", "TINY", "WIDE", "one", "with_effect"]

_STEPS = 20_000


def one(rng: random.Random) -> str:
    """A case, and what can be done with it."""
    script = Script(rng, dirt=rng.choice([0.0, 0.05, 0.2]))
    try:
        rng.choice([_by_name, _by_class, _own, _described])(script)
    except Refused:
        return "refused"
    return "accepted"


def _limits() -> st.Limits:
    return st.Limits(max_steps=_STEPS)


def _model(s: Script) -> Any:
    """A small model, in one of the forms that it can have."""
    rng = s.rng
    experts = rng.choice([1, 2, 4])
    moe = {"count": experts, "active": rng.randint(1, experts), "inner_dim": rng.choice([64, 128])}
    heads = {"heads": 4, "kv_heads": rng.choice([1, 2, 4]), "head_dim": 16}
    width = rng.choice([64, 32])
    form = rng.choice(["dict", "class", "shape", "name"])
    if form == "name":
        return s.maybe(rng.choice(["qwen3-30b-a3b", "mixtral-8x7b", "qwen3"]))
    if form == "shape":
        kind, more = rng.choice(
            [
                (MoEShape, {"experts": experts, "active": moe["active"], "inner_dim": 64}),
                (AttentionShape, heads),
            ]
        )
        made = s.call(kind.__name__, kind, "tiny", model_dim=width, **more)
        return (
            s.call("Model.of", st.workloads.Model.of, made) if rng.random() < 0.5 else s.maybe(made)
        )
    given = {"name": "tiny", "model_dim": width, "experts": moe, "attention": heads}
    if rng.random() < 0.3:
        del given["experts"]
        given["dense"] = {"inner_dim": 64}
    given["dtypes"] = rng.choice([{}, {"weights": "f8e4m3"}, {"kv_cache": "i8"}])
    if not given["dtypes"]:
        del given["dtypes"]
    spoilt = {
        key: {k: s.maybe(v) for k, v in value.items()}
        if isinstance(value, dict)
        else s.maybe(value)
        for key, value in given.items()
    }
    if s.dirt and rng.random() < 0.1:
        spoilt[rng.choice(["layers", "hiden", "source", "absent"])] = s.maybe(1)
    if form == "class":
        return s.exactly("st.workloads.Model.parse", st.workloads.Model.parse, s.maybe(spoilt))
    return s.maybe(spoilt)


def _data(s: Script, experts: int, k: int) -> Any:
    """Data of a few requests."""
    rng = s.rng
    rows = rng.randint(1, 6)
    routing = np.array([rng.sample(range(experts), min(k, experts)) for _ in range(rows)])
    lengths = [rng.randint(0, 200) for _ in range(rows)]
    options: dict[str, Any] = {}
    if rng.random() < 0.8:
        options["routing"] = rng.choice([routing, routing.tolist()])
    if rng.random() < 0.8:
        options["kv_lengths"] = rng.choice([lengths, np.array(lengths)])
    if not options or rng.random() < 0.2:
        options["rows"] = rows
    if rng.random() < 0.2:
        options["whole"] = rows + rng.randint(0, 5)
    make = st.workloads.Data if s.dirt and rng.random() < 0.2 else st.workloads.Data.of
    if make is st.workloads.Data:
        options["rows"] = rows
    return s.call(
        "st.workloads.Data" if make is st.workloads.Data else "st.workloads.Data.of",
        make,
        **options,
    )


TINY: dict[str, Any] = {
    "name": "tiny",
    "model_dim": 64,
    "experts": {"count": 4, "active": 2, "inner_dim": 128},
    "attention": {"heads": 4, "kv_heads": 2, "head_dim": 16},
}
"""A model as large as the values of parameters need it."""

WIDE = TINY | {"attention": {"heads": 4, "kv_heads": 2, "head_dim": 32}}
"""The same with wider heads."""

PARAMETERS: dict[str, dict[str, list[Any]]] = {
    "moe": {
        "tile": [1, 2, "dynamic", 16], "regions": [None, 1, 2], "tile_inter": [64, 32, 16],
        "compute_bw": [64, 4096], "pack_bw": [None, 64, 8], "fifo_depth": [2, 1, 64],
        "weight_dtype": [None, "f8e4m3"], "activation_dtype": [None, "f16"],
    },
    "attention": {
        "strategy": ["dynamic", "coarse", "interleaved"], "regions": [2, 1, 4, 9],
        "kv_tile": [32, 8, 1], "block": [None, 1, 2], "micro_batches": [None, (1, 2), [3]],
        "max_length": [None, 256, 4096], "compute_bw": [2048, 64], "fifo_depth": [1, 2],
        "activation_dtype": [None, "f16"], "kv_dtype": [None, "i8"], "shape": [None, WIDE],
    },
    "decoder": {
        "variant": [None, "dynamic"], "tile": [2, 1, "dynamic"],
        "strategy": ["interleaved", "dynamic"], "tile_inter": [64, 32],
        "expert_regions": [None, 1, 2], "attention_regions": [2, 1, 4], "kv_tile": [32, 8],
        "max_length": [None, 256], "moe_bw": [1024], "attention_bw": [2048], "qkv_bw": [20480],
        "fifo_depth": [2, 1], "attention_fifo_depth": [1, 3], "weight_dtype": [None, "f8e4m3"],
        "weight_loads": [16, 1, 5], "activation_dtype": [None, "f16"], "kv_dtype": [None, "i8"],
        "attention": [None, WIDE],
        "parts": [None, "qkv+attention", ["output", "experts"], "experts", "norms+qkv"],
    },
    "swiglu": {
        "tile": [16, 4], "tile_inter": [16, 32], "batch": [16, 32], "hidden": [16, 8],
        "intermediate": [32, 64], "compute_bw": [4096, 64], "par_dispatch": [4, 1],
        "fifo_depth": [1, 2], "weight_dtype": ["f32", "bf16"], "activation_dtype": ["f32"],
    },
}  # fmt: skip
"""Values of parameters that are taken, each alone."""

_NEEDED = {
    "moe": ("tile",), "attention": (), "decoder": ("tile", "strategy"),
    "swiglu": ("tile", "tile_inter", "batch", "hidden", "intermediate"),
}  # fmt: skip

_CLASSES = {
    "moe": st.workloads.Moe,
    "attention": st.workloads.Attention,
    "decoder": st.workloads.Decoder,
    "swiglu": st.workloads.Swiglu,
}


def with_effect(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters without those that the others leave without effect."""
    known = st.workloads.fields_of(_CLASSES[name])
    return {key: value for key, value in given.items() if not known[key].unused(given)}


def _parameters(s: Script, name: str, experts: int, active: int) -> dict[str, Any]:
    rng = s.rng
    known = PARAMETERS[name]
    chosen = [key for key in known if key in _NEEDED[name] or rng.random() < 0.25]
    drawn = {key: rng.choice(known[key]) for key in chosen}
    if rng.random() >= s.dirt:
        drawn = with_effect(name, drawn)
    given = {key: s.maybe(value) for key, value in drawn.items()}
    if name != "swiglu":
        tiny = TINY | {"experts": {"count": experts, "active": active, "inner_dim": 128}}
        given["model"] = s.maybe(tiny) if rng.random() < 0.6 else _model(s)
    if s.dirt and rng.random() < 0.1:
        given["tiles"] = s.maybe(1)
    return given


def _sizes(s: Script) -> tuple[int, int]:
    experts = s.rng.choice([1, 2, 4])
    return experts, s.rng.randint(1, experts)


def _by_name(s: Script) -> None:
    rng = s.rng
    name = rng.choice(sorted(PARAMETERS))
    experts, active = _sizes(s)
    data = _data(s, experts, active)
    options: dict[str, Any] = {}
    if rng.random() < 0.5:
        options["machine"] = s.maybe(
            rng.choice(
                ["sda-1024", "sda-hdl", None, st.load_machine("sda-1024", {"hbm.channels": 3})]
            )
        )
    if rng.random() < 0.3:
        options["config"] = s.maybe(rng.choice([None, "published"]))
    if rng.random() < 0.4:
        options["counting"] = s.maybe(rng.choice(["executed", "published", "paper", None]))
    given = _parameters(s, name, experts, active)
    case = s.exactly(
        "st.simulation.make_case",
        st.simulation.make_case,
        s.maybe(name),
        s.maybe(data),
        **options,
        **given,
    )
    _use(s, case, data)


def _use(s: Script, case: Any, data: Any) -> None:
    """Build and run what fits in a case; models of a real size do not."""
    s.exactly("case.describe", case.describe, data)
    if case.resolved.workload.values().get("model") is not None:
        model = case.resolved.workload.values()["model"]
        if model.model_dim > 128 or data.rows > 16:
            return
    result = s.exactly("case.result", case.result, data, limits=_limits())
    check_result(result)
    if s.rng.random() < 0.2:
        check_export(result)
    if s.dirt:
        other = s.maybe(_data(s, 2, 1))
        if isinstance(other, st.workloads.Data):
            s.exactly("case.result", case.result, other, limits=_limits())
        return
    check_same(result, s.exactly("case.result", case.result, data, limits=_limits()))
    measures = s.exactly("case.measures", case.measures, result, data)
    if result.status == "ok":
        for name in ("compute_utilization", "bandwidth_utilization"):
            used = measures[name]
            # The published ways of counting count work that these programs do not do.
            executed = case.counting == "executed"
            assert used is None or used >= 0, f"{name} is negative: {used}"
            assert not executed or used is None or used <= 1, f"{name} is above 1: {used}"


def _by_class(s: Script) -> None:
    name = s.rng.choice(sorted(_CLASSES))
    experts, active = _sizes(s)
    given = _parameters(s, name, experts, active)
    kind = _CLASSES[name]
    data = _data(s, experts, active)
    if s.rng.random() < 0.5:
        if s.rng.random() < 0.3:
            given["config"] = s.maybe("published")
        given["data"] = data
        given["machine"] = s.maybe("sda-1024")
        made = s.exactly(f"st.{kind.__name__}.of", kind.of, **given)
    else:
        # A name that a function does not have is an error of Python itself.
        given.pop("tiles", None)
        made = s.exactly(f"st.{kind.__name__}", kind, **given)
    assert repr(made)
    assert s.exactly("workload.columns", made.columns) is not None
    model = getattr(made, "model", None)
    if model is not None and model.model_dim > 128:
        return
    wide = [getattr(made, key, 0) or 0 for key in ("batch", "hidden", "intermediate")]
    if max(wide) > 1024:
        return
    built = s.exactly("workload.build", made.build, s.maybe(data))
    if not isinstance(data, st.workloads.Data) or data.rows > 16:
        return
    bindings = s.exactly("built.bindings", built.bindings, data)
    result = s.exactly(
        "st.simulate", st.simulate, built.program, bindings=bindings, limits=_limits()
    )
    check_result(result)


@dataclass(frozen=True, kw_only=True)
class Gated(st.workloads.Workload):
    """A workload of a user's own."""

    name: ClassVar = "fuzzed-gated"

    rows: Annotated[int, st.workloads.Param("rows", "rows")] = 4
    depth: Annotated[int | None, st.workloads.Param(machine="fifo.depth")] = None
    share: Annotated[float, st.workloads.Param("a share", least=0, most=1)] = 0.5
    word: Literal["a", "b"] = "a"
    flagged: bool = False

    def build(self, data: st.workloads.Data) -> st.workloads.Built:
        with st.Program(compute_bw=8) as program:
            x = st.linear_load(st.spec(self.rows, 4), (1, 4))
            x.map(st.fn.silu).consume()
        return st.workloads.Built(program)


def _own(s: Script) -> None:
    """Classes of users: what they declare, and what their instances are given."""
    rng = s.rng
    if rng.random() < 0.5:
        given = {
            "rows": s.maybe(rng.randint(1, 8)), "share": s.maybe(rng.choice([0, 0.5, 1])),
            "word": s.maybe("b"), "flagged": s.maybe(True), "depth": s.maybe(3),
        }  # fmt: skip
        chosen = {key: value for key, value in given.items() if rng.random() < 0.6}
        made = s.exactly("Gated", Gated, **chosen)
        _built(s, made)
        return
    _built(s, s.exactly("<a class of fields>", lambda: _declared(s)()))


def _built(s: Script, made: Any) -> None:
    s.exactly("workload.columns", made.columns)
    s.exactly("workload.values", made.values)
    built = s.exactly("workload.build", made.build, st.workloads.Data.of(rows=2))
    if made.values().get("rows", 1) <= 1024:
        check_result(s.exactly("st.simulate", st.simulate, built.program, limits=_limits()))


def _declared(s: Script) -> Any:
    """A class with one parameter of any declaration."""
    rng = s.rng
    hint = rng.choice([int, float, bool, str, int | None, Literal["a", 3], tuple[int, ...], list])
    options = {
        "help": "x", "unit": "y", "least": 0, "most": 9, "machine": "fifo.depth", "like": "size",
        "of_model": len, "otherwise": "z", "text": True,
    }  # fmt: skip
    chosen = {key: s.maybe(value) for key, value in options.items() if rng.random() < 0.2}
    param = s.exactly("st.workloads.Param", st.workloads.Param, **chosen)
    default = s.maybe(rng.choice([1, 2.5, "a", None, True]))
    try:
        made = type(
            "Declared",
            (Gated,),
            {"__annotations__": {"size": Annotated[hint, param]}, "size": default},
        )
        return dataclass(frozen=True, kw_only=True)(made)
    except ValueError:  # of dataclasses: a default that can change
        raise Refused from None


def _described(s: Script) -> None:
    """Models and their texts."""
    model = s.exactly("st.workloads.Model.parse", st.workloads.Model.parse, _model(s))
    assert repr(model)
    assert str(model) is not None
    again = s.exactly(
        "st.workloads.Model.parse", st.workloads.Model.parse, s.exactly("to_dict", model.to_dict)
    )
    assert again == model, "a model read from its own dimensions is another"
    for part in ("moe", "attention", "feed_forward", "expert_layers"):
        try:
            s.exactly(f"model.{part}", lambda part=part: getattr(model, part))
        except Refused:
            continue
