"""The tables of ``public-machines.md``, drawn from the presets; run me to draw them anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from drawn import redrawn

import stepsim as st
from stepsim.machine.presets import PUBLIC_MACHINES

PAGE = Path(__file__).parent / "public-machines.md"


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value}"


def _section(name: str, record: Mapping[str, Any]) -> Iterator[str]:
    known = st.machine.provenance(name)
    yield f"## {name}\n\n{record['description']}\n"
    yield "| key | value | source, or reason of an assumption |\n|---|---|---|"
    for key, value in record["values"].items():
        why = known.sources.get(key) or f"*Assumed.* {known.assumptions[key]}"
        yield f"| `{key}` | {_shown(value['is'])} | {why} |"
    for title, remarks in (("Not public", known.not_public), ("Left out", known.left_out)):
        yield "\n" + "\n".join([f"{title}:\n", *(f"* {one}" for one in remarks)])
    yield ""


def drawn(page: str) -> str:
    """The page with the tables of today."""
    parts = [line for name, record in PUBLIC_MACHINES.items() for line in _section(name, record)]
    return redrawn(page, "public_machines", "\n".join(parts))


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
