"""One HTML file: markup, styles, scripts, the plotting library, and the content as JSON.

Users' names occur only in the JSON, and scripts insert them into the page as text. The content
security policy of the page names its scripts by digest and allows no address, so that no injected
script can run and nothing can be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from os import PathLike
from typing import Any, Final

from stepsim.arguments import shown
from stepsim.atomic import replacing
from stepsim.deferred import require
from stepsim.errors import ArgError, OutputError
from stepsim.typed import typed

_SCRIPTS: Final[Mapping[str, tuple[str, ...]]] = {
    "run": ("base.js", "table.js", "charts.js", "graph.js", "stalls.js", "network.js", "run.js"),
    "sweep": ("base.js", "table.js", "charts.js", "sweep.js"),
    "service": ("base.js", "table.js", "charts.js", "service.js"),
}
"""Files of each kind of page, in the order in which they run; `start.js` comes last."""


def require_plotly() -> str:
    """The source of plotly.js. Raises OutputError when the package plotly is not installed."""
    source: str = require("plotly.offline", OutputError).get_plotlyjs()
    return source


@typed
def write_page(path: str | PathLike[str], document: Mapping[str, Any]) -> int:
    """Write the page of a document, from `run_document`, `sweep_document` or `service_document`.

    Returns
    -------
    Size of the file in bytes.

    Raises
    ------
    ArgError : ``document`` is another mapping.
    OutputError : plotly is not installed, or the file cannot be written; then no file remains.
    """
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in _SCRIPTS or "title" not in document:
        raise ArgError(
            "write_page: expected what run_document(), sweep_document() or service_document() "
            f"gives, found {shown(document)}"
        )
    content = page(document, require_plotly()).encode()
    with replacing(path) as (part,):
        part.write_bytes(content)
    return len(content)


def page(document: Mapping[str, Any], plotly: str) -> str:
    """The text of the page; ``plotly`` is the source of the plotting library."""
    scripts = [plotly, *map(_text, (*_SCRIPTS[document["kind"]], "start.js"))]
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "TITLE": html.escape(str(document["title"])),
        "POLICY": html.escape(policy),
        "STYLE": _text("report.css"),
        "DATA": _json(document),
        "SCRIPTS": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    text = _text("page.html")
    # Text before a mark is finished, so that inserted parts are not searched for marks.
    made = []
    for name, part in parts.items():
        before, _, text = text.partition(f"{{{{{name}}}}}")
        made += [before, part]
    return "".join([*made, text])


def _json(document: Mapping[str, Any]) -> str:
    """JSON that an HTML parser cannot mistake for markup."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
