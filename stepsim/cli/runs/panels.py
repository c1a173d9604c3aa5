"""The help of commands of workloads: options in panels, the rare ones last."""

from __future__ import annotations

from typing import ClassVar, Final

from stepsim.cli.panels import PanelCommand

_PANELS: Final = {
    "Workload": ("config",),
    "Data": ("routing", "kv_lengths", "new_tokens", "batch"),
    "Machine": ("level", "machine", "overrides"),
    "Run": ("fix", "place", "slowdown", "stated", "pareto", "max_cycles", "max_seconds", "ensemble",
            "per_tile", "search_seed", "effort"),
    "Output": (
        "why", "path", "what_if", "write_fix", "graph", "every", "addresses", "record", "out",
        "perfetto", "picture", "json", "help",
    ),
    "Advanced": ("counting", "events"),
}  # fmt: skip
"""Options by panel, in the order of the help; parameters of workloads are in the first panel."""


class WorkloadCommand(PanelCommand):
    """A command with the parameters of a workload and the options that all workloads share.

    Attributes
    ----------
    own : names of the parameters.
    """

    panels: ClassVar = _PANELS
    own: frozenset[str] = frozenset()

    def place(self, name: str) -> tuple[str, int]:
        if name in self.own:
            return "Workload", 0
        known = any(name in names for names in self.panels.values())
        return super().place(name) if known else ("Run", 0)
