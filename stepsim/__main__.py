"""``python -m stepsim``."""

from __future__ import annotations

from stepsim.cli.main import main

if __name__ == "__main__":
    main()
