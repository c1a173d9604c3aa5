"""What a worked example is: a network and the numbers a correct simulator finds for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stepsim.lowering.network import Network
from tests.oracle.fabric import Payload
from tests.oracle.payloads import tile

__all__ = ["Example", "payload_tokens", "tile_tokens"]


@dataclass(frozen=True)
class Example:
    """Expected numbers per channel name and per unit name; an absent entry is not checked.

    ``slots_free[channel]`` are the clocks at which the slots become free (TAKE + 1); they are
    checked for results that record dequeue clocks (``taken``).
    """

    name: str
    network: Network
    stamps: dict[str, list[int]] = field(default_factory=dict)
    levels: dict[str, list[int]] = field(default_factory=dict)
    pubs: dict[str, list[int]] = field(default_factory=dict)
    payloads: dict[str, list[Payload]] = field(default_factory=dict)
    slots_free: dict[str, list[int]] = field(default_factory=dict)
    final_clock: dict[str, int] = field(default_factory=dict)
    cycles: int | None = None

    def check(self, run: Callable[[Network], Any]) -> None:
        """Run the network on a backend and compare everything that is stated."""
        result = run(self.network)
        assert result.status == "ok", f"{self.name}: {result.unit_status}"
        columns = ((0, "stamps"), (1, "levels"), (2, "payloads"), (3, "pubs"))
        for column, what in columns:
            for channel, expected in getattr(self, what).items():
                found = [token[column] for token in result.tokens[channel]]
                assert found == expected, f"{self.name}: {what} of {channel}"
        taken = getattr(result, "taken", None)
        for channel, free in self.slots_free.items() if taken is not None else ():
            found = [clock + 1 for clock in taken[channel]]
            assert found == free, f"{self.name}: slots of {channel} free at"
        found_clocks = {unit: result.final_clock[unit] for unit in self.final_clock}
        assert found_clocks == self.final_clock, f"{self.name}: final clocks"
        if self.cycles is not None:
            assert result.cycles == self.cycles, f"{self.name}: cycles"


def tile_tokens(shape: list[int], levels: list[int]) -> list[dict[str, Any]]:
    """Source tokens of one tile shape ``[R, C, bpe, rd]``, all rows valid."""
    rows, cols, bpe, rd = shape
    return [{**tile(rows, cols, bpe, rd, rows), "level": level} for level in levels]


def payload_tokens(payloads: list[Payload], levels: list[int]) -> list[dict[str, Any]]:
    """Source tokens from payloads and levels."""
    return [{**payload, "level": level} for payload, level in zip(payloads, levels, strict=True)]
