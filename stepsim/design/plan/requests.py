"""Times of a request to a whole model, from cycles of its block.

A model is its block, run once for each layer with the weights of that layer, as StreamTensor runs
it: a prompt passes all layers once, then every token of the output does. The published rows obey
``latency = ttft + output / speed``, so what a request costs once beside that is counted with the
output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stepsim.errors import ArgError

__all__ = ["RequestTimes", "joules_per_token", "request_times"]


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

    def over(self, other: RequestTimes) -> tuple[float, float, float]:
        """Ratios to another: latency, time to the first token, tokens per second."""
        return (
            self.latency_ms / other.latency_ms,
            self.ttft_ms / other.ttft_ms,
            self.tokens_per_second / other.tokens_per_second,
        )


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
    return RequestTimes(prompt, output, ttft, ttft + decode, output / decode * 1e3)


def joules_per_token(times: RequestTimes, watts: float) -> float:
    """Energy of one token of the output at a power that is given: the paper states none.

    Raises
    ------
    ArgError : the power is not positive.
    """
    if watts <= 0:
        raise ArgError(f"joules_per_token: watts is {watts:g}; use a power above 0")
    return watts * times.latency_ms / 1e3 / times.output
