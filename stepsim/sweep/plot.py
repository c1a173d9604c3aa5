"""A picture of design points: two costs, the frontier joined."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stepsim.atomic import replacing
from stepsim.errors import SweepError
from stepsim.sweep.compare import DesignCost

__all__ = ["plot_designs"]


def plot_designs(costs: Sequence[DesignCost], x: str, y: str, path: Path) -> None:
    """Draw design points to a file; its ending decides the format.

    Raises
    ------
    SweepError
        matplotlib is not installed, or does not know the format.
    OutputError
        The file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SweepError(
            "plot: the package matplotlib is not installed; pip install 'stepsim[plot]'"
        ) from error
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    best = sorted((cost for cost in costs if cost.on_frontier), key=lambda cost: cost.x)
    axes.plot([c.x for c in best], [c.y for c in best], "-", color="0.6", zorder=1)
    for chosen, colour in ((True, "tab:red"), (False, "tab:blue")):
        group = [cost for cost in costs if cost.on_frontier is chosen]
        axes.scatter([c.x for c in group], [c.y for c in group], color=colour, zorder=2)
    for cost in costs:
        axes.annotate(cost.label, (cost.x, cost.y), xytext=(4, 4), textcoords="offset points")
    axes.set_xlabel(f"mean {x}")
    axes.set_ylabel(f"mean {y}")
    kind = path.suffix.removeprefix(".") or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise SweepError(f"plot: {path} has no format that matplotlib knows; use .png or .pdf")
    with replacing(path) as (temporary,):
        figure.savefig(temporary, format=kind)
