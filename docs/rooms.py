"""The picture of the rooms in ``architecture.md``, drawn from the code; run me to draw it anew.

The order of the layers is that of the contract in ``pyproject.toml`` that import-linter checks, and
the description of a room is the first sentence of its docstring.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

from drawn import redrawn

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "stepsim"
PAGE = DOCS / "architecture.md"
NAME, WIDTH = 19, 100


def layers() -> list[list[str]]:
    """Names of rooms and modules, layer by layer from the top."""
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    contract = next(one for one in contracts if "stepsim.cli" in str(one.get("layers")))
    return [
        [name.strip(" ()").removeprefix("stepsim.") for name in layer.split("|")]
        for layer in contract["layers"]
    ]


def purpose(path: Path) -> str:
    """The first sentence of the docstring of a room or module."""
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    sentence = " ".join(text.partition("\n\n")[0].replace("`", "").split()).partition(". ")[0]
    while len(sentence) > WIDTH - NAME - 1:  # What follows the last colon or comma goes.
        sentence = sentence[: max(sentence.rfind(mark) for mark in ":;,")]
    return sentence.rstrip(".")


def picture() -> str:
    """The layers, each room with its purpose and its inner rooms."""
    blocks = []
    for layer in layers():
        lines = []
        for name in layer:
            path = PACKAGE / name
            lines.append(f"{name + ('/' if path.is_dir() else ''):{NAME}} {purpose(path)}")
            inner = [one for one in sorted(path.glob("*/__init__.py")) if path.is_dir()]
            lines += [
                f"  {one.parent.name + '/':{NAME - 2}} {purpose(one.parent)}" for one in inner
            ]
        blocks.append("\n".join(lines))
    return "```\n" + f"\n{'─' * WIDTH}\n".join(blocks) + "\n```\n"


def drawn(page: str) -> str:
    """The page with the picture of today."""
    return redrawn(page, "rooms", picture())


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
