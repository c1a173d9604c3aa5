"""Predicted and simulated cycles of known designs: ``python -m bench.prediction_errors [FILE]``.

Compiles a block of every dense model in both phases, and one of a larger model, and prints the
table or writes it to FILE, which is stepsim/design/plan/prediction_errors.csv. It takes some
minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import stepsim as st
from stepsim.design.plan.predictions import Prediction, text_of

__all__ = ["CASES", "measured"]

_SIZES = (("prefill", 16), ("prefill", 64), ("decode", 64), ("decode", 511))

SHAPES = {
    "llama-3-8b": st.design.ModelShape(
        "llama-3-8b",
        32,
        4096,
        14336,
        32,
        8,
        128,
        source="config.json of meta-llama/Meta-Llama-3-8B",
    )
}
"""Models beside those with names, whose weights do not fit the chip."""

CASES = (
    *((model, *size, "") for model in st.design.MODELS for size in _SIZES),
    ("llama-3-8b", "decode", 128, ""),
    ("gpt2-medium", "prefill", 64, "published"),
    ("gpt2-medium", "decode", 511, "published"),
)
"""Model, phase, tokens of a prompt or rows of the cache, and configuration of every design."""


def measured(model: str, phase: str, rows: int, config: str) -> Prediction:
    """One design, on the U55C."""
    sizes = {"tokens" if phase == "prefill" else "context": rows}
    named = {"config": config} if config else {}
    made = st.compile(
        SHAPES.get(model, model), "u55c", phase=phase, shrink=False, fit=False, **sizes, **named
    )
    assert made.plan.predicted is not None
    assert made.plan.unbounded is not None
    return Prediction(model, phase, rows, config, made.plan.predicted, made.plan.unbounded)


def main() -> None:
    """Print the table, or write it to a file."""
    text = text_of(measured(*case) for case in CASES)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
