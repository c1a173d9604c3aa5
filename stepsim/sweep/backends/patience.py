"""How long to wait for schedulers."""

from __future__ import annotations

ANSWER_SECONDS = 10.0
"""Within which a scheduler at an address is to respond."""

LOOK_SECONDS = 5.0
"""Between looks at whether a scheduler still has workers."""

DESERTED_SECONDS = 60.0
"""For which a scheduler may have no workers, as while they are replaced."""
