"""Run a layer, and compare its values with numpy and its FLOPs with a count by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import stepsim.graph as st
from stepsim.functional import evaluate
from stepsim.simulation import prepare
from stepsim.simulation.recording.decisions import decisions_of

__all__ = ["checked", "close", "compared", "normal"]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal random numbers in f32."""
    return np.random.default_rng(seed + 7 * len(shape)).normal(size=shape).astype(np.float32)


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    """Within 1e-5 of the largest scalar; all shapes of one size are equal."""
    assert found.size == wanted.size
    scale = max(float(np.abs(wanted).max()), 1.0)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5 * scale)


def checked(build: Callable[[], st.Stream], wanted: np.ndarray, flops: int) -> st.Program:
    """Build a layer, and compare it as :func:`compared` does."""
    with st.Program("layer", compute_bw=64) as p:
        y = build()
        y.consume()
    compared(p, y, wanted, flops)
    return p


def compared(
    p: st.Program,
    y: st.Stream,
    wanted: np.ndarray,
    flops: int,
    *,
    bindings: Mapping[Any, Any] | None = None,
) -> None:
    """Evaluate a program and run it.

    The tiles of ``y``, one after the other, are ``wanted`` as ``[..., m, n]``; FLOPs by formula, as
    executed and by hand are the same.
    """
    prepared = prepare(p, machine="sda-1024")
    run = prepared.execute(bindings, keep_tokens=True)
    decisions = decisions_of(st.wire(p, bindings), run, prepared.program_hash)
    result = evaluate(p, bindings=bindings, decisions=decisions)
    assert result.contradictions() == []
    tiles = [token.payload.data for token in result.stream(y)]
    close(np.concatenate([t.ravel() for t in tiles]), wanted)
    totals = prepared.run(bindings)
    assert totals.status == "ok"
    assert (p.metrics().bind(bindings or {}).flops, totals.flops) == (flops, flops)
