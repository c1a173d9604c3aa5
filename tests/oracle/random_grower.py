"""A network under construction: open wires, units so far, sources for new operators."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from stepsim.lowering.network import ChannelSpec, Network, TimingParams, UnitSpec
from tests.oracle.fabric import Payload
from tests.oracle.payloads import integer, linear_levels, selector, tile
from tests.oracle.random_streams import (
    Content,
    Draw,
    Wire,
    evaluate,
    float_tokens,
    integer_tokens,
    level_lists,
    tile_shapes,
)

__all__ = ["Grower"]

_DEPTHS = [2, 1, None, 3, 4, 5, 6, 7, 8]


class Grower:
    """Adds units one at a time; every addition keeps the network well typed.

    Wires passed to :meth:`add` that have no channel yet are realised by a new source unit. Rules
    add loops in which tokens go round only if ``loops``: damaged ones might go round for ever.
    """

    def __init__(self, draw: Draw, timing: TimingParams, loops: bool = True) -> None:
        self.draw = draw
        self.loops = loops
        self.timing = timing
        self.bpe: float = draw(st.sampled_from([2, 4, 0.5, 1]))
        self.open: list[Wire] = []
        self.units: list[UnitSpec] = []
        self.channels: list[ChannelSpec] = []
        self.numbers: dict[str, int] = {}

    # -- drawing ------------------------------------------------------------------------------

    def pick(self, options: list[Any]) -> Any:
        """One of the options; the first is the simplest."""
        return self.draw(st.sampled_from(options))

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def flag(self) -> bool:
        return bool(self.draw(st.booleans()))

    def choose(self, candidates: list[Wire]) -> Wire | None:
        """One of the candidate wires, the most recent first."""
        return self.pick(candidates[::-1]) if candidates else None

    # -- growing ------------------------------------------------------------------------------

    def channel(self, depth: int | str | None = "any") -> str:
        """A new channel; its depth is drawn unless given."""
        name = f"c{len(self.channels)}"
        capacity = self.pick(_DEPTHS) if isinstance(depth, str) else depth
        self.numbers[name] = len(self.channels)
        self.channels.append(ChannelSpec(name, capacity))
        return name

    def unit(self, op: str, ins: list[str], outs: list[str], params: dict[str, Any]) -> None:
        """Append a unit without any check."""
        inputs, outputs = (tuple(self.numbers[c] for c in side) for side in (ins, outs))
        self.units.append(UnitSpec(f"{op}_{len(self.units)}", op, inputs, outputs, params))

    def realise(self, wire: Wire) -> str:
        """The wire's channel; a wire that has none yet gets a source."""
        if not wire.channel:
            wire.channel = self.channel()
            self._source(wire)
        return wire.channel

    def attach(self, op: str, params: dict[str, Any], ins: list[Wire], outs: list[Wire]) -> None:
        """Append a unit: its inputs are no longer open, its outputs are."""
        names = [self.realise(wire) for wire in ins]
        self.open = [wire for wire in self.open if all(wire is not used for used in ins)]
        for wire in outs:
            wire.channel = self.channel()
        self.unit(op, names, [wire.channel for wire in outs], params)
        self.open += outs

    def add(
        self,
        op: str,
        params: dict[str, Any],
        ins: list[Wire],
        kinds: list[str],
        dry: bool = False,
        **flags: Any,
    ) -> list[Wire] | None:
        """Append an operator if its content says that it fits; the new wires, or None.

        The outputs are as certain as the inputs together, except for the given ``flags``. A
        ``dry`` call only finds out, without appending anything.
        """
        contents = evaluate(op, params, ins, len(kinds), self.timing.model)
        if contents is None:
            return None
        certain = {
            name: all(getattr(wire, name) for wire in ins)
            for name in ("levels_exact", "payload_exact", "multiset_exact")
        }
        outs = [
            Wire(kind, content, **{**certain, **flags})
            for kind, content in zip(kinds, contents, strict=True)
        ]
        if not dry:
            self.attach(op, params, ins, outs)
        return outs

    # -- sources ------------------------------------------------------------------------------

    def fresh(self, kind: str = "float", levels: list[int] | None = None, **hints: Any) -> Wire:
        """A stream to come from a new source; ``hints`` go to the payload strategy."""
        if levels is None:
            levels = self.draw(level_lists())
        content: Content
        if kind == "float":
            content = self.draw(float_tokens(levels, **{"bpe": self.bpe, **hints}))
        elif kind == "int":
            content = self.draw(integer_tokens(levels, **hints))
        else:
            width = hints.get("width") or self.integer(1, 4)
            sets = st.lists(st.integers(0, width - 1), min_size=1, max_size=width, unique=True)
            content = [(level, selector(self.draw(sets), width)) for level in levels]
        return Wire(kind, content)

    def given(self, kind: str, levels: list[int], payloads: list[Payload]) -> Wire:
        """A stream of known content, to come from a new source."""
        return Wire(kind, list(zip(levels, payloads, strict=True)))

    def _source(self, wire: Wire) -> None:
        tokens = [{**payload, "level": level} for level, payload in wire.content]
        ops = ["Gen", "Src", "At", "Paced"]
        if wire.kind == "selector" and tokens:
            ops.insert(0, "SelectGen")
        op = self.pick(ops)
        params: dict[str, Any] = {"tokens": tokens}
        if op == "SelectGen":
            params = {
                "selectors": [payload["selector"] for payload in wire.payloads],
                "width": wire.payloads[0]["width"],
                "levels": wire.levels,
            }
        elif op == "Src":
            params |= {"n": self.integer(0, 7), "tail": self.pick([0, 11])}
        elif op in ("At", "Paced"):
            gaps = st.lists(st.integers(0, 9), min_size=len(tokens), max_size=len(tokens))
            leap = self.pick([0, 0, 40])
            times, t = [], 0
            for i, gap in enumerate(self.draw(gaps)):
                t += gap + (leap if i == len(tokens) // 2 else 0)
                times.append(t)
            params |= {"times": times, "tail": self.pick([0, 9, 60])}
        self.unit(op, [], [wire.channel], params)

    def start(self) -> Wire:
        """A new source of any kind, already part of the network."""
        made = self.pick(
            ["float", "load", "float", "int", "metadata", "selector", "load", "load", "counter"]
        )
        if made == "load":
            rows, cols = self.draw(tile_shapes)
            view = self.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
            params = {
                "tile": [min(rows, 8), cols],
                "view": view,
                "par": self.pick([1, 2, 4]),
                "bpe": self.bpe,
                "lead": self.flag(),
            }
            levels = [min(level, len(view) - (not params["lead"])) for level in linear_levels(view)]
            op = self.pick(["OffChipLoad"] * 5 + ["BypassLoad"])
            rows = min(rows, 8)
            if op == "BypassLoad":
                del params["par"]
            elif self.integer(0, 3) == 0:
                params["transposed"] = True
                rows, cols = cols, rows
            payload = tile(rows, cols, self.bpe, 1, rows)
            wire = self.given("float", levels, [payload] * len(levels))
            self.attach(op, params, [], [wire])
        elif made == "counter":
            params = {"n": self.integer(1, 6), "lead": self.flag()}
            levels = [0] * (params["n"] - 1) + [int(params["lead"])]
            wire = self.given("int", levels, [integer(i) for i in range(params["n"])])
            self.attach("Counter", params, [], [wire])
        elif made == "metadata":
            dims = self.draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))
            lead = self.flag()
            levels = [min(level, len(dims) - (not lead)) for level in linear_levels(dims)]
            wire = self.fresh("int", levels, low=1)
            values = [payload["value"] for payload in wire.payloads]
            params = {"values": values, "dims": dims, "lead": lead}
            self.attach("MetadataGen", params, [], [wire])
        else:
            wire = self.fresh(made)
            self.realise(wire)
            self.open.append(wire)
        return wire

    def network(self) -> Network:
        return Network(tuple(self.units), tuple(self.channels), self.timing)
