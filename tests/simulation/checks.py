"""Laws of result tables."""

from __future__ import annotations

from stepsim import Result

__all__ = ["ACCOUNTS", "check_accounts"]

ACCOUNTS = ("busy", "wait_input", "wait_output", "wait_memory", "before", "after")


def check_accounts(result: Result) -> None:
    """The accounts of every unit add up, and the waits are those of its fifos."""
    fifos = result.fifos.to_pylist()
    for unit in result.units.to_pylist():
        parts = [unit[name] for name in ACCOUNTS]
        assert min(parts) >= 0, unit
        assert sum(parts) == max(result.cycles, unit["final_clock"]), unit
        waited = sum(c["consumer_wait"] for c in fifos if c["consumer"] == unit["name"])
        assert waited == unit["wait_input"], unit
        waited = sum(c["producer_wait"] for c in fifos if c["producer"] == unit["name"])
        assert waited == unit["wait_output"], unit
