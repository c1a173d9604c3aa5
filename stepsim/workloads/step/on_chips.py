"""A step on several chips."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepsim.graph import Program, Stream, chip
from stepsim.workloads.inputs import Data
from stepsim.workloads.moe.build import store_rows
from stepsim.workloads.parallel.layers import Layers
from stepsim.workloads.parallel.split import Table
from stepsim.workloads.step.layer import StepLayer
from stepsim.workloads.tensors import micro_batch

if TYPE_CHECKING:
    from stepsim.workloads.step.parameters import Step


def build_on_chips(workload: Step, data: Data, program: Program) -> dict[Any, Any]:
    """The program; returns values of its symbolic sizes."""
    split = workload.split
    model = workload.model
    if workload.has_layer:
        model = split.model(model)
    elif model.vocabulary is not None:
        # Of the head alone only the words are divided.
        model = replace(model, vocabulary=model.vocabulary // split.tp)
    own = replace(
        workload, model=model, tp=1, ep=1, pp=1, dp=1, pp_micro_batches=1, collective="ring"
    )
    sizes: dict[Any, Any] = {}
    turns: dict[int, Stream] = {}
    for j, batch in enumerate(split.batches(data)):
        with micro_batch(j):
            layers = _build(workload, own, batch, program, turns)
            if layers is not None:
                sizes |= layers.sizes
                turns = layers.ends() if j + 1 < split.micro else {}
    return sizes


def _build(
    workload: Step, own: Step, data: Data, program: Program, turns: dict[int, Stream]
) -> Layers | None:
    """The layers of a batch, or the head alone; chips begin with it at their ``turns``."""
    split = workload.split
    shares = [split.data(data, d) for d in range(split.dp)]

    def layer(group: int) -> StepLayer:
        return StepLayer(own, shares[group], program)

    rows: list[list[Stream]] = []
    layers = None
    if workload.has_layer:
        routing, experts = None, None
        if workload.layer_model.experts is not None:
            experts = workload.layer_model.experts.count
            routing = _routing(workload, data)
        layers = Layers(split, program, layer, routing, experts, workload.collective, turns=turns)
        rows = layers.results()
    for d in range(split.dp):
        for t in range(split.tp):
            with chip(split.chip(split.pp - 1, d, t)):
                if workload.has_head:
                    layer(d).head(rows[d][t] if rows else None)
                if rows:
                    store_rows(rows[d][t])
    return layers


def _routing(workload: Step, data: Data) -> list[Table]:
    """The experts of the tokens of each group."""
    shape, split = workload.layer_model.moe, workload.split
    return [split.routing(data, d, shape.experts, shape.active) for d in range(split.dp)]
