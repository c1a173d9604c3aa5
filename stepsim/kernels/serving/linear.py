"""The time of a step as a linear function of what it computes."""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined


@inlined
def linear_time(state):
    """The time of the batch at hand in ns, rounded down; its terms are in ps."""
    g = state.engine[0]
    words = state.time_words
    time = (
        words[0]
        + words[1] * g.new
        + words[2] * g.decode_context
        + words[3] * g.prefill_context
        + words[4] * g.entries
    )
    return time // 1000
