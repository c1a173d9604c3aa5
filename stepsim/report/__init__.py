"""Results for people: summaries, tables and pictures."""

from __future__ import annotations

__all__: list[str] = []
