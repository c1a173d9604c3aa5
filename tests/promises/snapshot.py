"""The file with what was promised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.promises.surface import Surface

ROOT: Final = Path(__file__).parents[2]
SNAPSHOT: Final = ROOT / "tests" / "data" / "promises.json"
CHANGELOG: Final = ROOT / "CHANGELOG.md"


def read(path: Path = SNAPSHOT) -> tuple[str, Surface]:
    """The version that made the promises, and these."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return found.pop("version"), found


def text_of(version: str, promised: Surface) -> str:
    """The text of the file: a line for each promise."""
    return json.dumps({"version": version, **promised}, indent=1, ensure_ascii=False) + "\n"
