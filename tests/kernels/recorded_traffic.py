"""Accesses of workloads to the memory, recorded by running the engine as plain Python.

``python -m tests.kernels.recorded_traffic`` prints those of :data:`RUNS` as JSON; it needs
``NUMBA_DISABLE_JIT=1``, because compiled kernels cannot be listened to.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from stepsim.kernels import engine
from stepsim.kernels.driver import execute
from stepsim.kernels.layout import Status
from stepsim.lowering import Image, UnitSpec, build_image, lower
from stepsim.machine import load_machine
from stepsim.workloads import Attention, Data, Decoder, Model, Moe, Workload
from stepsim.workloads.models import AttentionShape, MoEShape

__all__ = ["RUNS", "record"]

_HEADS = AttentionShape("tiny", model_dim=32, heads=4, kv_heads=2, head_dim=8)
_EXPERTS = MoEShape("tiny", experts=4, active=2, model_dim=64, inner_dim=64)
_DATA = Data.of(routing=np.array([[i % 3, 3] for i in range(6)]), kv_lengths=[3, 70, 5, 0, 41, 12])
_WORKLOADS: dict[str, Workload] = {
    "tiles": Moe(model=Model.of(_EXPERTS, _HEADS), tile=4),
    "dynamic tiles": Moe(model=Model.of(_EXPERTS, _HEADS), tile="dynamic"),
    "attention": Attention(model=_HEADS, strategy="dynamic", regions=3, kv_tile=8),
    "decoder": Decoder(
        model=Model.of(_EXPERTS, _HEADS), tile=4, strategy="dynamic", tile_inter=16,
        attention_regions=2,
    ),
}  # fmt: skip
_CHANNELS = (1, 3, 7, 8, 32, 127, 128)
_MODELS = ("published", "interleaved")

_WIDEST = (1, 64, 5)

RUNS = [
    (workload, model, channels, 1 + (w + c) % 3, 5 * ((w + c) % 4), _WIDEST[(w + c // 2) % 3])
    for w, workload in enumerate(_WORKLOADS)
    for model in _MODELS
    for c, channels in enumerate(_CHANNELS)
    if workload != "decoder" or channels in (7, 32)
]
"""Workload, memory model, channels, interval, latency, most requests per cycle of a port."""


def record(image: Image) -> dict[str, Any]:
    """Bundle size of every port, and (port, clock, requests, clock after it) of every access."""
    accesses: list[list[int]] = []
    open_access: dict[int, list[int]] = {}
    issue, wake = engine.issue, engine._wake

    def on_issue(state: Any, port: int, clock: int, requests: int) -> None:
        access = [int(port), int(clock), int(requests)]
        accesses.append(access)
        open_access[access[0]] = access
        issue(state, port, clock, requests)

    def on_wake(unit: Any, state: Any, number: int, now: int) -> None:
        if unit.state == Status.WAIT_MEMORY:
            open_access.pop(int(unit.port)).append(int(now))
        wake(unit, state, number, now)

    engine.issue, engine._wake = on_issue, on_wake
    try:
        execute(image)
    finally:
        engine.issue, engine._wake = issue, wake
    return {"bundles": image.ports["bundle"].tolist(), "accesses": accesses}


def _with_bundle(spec: UnitSpec, bundle: int) -> UnitSpec:
    if "par" not in spec.params:
        return spec
    return spec._replace(params={**spec.params, "par": bundle})


def _recorded(
    workload: str, model: str, channels: int, interval: int, latency: int, widest: int
) -> Any:
    changes = {"model": model, "channels": channels, "interval": interval, "latency": latency}
    machine = load_machine("sda-1024", {f"hbm.{key}": value for key, value in changes.items()})
    built = _WORKLOADS[workload].build(_DATA)
    _, network = lower(built.program, machine, built.bindings(_DATA))
    network = replace(
        network,
        units=tuple(_with_bundle(spec, 1 + 7 * i % widest) for i, spec in enumerate(network.units)),
    )
    timing = network.timing
    delay = max(1, timing.hbm_startup + timing.hbm_latency)
    return record(build_image(network)) | {"delay": delay}


if __name__ == "__main__":
    json.dump([_recorded(*run) for run in RUNS], sys.stdout)
