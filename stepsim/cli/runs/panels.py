"""The help of commands of workloads: options in panels, the rare ones last."""

from __future__ import annotations

from typing import Any, Final

from typer.core import TyperCommand

_PANELS: Final = {
    "Workload": ("config",),
    "Data": ("routing", "kv_lengths", "batch", "layer", "step", "window", "kv_step", "kv_window"),
    "Machine": ("level", "machine", "overrides"),
    "Run": ("slowdown", "stated", "pareto", "max_cycles", "max_seconds", "ensemble"),
    "Output": (
        "why", "path", "what_if", "graph", "every", "addresses", "record", "out", "perfetto",
        "json", "help",
    ),
    "Advanced": ("counting", "kv_column", "bins", "events", "span", "stream"),
}  # fmt: skip
"""Options by panel, in the order of the help; parameters of workloads are in the first panel."""

_ORDER: Final = {
    name: (panel, place)
    for panel, names in _PANELS.items()
    for place, name in enumerate(names, start=1)
}


class WorkloadCommand(TyperCommand):
    """A command with the parameters of a workload and the options that all workloads share.

    Attributes
    ----------
    own : names of the parameters.
    """

    own: frozenset[str] = frozenset()

    def get_params(self, ctx: Any) -> list[Any]:
        def place(option: Any) -> tuple[str, int]:
            name = option.name
            return ("Workload", 0) if name in self.own else _ORDER.get(name, ("Run", 0))

        panels = list(_PANELS)
        found: list[Any] = sorted(
            super().get_params(ctx), key=lambda one: (panels.index(place(one)[0]), place(one)[1])
        )
        for option in found:
            option.rich_help_panel = place(option)[0]
            if option.name == "help":
                option.metavar = ""
        return found
