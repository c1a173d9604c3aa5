"""Times of whole models from plans of their blocks: TTFT, token/s, latency of a request.

A model is its block, run once for each layer with other weights, as in StreamTensor. Layers
follow each other, so their times add up. A prompt passes all layers once, then every token of the
output does. The published rows obey ``latency = ttft + output / speed``, so the fixed overhead of a
request is counted with the output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from stepsim.arguments import is_number, is_whole, shown
from stepsim.design.plan.plan import Plan
from stepsim.errors import ArgError
from stepsim.typed import typed


def layers_of(plan: Plan) -> int:
    """Layers of the model that a plan is a block of; 1 for a graph that does not say it."""
    return int(plan.graph.operators.attributes.get("layers", 1))


def model_milliseconds(plan: Plan) -> float | None:
    """All layers of a plan; None where the machine states no clock or nothing was simulated."""
    cycles = plan.simulated
    return None if cycles is None else plan.machine.milliseconds(layers_of(plan) * cycles)


@typed
def request(
    prefill: Plan, decode: Plan, generated: int, *, overhead_ms: float = 0.0
) -> RequestTimes:
    """A request whose prompt is that of a prefill plan, and whose tokens are of a decode plan.

    Every token takes what the decode plan takes with its rows of cache, however many the request
    has by then: a design is made for the longest request that it serves.

    Parameters
    ----------
    generated : tokens.
    overhead_ms : fixed overhead of every request, counted with the output.

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


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """A request of ``prompt`` tokens that makes ``output`` tokens.

    Attributes
    ----------
    ttft_ms : time to the first token, in ms.
    latency_ms : until the last token, in ms.
    tokens_per_second : of the output, after the first.
    """

    prompt: int
    output: int
    ttft_ms: float
    latency_ms: float
    tokens_per_second: float

    @typed
    def over(self, other: RequestTimes) -> tuple[float, float, float]:
        """Ratios to another: latency, time to the first token, tokens per second."""
        return (
            self.latency_ms / other.latency_ms,
            self.ttft_ms / other.ttft_ms,
            self.tokens_per_second / other.tokens_per_second,
        )


@typed
def request_times(
    prompt: int,
    output: int,
    prefill_ms: Callable[[int], float],
    token_ms: float,
    overhead_ms: float = 0.0,
) -> RequestTimes:
    """Times of a request.

    Parameters
    ----------
    prefill_ms : of all layers, by tokens of the prompt.
    token_ms : of all layers for one token of the output.
    overhead_ms : of a request, whatever its length.

    Raises
    ------
    ArgError : there is no output, or its time is not positive.
    """
    decode = output * token_ms + overhead_ms
    if output < 1 or decode <= 0:
        raise ArgError(
            f"request_times: {output} tokens of output take {decode:g} ms; use an output from 1 "
            "and times above 0"
        )
    ttft = prefill_ms(prompt)
    if not is_number(ttft):
        raise ArgError(f"request_times: prefill_ms gives {shown(ttft)}, expected a number of ms")
    return RequestTimes(prompt, output, ttft, ttft + decode, output / decode * 1e3)


@typed
def joules_per_token(times: RequestTimes, watts: float) -> float:
    """Energy of one output token at a given power; the paper states no power.

    Raises
    ------
    ArgError : the power is not positive.
    """
    if watts <= 0:
        raise ArgError(f"joules_per_token: watts is {watts:g}; use a power above 0")
    return watts * times.latency_ms / 1e3 / times.output
