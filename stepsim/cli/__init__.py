"""The command line. `main` is the entry point of the ``stepsim`` command."""

from __future__ import annotations

from stepsim.cli.main import main

__all__ = ["main"]
