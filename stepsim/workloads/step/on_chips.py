"""A step on several chips."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepsim.graph import Program, Stream, chip
from stepsim.workloads.moe.build import store_rows
from stepsim.workloads.parallel.layers import Layers
from stepsim.workloads.parallel.split import Table
from stepsim.workloads.parameters import Data
from stepsim.workloads.step.layer import StepLayer

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
    own = replace(workload, model=model, tp=1, ep=1, pp=1, dp=1, collective="ring")
    shares = [split.data(data, d) for d in range(split.dp)]

    def layer(group: int) -> StepLayer:
        return StepLayer(own, shares[group], program)

    rows: list[list[Stream]] = []
    sizes: dict[Any, Any] = {}
    if workload.has_layer:
        routing, experts = None, None
        if workload.layer_model.experts is not None:
            experts = workload.layer_model.experts.count
            routing = _routing(workload, data)
        layers = Layers(split, program, layer, routing, experts, workload.collective)
        rows, sizes = layers.results(), layers.sizes
    for d in range(split.dp):
        for t in range(split.tp):
            with chip(split.chip(split.pp - 1, d, t)):
                if workload.has_head:
                    layer(d).head(rows[d][t] if rows else None)
                if rows:
                    store_rows(rows[d][t])
    return sizes


def _routing(workload: Step, data: Data) -> list[Table]:
    """The experts of the tokens of each group."""
    shape, split = workload.layer_model.moe, workload.split
    return [split.routing(data, d, shape.experts, shape.active) for d in range(split.dp)]
