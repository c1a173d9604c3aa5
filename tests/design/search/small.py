"""A small copy of a block that compiles in a fraction of a second."""

from __future__ import annotations

from functools import cache
from typing import Any

import stepsim as st
from stepsim.design import Sizing

SIZES: dict[str, Any] = {
    "hidden": 64, "inner": 128, "heads": 4, "kv_heads": 4, "head_dim": 16,
}  # fmt: skip


@cache
def small(
    phase: str = "prefill", budget: int = 41_000_000, sizing: Sizing = "lp"
) -> st.design.Compiled:
    """GPT-2 with 64 in place of 1,024 elements, in the order that the paper prints."""
    return st.compile(
        "gpt2-medium",
        phase=phase,
        budget=budget,
        sizing=sizing,
        order="reductions_outermost",
        **SIZES,
    )
