"""Why a run takes as long as it does, and what would change that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.deferred import names_of

if TYPE_CHECKING:
    from stepsim.explain.deadlock import DeadlockFix, fix_deadlock
    from stepsim.explain.explanation import Why, explain, why
    from stepsim.explain.path import CriticalPath, critical_path
    from stepsim.explain.sizing import size_fifos
    from stepsim.explain.sizing_result import FifoSizes
    from stepsim.explain.stalls import StallTree, stall_tree
    from stepsim.explain.what_if_runs import WhatIf, what_if

__all__ = [
    "CriticalPath",
    "DeadlockFix",
    "FifoSizes",
    "StallTree",
    "WhatIf",
    "Why",
    "critical_path",
    "explain",
    "fix_deadlock",
    "size_fifos",
    "stall_tree",
    "what_if",
    "why",
]

__getattr__ = names_of(
    __name__,
    {
        "deadlock": ("DeadlockFix", "fix_deadlock"),
        "explanation": ("Why", "explain", "why"),
        "path": ("CriticalPath", "critical_path"),
        "sizing": ("size_fifos",),
        "sizing_result": ("FifoSizes",),
        "stalls": ("StallTree", "stall_tree"),
        "what_if_runs": ("WhatIf", "what_if"),
    },
)
