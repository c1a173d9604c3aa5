"""Damaged YAML files: machines, models, specifications of sweeps."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from stepsim import load_machine
from stepsim.machine import Machine
from stepsim.sweep import load_spec, plan_sweep
from stepsim.sweep.spec.sizes import MOST_DRAWN
from stepsim.workloads.models import read_model
from tests.fuzz.mutation import damaged_bytes, damaged_data, damaged_text
from tests.fuzz.reading import new_path, outcome
from tests.sweep.support import TINY

__all__ = ["one"]

_MODEL = """\
model_dim: 2048
layers: 48
vocabulary: 151936
experts: {count: 128, active: 8, inner_dim: 768}
attention: {heads: 32, kv_heads: 4, head_dim: 128}
weights: bf16
activations: bf16
cache: bf16
"""
_SPEC = {
    **TINY,
    "name": "small",
    "machine": "sda-1024",
    "metrics": ["cycles"],
    "limits": {"max_cycles": 1000},
    "units": True,
}
_SMALL = 100_000
_ALIASES = """\
hbm: &memory {model: channel, request_bytes: 64, channels: 32, latency: 2, interval: 2, startup: 14}
name: mine
description: with aliases
onchip: {bytes_per_cycle: 64}
fifo: {depth: null}
closure_slack: 0
"""


def _machine(path: Path) -> None:
    machine = load_machine(str(path))
    again = Machine(**yaml.safe_load(machine.to_yaml()))
    assert _same(again, machine), f"{machine} is written as {again}"


def _model(path: Path) -> None:
    model = read_model(str(path))
    assert model.model_dim >= 1


def _spec(path: Path) -> None:
    spec = load_spec(path)
    again = load_spec(spec.model_dump())
    assert _same(again, spec), f"{spec} is written as {again}"
    drawn = spec.traces and spec.traces.synthetic
    choices = 0 if drawn is None else drawn.tokens * drawn.layers * drawn.steps
    # What is allowed may still take minutes; what is not is refused at once.
    if not _SMALL < choices <= MOST_DRAWN:
        plan = plan_sweep(path)
        assert plan.runs == sum(len(chunk.traces) for chunk in plan.chunks())


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or repr(one) == repr(other)


_READERS: tuple[tuple[str, Callable[[Path], None], tuple[str, ...]], ...] = (
    ("machine", _machine, (load_machine("sda-1024").to_yaml(), _ALIASES)),
    ("model", _model, (_MODEL, yaml.safe_dump(TINY["model"]))),
    ("sweep", _spec, (yaml.safe_dump(TINY), yaml.safe_dump(_SPEC))),
)
_VALID = [text for _, _, texts in _READERS for text in texts]


def damaged(rng: random.Random, text: str) -> bytes:
    """A YAML file after one kind of damage."""
    kind = rng.randrange(4)
    if kind == 0:
        return damaged_bytes(rng, text.encode(), rng.choice(_VALID).encode())
    if kind == 1:
        return damaged_text(rng, text).encode(errors="surrogatepass")
    changed = damaged_data(rng, yaml.safe_load(text))
    try:
        written = yaml.safe_dump(changed, sort_keys=False, default_flow_style=rng.random() < 0.3)
    except (yaml.YAMLError, ValueError, RecursionError):
        return damaged_bytes(rng, text.encode(), text.encode())
    return written.encode(errors="surrogatepass")


def one(rng: random.Random) -> str:
    """Damage one file and read it."""
    what, read, texts = rng.choice(_READERS)
    content = damaged(rng, rng.choice(texts))
    with new_path("file.yaml", content) as path:
        return outcome(lambda: read(path), what, content)
