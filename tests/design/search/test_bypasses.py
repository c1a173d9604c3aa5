"""Bypasses around the sums of softmax and layer norm hold a row, in compiled programs (F9)."""

from __future__ import annotations

import pytest

import stepsim as st
from stepsim.design import GraphBuilder

TILE = 16


def rows(kind: str, tokens: int) -> st.design.Compiled:
    """Two rows of as many tokens through a softmax or a layer norm, whose rows pass one by one."""
    b = GraphBuilder(kind, "f32", "f32")
    width = tokens * TILE
    x = b.input("x", (2 * TILE, width))
    if kind == "softmax":
        y = b.softmax(x, 1)
    else:
        y = b.layer_norm(x, b.weight("gain", (width,)), b.weight("bias", (width,)))
    b.output(y, "y")
    return st.compile(
        b.graph(), order="reductions_innermost", tile=TILE, shrink=False, placed=False
    )


def bypasses(compiled: st.design.Compiled, tokens: int) -> dict[str, int]:
    """Planned depths of FIFOs that hold a row and more, by name."""
    streams = compiled.programs[0].streams.values()
    fifos = [f for f in compiled.prepared[0].wiring.fifos if any(f.stream is x for x in streams)]
    depths = compiled.plan.groups[0].depths
    return {f.name: depths[f.name] for f in fifos if depths[f.name] >= tokens}


@pytest.mark.parametrize("tokens", [4, 16, 64])
@pytest.mark.parametrize("kind", ["softmax", "layer_norm"])
def test_a_bypass_holds_a_row(kind: str, tokens: int) -> None:
    compiled = rows(kind, tokens)
    prepared = compiled.prepared[0]
    unbounded = prepared.changed(fifo_depths=dict.fromkeys(prepared.fifo_numbers))
    found = bypasses(compiled, tokens)
    # Around the greatest and the sum; around the mean and the sum of squares.
    assert len(found) >= 2
    tight = 0
    for name in found:
        short = prepared.changed(fifo_depths={name: tokens - 1}).result()
        if short.status == "ok":
            continue  # a load of its own, or behind another bypass
        tight += 1
        assert short.status == "deadlock"
        said = str(short.diagnosis)
        assert "these units form a circular wait:" in said
        assert f"to make room in '{name}' [{tokens - 1}/{tokens - 1}]" in said
        assert prepared.changed(fifo_depths={name: tokens}).run().status == "ok"
        # A row less a token deadlocks also where no other FIFO is bounded.
        assert unbounded.changed(fifo_depths={name: tokens - 1}).run().status == "deadlock"
    assert tight == 2
    every = prepared.changed(fifo_depths=dict.fromkeys(found, tokens))
    assert every.run().status == "ok"
    # With the depths of the linear program nothing is lost.
    assert compiled.plan.groups[0].simulated == unbounded.run().cycles
