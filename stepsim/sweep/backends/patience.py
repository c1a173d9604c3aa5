"""Timeouts for schedulers, in seconds."""

from __future__ import annotations

ANSWER_SECONDS = 10.0
"""Time in which a scheduler at an address must respond."""

LOOK_SECONDS = 5.0
"""Interval between checks for workers of a scheduler."""

DESERTED_SECONDS = 60.0
"""Time for which a scheduler may have no workers, as while they are replaced."""
