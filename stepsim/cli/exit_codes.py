"""How the command ends; scripts rely on these."""

from __future__ import annotations

from typing import Final

__all__ = ["BAD_INPUT", "RUN_FAILED"]

RUN_FAILED: Final = 1
"""A run ended in a deadlock, with a failed unit or at a limit, or a user's code raised."""

BAD_INPUT: Final = 2
"""An option, file, trace or machine cannot be used."""
