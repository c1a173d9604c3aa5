"""The figures as pictures: ours filled, published open. matplotlib is the extra ``plot``."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from stepsim.errors import OutputError

__all__ = ["draw", "require_matplotlib"]


def require_matplotlib() -> None:
    """Raises OutputError when matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise OutputError(
            "drawing the figures needs matplotlib; install it with: pip install 'stepsim[plot]'"
        ) from error


def draw(task: tuple[str, Sequence[Mapping[str, Any]]]) -> dict[str, bytes]:
    """Draw a figure from the rows of its table: the contents of its ``png`` and ``svg`` files.

    The same rows give the same bytes.
    """
    figure, rows = task
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from stepsim.reproduce.drawing import attention, decoder, hardware, sharing, tiling
    from stepsim.reproduce.drawing.style import STYLE

    drawers = {
        "8": hardware.draw,
        "9": tiling.draw,
        "10": tiling.draw,
        "12": sharing.draw_time,
        "13": sharing.draw_resources,
        "14": attention.draw_gains,
        "15": attention.draw_batches,
        "17": decoder.draw,
        "19": tiling.draw,
        "20": tiling.draw,
        "21": attention.draw_means,
    }
    with mpl.rc_context(STYLE):
        picture = drawers[figure](figure, rows)
        FigureCanvasAgg(picture)
        files = {}
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            stream = io.BytesIO()
            picture.savefig(stream, format=kind, metadata=metadata)
            files[kind] = stream.getvalue()
    return files
