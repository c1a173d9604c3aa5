"""The figures as pictures: ours filled, published open. matplotlib is the extra ``plot``."""

from __future__ import annotations

import io

from stepsim.errors import OutputError
from stepsim.reproduce.figure import Rows
from stepsim.reproduce.figures import FIGURES
from stepsim.reproduce.style import STYLE

__all__ = ["draw", "require_matplotlib"]


def require_matplotlib() -> None:
    """Raises OutputError when matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise OutputError(
            "drawing the figures needs matplotlib; install it with: pip install 'stepsim[plot]'"
        ) from error


def draw(task: tuple[str, Rows]) -> dict[str, bytes]:
    """Draw a figure from the rows of its table: the contents of its ``png`` and ``svg`` files.

    The same rows give the same bytes.
    """
    figure, rows = task
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with mpl.rc_context(STYLE):
        picture = FIGURES[figure].draw(rows)
        FigureCanvasAgg(picture)
        files = {}
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            stream = io.BytesIO()
            picture.savefig(stream, format=kind, metadata=metadata)
            files[kind] = stream.getvalue()
    return files
