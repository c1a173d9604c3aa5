"""The code of a page, run from top to bottom: for its pictures, and for the tests of the pages."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepsim.cli.main import main

_FENCE = re.compile(r"(`{3,})(\S*) ?(.*)$")
_FILE = re.compile(r"# (\S+\.(?:py|yaml))\n")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its line on the page, the word and the text behind the fence, its body."""

    line: int
    kind: str
    about: str
    body: str


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    fence, line, kind, about = "", 0, "", ""
    body: list[str] = []
    for number, row in enumerate(text.splitlines(), start=1):
        found = _FENCE.match(row)
        if fence and row == fence:
            yield Block(line, kind, about, "".join(f"{one}\n" for one in body))
            fence = ""
        elif fence:
            body.append(row)
        elif found is not None:
            fence, kind, about = found.groups()
            line, body = number, []


class Session:
    """What the blocks of a page run in: the names that they define, and the current folder.

    A Python or YAML block whose first line is ``# name.py`` is written to that file, Python without
    such a line is executed, and lines of ``sh`` blocks are commands of stepsim.
    """

    def __init__(self, page: str) -> None:
        self.page = page
        self.names: dict[str, Any] = {"__name__": "page"}

    def run(self, block: Block) -> str:
        """Run a block; returns what it prints.

        Raises
        ------
        ValueError : a command ends with another exit code than the page says: 0, or with
            ``|| true`` behind the command another one.
        """
        file = _FILE.match(block.body)
        if file is not None and block.kind in ("python", "yaml"):
            Path(file[1]).write_text(block.body, encoding="utf-8")
            return ""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if block.kind == "python":
                exec(compile(block.body, self.page, "exec"), self.names)
            elif block.kind == "sh":
                for line in block.body.replace("\\\n", " ").splitlines():
                    self._command(line)
        # Where the reader keeps the files is not part of what a page shows.
        return out.getvalue().replace(f"{Path.cwd()}/", "")

    def _command(self, line: str) -> None:
        command, _, fails = line.partition(" || ")
        program, *arguments = shlex.split(command, comments=True)
        if program != "stepsim":
            raise ValueError(f"{self.page}: expected a command of stepsim, found {line!r}")
        try:
            main(arguments)
        except SystemExit as ended:
            if bool(ended.code) != bool(fails):
                raise ValueError(f"{self.page}: {line!r} ended with {ended.code}") from ended
