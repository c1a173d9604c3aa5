"""A decoder layer on several chips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepsim.graph import Program, Stream, chip
from stepsim.workloads.decoder.layer import DecoderLayer
from stepsim.workloads.decoder.parts import EXPERTS, RESIDUALS
from stepsim.workloads.inputs import Data
from stepsim.workloads.moe.build import store_rows
from stepsim.workloads.parallel.layers import Layers
from stepsim.workloads.tensors import micro_batch

if TYPE_CHECKING:
    from stepsim.workloads.decoder.parameters import Decoder


def build_on_chips(workload: Decoder, data: Data, program: Program) -> dict[Any, Any]:
    """The program; returns values of its symbolic sizes."""
    split = workload.split
    sizes: dict[Any, Any] = {}
    turns: dict[int, Stream] = {}
    for j, batch in enumerate(split.batches(data)):
        with micro_batch(j):
            layers = _build(workload, batch, program, turns)
            sizes |= layers.sizes
            turns = layers.ends() if j + 1 < split.micro else {}
    return sizes


def _build(workload: Decoder, data: Data, program: Program, turns: dict[int, Stream]) -> Layers:
    """The layers of a batch; chips begin with it at their ``turns``."""
    split, model, parts = workload.split, workload.model, workload.built_parts
    own = workload.on_one_chip
    shares = [split.data(data, d) for d in range(split.dp)]

    def layer(group: int) -> DecoderLayer:
        return DecoderLayer(own, shares[group], program)

    routing, experts = None, None
    if EXPERTS in parts and model.experts is not None:
        experts = model.experts.count
        routing = [split.routing(data, d, experts, model.experts.active) for d in range(split.dp)]
    layers = Layers(
        split, program, layer, routing, experts, workload.collective, RESIDUALS in parts, turns
    )
    if EXPERTS in parts:
        rows = layers.results()
        for d in range(split.dp):
            for t in range(split.tp):
                with chip(split.chip(split.pp - 1, d, t)):
                    store_rows(rows[d][t])
        return layers
    for d, group in enumerate(layers.attended(0)):
        for t, (made, tiles) in enumerate(group):
            assert isinstance(made, DecoderLayer)
            with chip(split.chip(0, d, t)):
                made.store(tiles)
    return layers
