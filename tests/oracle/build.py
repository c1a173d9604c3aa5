"""A small builder: networks by channel name, channels created when first mentioned."""

from __future__ import annotations

from typing import Any

from stepsim.lowering.network import ChannelSpec, Network, TimingParams, UnitSpec

__all__ = ["NetBuilder"]


class NetBuilder:
    """Collects units and channels in construction order.

    A channel is created by the first unit that names it, with the builder's default capacity unless
    :meth:`channel` gave it another one before.
    """

    def __init__(self, timing: TimingParams | None = None, capacity: int | None = None) -> None:
        self.timing = timing or TimingParams()
        self.capacity = capacity
        self.channels: dict[str, int | None] = {}
        self.units: list[tuple[str, str, list[str], list[str], dict[str, Any]]] = []

    def channel(self, name: str, capacity: int | None) -> str:
        """Declare a channel with its capacity (None: unbounded)."""
        self.channels[name] = capacity
        return name

    def unit(
        self, name: str, op: str, ins: list[str] | None = None, outs: list[str] | None = None,
        **params: Any,
    ) -> str:  # fmt: skip
        """Append a unit; returns its name."""
        for channel in (ins or []) + (outs or []):
            self.channels.setdefault(channel, self.capacity)
        self.units.append((name, op, ins or [], outs or [], params))
        return name

    def late(self, channel: str, tokens: list[dict[str, Any]], at: int) -> None:
        """Feed ``channel``, which ends no earlier than ``at``, with tiles of one row.

        The last tile of the source has no rows: it is cut into no piece.
        """
        self.channels.setdefault(channel, self.capacity)
        end = {"tile": [0, 1, 2, 0, 0], "level": 0}
        whole, times = f"whole {channel}", [0] * len(tokens) + [at]
        self.unit(f"source {channel}", "Paced", [], [whole], tokens=[*tokens, end], times=times)
        self.unit(
            f"cut {channel}", "RetileStreamify", [whole], [channel], split_row=True, filter=False
        )

    def network(self) -> Network:
        """The finished network."""
        number = {name: i for i, name in enumerate(self.channels)}
        units = tuple(
            UnitSpec(
                name, op, tuple(number[c] for c in ins), tuple(number[c] for c in outs), params
            )
            for name, op, ins, outs, params in self.units
        )
        channels = tuple(ChannelSpec(name, cap) for name, cap in self.channels.items())
        return Network(units, channels, self.timing)
