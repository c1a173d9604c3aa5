"""Published times of GPT-2 medium: tables 4 and 5 of the StreamTensor paper (arXiv 2509.13694)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from stepsim.design import RequestTimes

SYSTEM = "StreamTensor"
"""The paper's own system in the tables."""

PREFILL_SLOPE_MS = 0.7956
"""Linear term of the time to the first token, per token of the prompt, from the least-squares
parabola through the four rows of table 4. The paper does not print it."""


@dataclass(frozen=True, slots=True)
class PublishedTimes:
    """A row of tables 4 and 5 for one system.

    Attributes
    ----------
    ratios : printed ratios of latency, time to the first token and speed, StreamTensor over this
        system; None for StreamTensor itself.
    """

    system: str
    times: RequestTimes
    ratios: tuple[float, float, float] | None


@cache
def published_gpt2() -> Mapping[tuple[int, int], Mapping[str, PublishedTimes]]:
    """All systems by name, by tokens of the prompt and of the output."""
    text = files("stepsim.reproduce.streamtensor").joinpath("published_gpt2.csv").read_text("utf-8")
    found: dict[tuple[int, int], dict[str, PublishedTimes]] = {}
    for row in csv.DictReader(text.splitlines()):
        prompt, output = int(row["prompt"]), int(row["output"])
        latency, ttft, speed = (
            float(row[name]) for name in ("latency_ms", "ttft_ms", "tokens_per_second")
        )
        printed = [row[name] for name in ("latency_ratio", "ttft_ratio", "speed_ratio")]
        one, two, three = (float(ratio or "nan") for ratio in printed)
        ratios = (one, two, three) if all(printed) else None
        times = RequestTimes(prompt, output, ttft, latency, speed)
        found.setdefault((prompt, output), {})[row["system"]] = PublishedTimes(
            row["system"], times, ratios
        )
    return found
