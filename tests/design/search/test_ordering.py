"""The fastest order of loops: no named order is clearly faster, and the output says what it is."""

from __future__ import annotations

from typing import Any

import pytest

import stepsim as st
from stepsim.design import GraphBuilder
from stepsim.design.choices import OrderChoice
from stepsim.design.passes.loops.tiling import ORDERS
from stepsim.design.plan.summary import order_text
from stepsim.design.search.ordering import ALIKE
from tests.design.search.small import SIZES
from tests.samples import sampled

SMALL: dict[str, Any] = SIZES | {"tokens": 32}


@pytest.mark.slow
@pytest.mark.parametrize("phase", sampled(["prefill", "decode"], "decode"))
def test_no_named_order_is_clearly_faster(phase: str) -> None:
    sizes = SMALL if phase == "prefill" else SIZES
    found = st.compile("gpt2-medium", phase=phase, placed=False, runs=0, **sizes).plan
    named = {
        order: st.compile(
            "gpt2-medium", phase=phase, placed=False, runs=0, order=order, **sizes
        ).plan
        for order in ORDERS
    }
    cycles = {order: plan.unbounded or 0 for order, plan in named.items()}
    least = min(cycles.values())
    assert found.unbounded is not None
    assert found.unbounded == cycles[found.choices["order"]]
    assert found.unbounded <= least * (1 + ALIKE)
    # Among those that are as fast, none has fewer bytes of converters.
    alike = [one for one in named.values() if one.unbounded == least]
    assert found.graph.converter_bytes <= min(one.graph.converter_bytes for one in alike)
    for order, tried in found.choices["orders_tried"].items():
        assert tried in (None, cycles[order])
        if tried is None:
            assert cycles[order] > least * (1 + ALIKE)


@pytest.mark.long
def test_a_prompt_is_twice_as_fast_as_in_the_printed_order() -> None:
    orders: tuple[OrderChoice, ...] = ("fastest", "reductions_outermost")
    made = [
        st.compile(
            "gpt2-medium", tokens=64, order=order, sizing="unbounded", predict=False, placed=False
        ).plan
        for order in orders
    ]
    fast, printed = (plan.simulated for plan in made)
    assert fast is not None
    assert printed is not None
    assert fast < 0.45 * printed
    (said,) = order_text(made[0])
    assert said.startswith("loops are ordered ")
    assert "reductions_outermost slower" in said
    assert order_text(made[1]) == []


def test_an_order_that_cannot_be_had_is_left_out() -> None:
    b = GraphBuilder("plain", "i8", "i4")
    given = b.input("given", (32, 32))  # no tokens, so that nothing has them outermost
    b.output(b.linear(given, b.weight("w", (32, 32))), "y")
    plan = st.compile(b.graph(), unroll=64, placed=False).plan
    assert "tokens_outermost" not in plan.choices["orders_tried"]
    assert st.design.Plan.from_yaml(plan.to_yaml()) == plan
    with pytest.raises(st.errors.CompileError, match="tokens_outermost"):
        st.compile(b.graph(), unroll=64, order="tokens_outermost")


def test_mistakes_are_those_of_the_passes() -> None:
    with pytest.raises(st.errors.ArgError, match="did you mean 'fastest'"):
        st.compile("gpt2-medium", order="fast", **SIZES)  # type: ignore[arg-type]
    with pytest.raises(st.errors.CompileError, match="unroll budget of 3"):
        st.compile("gpt2-medium", unroll=3, **SIZES)
