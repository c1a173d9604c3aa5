"""Synthetic expert routing with a chosen skew, the same bytes on every machine.

The popularity of the experts follows Zipf's law: the expert of popularity rank r (from 1) has
weight r ** -skew. Which expert has which rank is drawn from the seed and the layer. Each token
then chooses k experts one after the other, each with a probability proportional to its weight
among those not chosen yet (sampling without replacement, the law that Gumbel top-k follows).

======== ==================================================================================
``skew`` load of the experts for 1024 tokens, 128 experts, k = 8 (imbalance = max / mean, at
         most 16 because choices are distinct; cv = standard deviation / mean)
======== ==================================================================================
0        imbalance 1.3, cv 0.12: uniform, the noise of sampling
0.5      imbalance 5.4, cv 0.7
1        imbalance 13.5, cv 1.7
1.5      imbalance 15.9, cv 2.5
2        imbalance 16.0, cv 2.9; a few experts idle
======== ==================================================================================

Everything after the seed is integer arithmetic on the raw output of PCG64, whose stream NumPy
guarantees; weights come from decimal arithmetic in software. No floating-point function of the
platform takes part, so that a table is a function of its arguments alone.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from stepsim.arguments import is_number, is_whole, label_of, shown
from stepsim.errors import ArgError
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.typed import typed

_UNIT = 1 << 32
_MAX_EXPERTS = 1 << 16  # keeps the sum of the weights far below 2^63
MOST_ENTRIES = 1 << 28
_MAX_LABEL = (1 << 31) - 1
_CHUNK_ELEMENTS = 1 << 22


@typed
def synthetic_routing(
    tokens: int,
    experts: int,
    k: int,
    *,
    seed: int,
    skew: float = 1.0,
    layer: int = 0,
    step: int = 0,
    model: str | None = None,
) -> RoutingTable:
    """Draw the expert choices of one layer in one step.

    Args:
        tokens: number of tokens.
        experts: number of experts of the model, at most 65536.
        k: distinct experts per token.
        seed: not negative. The same seed gives different choices in each (layer, step); the popular
            experts differ between layers and stay the same over the steps of a layer.
        skew: Zipf exponent of the popularity, 0 (uniform) to 64; the table at the top of this
            module gives its effect on the load.
        layer, step, model: labels of the table.

    Raises:
        ArgError: an argument is out of range.
    """
    tokens = _count("tokens", tokens, 1, None)
    experts = _count("experts", experts, 1, _MAX_EXPERTS)
    k = _count("k", k, 1, experts)
    seed = _count("seed", seed, 0, None)
    layer = _count("layer", layer, 0, _MAX_LABEL)
    step = _count("step", step, 0, _MAX_LABEL)
    if tokens * k > MOST_ENTRIES:
        raise ArgError(
            f"synthetic_routing: {tokens} tokens with {k} experts each are more than 2**28 "
            "choices; make several tables"
        )
    if not is_number(skew) or not 0 <= skew <= 64:
        raise ArgError(f"synthetic_routing: skew is {shown(skew)}, expected a Zipf exponent 0..64")
    skew = float(skew)
    model = label_of("synthetic_routing: model", model)

    weights = _popularity(experts, skew)[_ranks(experts, seed, layer)]
    raw = _generator(seed, 1, layer, step)
    chunk = max(1, _CHUNK_ELEMENTS // experts)
    parts = [
        _choose(weights, raw.random_raw(n * k).reshape(n, k))
        for n in (min(chunk, tokens - start) for start in range(0, tokens, chunk))
    ]
    return RoutingTable(
        experts=np.concatenate(parts),
        layer=layer,
        step=step,
        model=model,
        source=f"synthetic (seed {seed}, skew {skew:g}, {experts} experts)",
    )


def _count(name: str, value: int, least: int, most: int | None) -> int:
    if not is_whole(value):
        raise ArgError(f"synthetic_routing: {name} is {shown(value)}, expected an int")
    if value < least or (most is not None and value > most):
        bound = f"at least {least}" if most is None else f"{least}..{most}"
        raise ArgError(f"synthetic_routing: {name} is {shown(value)}, expected {bound}")
    return int(value)


def _generator(seed: int, *stream: int) -> np.random.PCG64:
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=stream))


@lru_cache(maxsize=8)
def _popularity(experts: int, skew: float) -> npt.NDArray[np.int64]:
    """Weights by rank, in units of 2^-32 and at least one unit, so that no expert is impossible.

    Cached, as the tables of a trace share them; they must not be written to.
    """
    # A separate context, since the caller's may have another precision or traps.
    context = Context(prec=40, rounding=ROUND_HALF_EVEN, traps=[])
    exponent = Decimal.from_float(-float(skew))
    weights = [
        int(
            context.multiply(context.power(Decimal(rank), exponent), _UNIT).to_integral_value(
                ROUND_HALF_EVEN, context
            )
        )
        for rank in range(1, experts + 1)
    ]
    found = np.maximum(np.array(weights, dtype=np.int64), 1)
    found.flags.writeable = False
    return found


def _ranks(experts: int, seed: int, layer: int) -> npt.NDArray[np.intp]:
    """A random permutation: the popularity rank (from 0) of each expert."""
    keys = _generator(seed, 0, layer).random_raw(experts)
    return np.argsort(keys, kind="stable")


def _choose(weights: npt.NDArray[np.int64], raw: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """Choose without replacement: raw 64-bit numbers [tokens, k] -> ids [tokens, k]."""
    tokens, k = raw.shape
    left = np.tile(weights, (tokens, 1))
    rows = np.arange(tokens)
    ids = np.empty((tokens, k), dtype=np.int32)
    for slot in range(k):
        bounds = np.cumsum(left, axis=1)
        # The remainder is biased by at most total / 2^64, below 2^-15 in the worst case.
        point = (raw[:, slot] % bounds[:, -1].astype(np.uint64)).astype(np.int64)
        chosen = (bounds <= point[:, None]).sum(axis=1)
        ids[:, slot] = chosen
        left[rows, chosen] = 0
    return ids
