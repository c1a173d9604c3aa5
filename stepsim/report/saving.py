"""Saving pictures as PNG, SVG and PDF. matplotlib is the extra ``plot``."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepsim.arguments import text_of
from stepsim.atomic import replacing
from stepsim.deferred import deferred, require
from stepsim.errors import OutputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

matplotlib = deferred("matplotlib")
backend_agg = deferred("matplotlib.backends.backend_agg")

# No dates and versions, so that the same picture gives the same bytes.
_METADATA: Final[dict[str, dict[str, None]]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}

_FOOT = 0.16
"""Height of the line below a picture, inches."""


def require_matplotlib() -> None:
    """Load what drawing needs. Raises OutputError when matplotlib is not installed."""
    require("matplotlib", OutputError, "backends.backend_agg", "backends.backend_svg", "figure")


def check_picture(path: str | Path) -> str:
    """The format of a picture by its suffix, without the dot.

    Raises
    ------
    OutputError : the suffix is not .png, .svg or .pdf, or matplotlib is not installed.
    """
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _METADATA:
        raise OutputError(
            f"{path}: the suffix is {path.suffix or 'missing'}, expected .png, .svg or .pdf"
        )
    require_matplotlib()
    return kind


def render(
    draw: Callable[[], Figure],
    kinds: Iterable[str],
    look: Mapping[str, Any],
    *,
    fit: bool = False,
    foot: str = "",
) -> dict[str, bytes]:
    """Draw a picture once: its file contents in the formats ``png``, ``svg`` and ``pdf``.

    Parameters
    ----------
    draw : returns the matplotlib figure; it is called with the settings of ``look``.
    kinds : formats, without dots.
    look : matplotlib settings, one of the looks of `stepsim.report.style`.
    fit : whether to fit the picture to everything drawn, including what is outside its axes.
    foot : a line of text in an extra strip below the picture.
    """
    with matplotlib.rc_context(dict(look)):
        picture = draw()
        backend_agg.FigureCanvasAgg(picture)
        _lay_out(picture)
        box = _add_foot(picture, foot) if foot else "tight" if fit else None
        files = {}
        for kind in kinds:
            stream = io.BytesIO()
            picture.savefig(stream, format=kind, metadata=_METADATA[kind], bbox_inches=box)
            files[kind] = stream.getvalue()
    return files


def _lay_out(picture: Figure) -> None:
    """Compute the layout once for all formats: saving would repeat it twice for each."""
    engine = picture.get_layout_engine()
    if engine is not None:
        engine.execute(picture)
        picture.set_layout_engine(None)


def _add_foot(picture: Figure, text: str) -> Bbox:
    """Write below a picture; what is to be saved then, in inches."""
    width, height = picture.get_size_inches()
    look: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 6}
    note = picture.text(1 - _FOOT / 2 / width, -_FOOT / 2 / height, text, **look)
    note.set_in_layout(False)
    box: Bbox = matplotlib.transforms.Bbox([[0, -_FOOT], [width, height]])
    return box


def save_picture(
    draw: Callable[[], Figure],
    path: str | Path,
    look: Mapping[str, Any],
    *,
    fit: bool = False,
    texts: Mapping[str, str] | None = None,
) -> None:
    """Draw a picture into a file, as in `render`; the suffix selects the format.

    The file is written completely or not at all. ``texts`` of the picture, by the name of the
    argument, are checked before.

    Raises
    ------
    ArgError : a text has characters that cannot be written.
    OutputError : as for `check_picture`, or the file cannot be written.
    """
    kind = check_picture(path)
    for what, text in (texts or {}).items():
        text_of(what, text)
    content = render(draw, [kind], look, fit=fit)[kind]
    with replacing(path) as (part,):
        part.write_bytes(content)
