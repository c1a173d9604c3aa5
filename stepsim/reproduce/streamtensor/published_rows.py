"""Requests to a published configuration beside the rows of the publication."""

from __future__ import annotations

from dataclasses import dataclass

from stepsim.errors import ArgError
from stepsim.reproduce.streamtensor.gpt2 import PUBLISHED, design_times, uncalibrated
from stepsim.reproduce.streamtensor.published_gpt2 import SYSTEM, published_gpt2
from stepsim.typed import typed


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A request: simulated times of the configuration, and those of the publication.

    Times are in ms, and of designs with unbounded FIFOs, without a fixed time for each request.
    """

    request: str
    latency_ms: float
    published_latency_ms: float
    TTFT_ms: float
    published_TTFT_ms: float
    token_per_s: float
    published_token_per_s: float


@typed
def published_rows(config: str) -> list[PublishedRow]:
    """All requests of the publication of a configuration.

    Raises
    ------
    ArgError : there is no such configuration.
    """
    if config != PUBLISHED.name:
        raise ArgError(f"published_rows: there is no config '{config}'; use '{PUBLISHED.name}'")
    design = uncalibrated()
    rows = []
    for (prompt, output), systems in published_gpt2().items():
        ours, theirs = design_times(design, prompt, output), systems[SYSTEM].times
        rows.append(
            PublishedRow(
                f"{prompt}:{output}", ours.latency_ms, theirs.latency_ms, ours.ttft_ms,
                theirs.ttft_ms, ours.tokens_per_second, theirs.tokens_per_second,
            )
        )  # fmt: skip
    return rows
