"""Seconds, in which files and reports have times, in ns, which the times of a service are."""

from __future__ import annotations

from typing import Final

NANOSECONDS: Final = 1_000_000_000
"""Those of a second."""
