"""Times of whole models from plans of their blocks: TTFT, token/s, latency of a request.

A model is its block, run once for each layer with other weights (StreamTensor, section 1). Layers
follow each other, so their times add up.
"""

from __future__ import annotations

from math import inf

from stepsim.arguments import is_number, is_whole, shown
from stepsim.design.plan.plans import Plan
from stepsim.design.plan.requests import RequestTimes, request_times
from stepsim.errors import ArgError

__all__ = ["layers_of", "model_milliseconds", "request"]


def layers_of(plan: Plan) -> int:
    """Layers of the model that a plan is a block of; 1 for a graph that does not say it."""
    return int(plan.graph.operators.attributes.get("layers", 1))


def model_milliseconds(plan: Plan) -> float | None:
    """All layers of a plan; None where the machine states no clock or nothing was simulated."""
    cycles = plan.simulated
    return None if cycles is None else plan.machine.milliseconds(layers_of(plan) * cycles)


def request(
    prefill: Plan, decode: Plan, generated: int, *, overhead_ms: float = 0.0
) -> RequestTimes:
    """A request whose prompt is that of a prefill plan, and whose tokens are of a decode plan.

    Every token takes what the decode plan takes with its rows of cache, however many the request
    has by then: a design is made for the longest request that it serves.

    Parameters
    ----------
    generated : tokens.
    overhead_ms : what every request takes beside, counted with the output.

    Raises
    ------
    ArgError : a plan is of another phase, machine, model, size or batch than the other, or has no
        times.
    """
    about = prefill.graph.operators.attributes, decode.graph.operators.attributes
    if (about[0].get("phase"), about[1].get("phase")) != ("prefill", "decode"):
        raise ArgError(
            f"request: expected plans of phases prefill and decode, found {about[0].get('phase')} "
            f"and {about[1].get('phase')}"
        )
    if about[0].get("model") != about[1].get("model") or prefill.machine != decode.machine:
        raise ArgError(
            f"request: expected plans of one model and machine, found {prefill} and {decode}"
        )
    if _weights(prefill) != _weights(decode):
        raise ArgError(
            f"request: the plans of {about[0].get('model')} have weights of other shapes or types; "
            "compile both with the same sizes"
        )
    if about[0].get("batch", 1) != about[1].get("batch", 1):
        raise ArgError(
            f"request: expected plans of one batch, found {about[0].get('batch', 1)} requests at a "
            f"time in prefill and {about[1].get('batch', 1)} in decoding"
        )
    if not is_whole(generated) or generated < 1:
        raise ArgError(f"request: generated must be an int from 1, found {shown(generated)}")
    if not is_number(overhead_ms) or not 0 <= overhead_ms < inf:
        raise ArgError(f"request: overhead_ms must be a number from 0, found {shown(overhead_ms)}")
    first, each = model_milliseconds(prefill), model_milliseconds(decode)
    if first is None or each is None:
        raise ArgError(
            f"request: machine {prefill.machine.name} states no clock, or a plan was not simulated"
        )
    step = each / int(about[1].get("tokens", 1))
    return request_times(int(about[0]["tokens"]), generated, lambda _: first, step, overhead_ms)


def _weights(plan: Plan) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shapes and types of the weights of a plan, by name."""
    weights = plan.graph.operators.with_role("weight")
    return {one.name: (one.shape, one.dtype) for one in weights}
