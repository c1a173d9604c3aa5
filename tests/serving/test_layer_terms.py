"""The terms that times of layers follow from, their bytes, and what bounds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepsim.serving.steps.audited import AuditReport
from stepsim.serving.steps.features import EXPERTS, IMBALANCE, WEIGHTS, LayerModel
from stepsim.serving.steps.layers import StepPrograms
from stepsim.workloads.models import Experts
from tests.serving.small import batch, layer, machine, routing, small
from tests.serving.test_engines_on_chips import chips, narrow

MIXED = batch((0, 1, 400), (1, 1, 40), (2, 17, 0))


@pytest.mark.parametrize("tile", ["dynamic", 4])
@pytest.mark.parametrize("shared", [0, 64, 4096])
def test_bytes_are_those_of_the_simulated_layer(tile: Any, shared: int) -> None:
    model = small(experts=Experts(8, 2, 64, shared))
    drawn, work = routing(model), layer(model, tile=tile)
    found = LayerModel(work, machine()).terms(MIXED, drawn.counts(MIXED))
    ids = [drawn.ids(MIXED, place) for place in range(drawn.layers)]
    simulated = StepPrograms(work, machine()).layers(0, MIXED, ids)
    assert found.offchip_bytes.tolist() == [one.offchip_bytes for one in simulated]


def test_shared_experts_are_in_the_terms_and_in_the_bound() -> None:
    def terms(shared: int, one: Any) -> Any:
        model = small(experts=Experts(8, 2, 64, shared))
        return LayerModel(layer(model), machine()).terms(one, routing(model).counts(one))

    few, many = batch((0, 1, 1)), batch((0, 60, 0))
    assert set(terms(1 << 20, few).bound) <= {EXPERTS, WEIGHTS}
    assert terms(1 << 14, many).bound == [EXPERTS] * 3
    assert (terms(1 << 20, few).values.max(axis=1) > 10 * terms(64, few).values.max(axis=1)).all()


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_uneven_experts_are_named_however_they_are_divided(parts: int) -> None:
    model = small(experts=Experts(8, 2, 4096, 0))
    work = narrow(model, **({"tp": parts, "ep": parts} if parts > 1 else {}))
    loads = np.array([[66, 2, 2, 2, 2, 2, 2, 2], [10] * 8])
    of_layers = LayerModel(work, chips(gib_per_s=10**6, latency_ns=0))
    found = of_layers.terms(batch(*((i, 1, 4) for i in range(40))), loads)
    assert found.bound[0] == IMBALANCE
    assert found.bound[1] != IMBALANCE


def test_few_audits_are_counted_without_an_interval() -> None:
    report = AuditReport(6, 6, 18, 0.0003, 0.0005, None, None, None, 0.01, within=False)
    assert str(report) == (
        "layers of 6 of 6 steps were simulated beside their estimates: error 0.03 % in the median, "
        "0.05 % at p99; these are too few for an interval of the time of all steps"
    )
    none = AuditReport(6, 0, 18, None, None, None, None, None, 0.01, within=False)
    assert str(none) == "6 steps, none of them audited"
