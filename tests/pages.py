"""Pages of the documentation, run from top to bottom: what they show is what is printed."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from stepsim.cli.main import main

__all__ = ["DOCS", "run_page"]

DOCS = Path(__file__).parents[1] / "docs"

_BLOCK = re.compile(r"```(python|sh|yaml)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", flags=re.DOTALL)
_FILE = re.compile(r"# (\S+\.(?:py|yaml))\n")


def run_page(page: str) -> list[str]:
    """Run the blocks of a page in the current folder; returns what was shown and not printed.

    A Python or YAML block whose first line is ``# name.py`` is written to that file, Python without
    such a line is executed, and lines of ``sh`` blocks are commands of stepsim. The text block that
    follows must be what was printed; ``...`` in it stands for anything.
    """
    text = (DOCS / page).read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "page"}
    wrong = []
    found = list(_BLOCK.finditer(text))
    # No text block may stand where nothing is printed, since it would not be checked.
    assert sum(block[3] is not None for block in found) == text.count("```text")
    for block in found:
        kind, body, shown = block.groups()
        file = _FILE.match(body)
        printed = ""
        if file is not None:
            Path(file[1]).write_text(body, encoding="utf-8")
        elif kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, page, "exec"), names)
            printed = out.getvalue()
        elif kind == "sh":
            printed = _commands(body)
        if shown is not None and not _matches(shown, printed):
            wrong.append(f"{page}: expected\n{shown}\nfound\n{printed}")
    return wrong


def _commands(body: str) -> str:
    """What the commands print; one that should fail ends in ``|| true``."""
    out = io.StringIO()
    for line in body.replace("\\\n", " ").splitlines():
        command, _, fails = line.partition(" || ")
        program, *arguments = shlex.split(command, comments=True)
        assert program == "stepsim", line
        with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
            main(arguments)
        assert bool(ended.value.code) == bool(fails), (line, out.getvalue())
    return out.getvalue()


def _matches(shown: str, printed: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in _plain(shown).split("..."))
    return re.fullmatch(pattern, _plain(printed), flags=re.DOTALL) is not None


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
