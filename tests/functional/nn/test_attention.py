"""Attention and FlashAttention: values, FLOPs, the blocks that are read, errors."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DimError, RankError
from stepsim.simulation import prepare
from tests.functional.nn import references as ref
from tests.functional.nn.support import checked, normal

HEADS, LENGTH, D, E, M = 4, 12, 8, 6, 4
TILES = LENGTH // M
Q = normal(HEADS, LENGTH, D)
K = normal(2, LENGTH, D, seed=1)
V = normal(2, LENGTH, E, seed=2)


def queries() -> st.Stream:
    """[4, 3] of 4x8."""
    return st.linear_load(Q, (M, D)).flatten(0, 1)


def block_flops(m: int, t: int, scaled: bool = True) -> int:
    return 2 * m * t * D + 2 * m * t * E + (7 + scaled) * m * t + m * E + 8 * m


def whole(x: np.ndarray) -> st.Stream:
    """[4, 3] of all keys of a head, which two query heads share."""
    shape, stride = (2, 2, TILES), (1, 0, 0)
    loaded = st.linear_load(x, (LENGTH, x.shape[2]), shape=shape, stride=stride)
    return loaded.flatten(1, 2)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"causal": True}, {"causal": True, "window": 5}, {"causal": True, "start": 2},
        {"scale": 0.5}, {"scale": 1, "causal": True},
    ],
)  # fmt: skip
def test_attention(options) -> None:
    y = ref.attention(Q, K, V, **options)
    each = 2 * M * LENGTH * (D + E) + (8 + (options.get("scale") != 1)) * M * LENGTH
    checked(
        lambda: st.nn.attention(queries(), whole(K), whole(V), **options), y,
        HEADS * TILES * each,
    )  # fmt: skip


@pytest.mark.parametrize("tile", [2, 4, 12])
@pytest.mark.parametrize("scale", [None, 1])
def test_flash_attention_of_all_keys(tile: int, scale: float | None) -> None:
    y = ref.attention(Q, K, V, scale=scale)
    blocks = HEADS * TILES * LENGTH // tile
    flops = blocks * block_flops(M, tile, scale is None) + HEADS * TILES * M * E
    checked(lambda: st.nn.flash_attention(queries(), K, V, kv_tile=tile, scale=scale), y, flops)


def seen_blocks(tile: int, window: int | None, start: int) -> int:
    """Blocks of one head that hold a key which a query of the tile sees, by looking at each."""
    found = 0
    for first in range(start, start + LENGTH, M):
        for block in range(0, LENGTH, tile):
            found += any(
                key <= at and (window is None or key > at - window)
                for at in range(first, first + M)
                for key in range(block, block + tile)
            )
    return found


@pytest.mark.parametrize("tile", [2, 4, 6])
@pytest.mark.parametrize(
    ("window", "start"),
    [(None, 0), (1, 0), (3, 0), (7, 0), (100, 0), (None, 1), (2, 1), (5, 1), (9, 7), (None, 20)],
)
def test_only_blocks_that_are_seen_are_read(tile: int, window: int | None, start: int) -> None:
    y = ref.attention(Q, K, V, causal=True, window=window, start=start)
    blocks = HEADS * seen_blocks(tile, window, start)
    flops = blocks * block_flops(M, tile) + HEADS * TILES * M * E
    p = checked(
        lambda: st.nn.flash_attention(
            queries(), K, V, kv_tile=tile, causal=True, window=window, start=start
        ),
        y, flops,
    )  # fmt: skip
    traffic = p.metrics().off_chip_traffic
    assert traffic == 4 * (HEADS * LENGTH * D + blocks * tile * (D + E))


@pytest.mark.parametrize("causal", [False, True])
def test_heads_that_are_stacked_share_the_blocks(causal: bool) -> None:
    """Two query heads in a tile of 8 rows; each block is read once for both."""
    stacked = Q.reshape(2, 2, TILES, M, D).transpose(0, 2, 1, 3, 4).reshape(2, -1, D)
    y = ref.attention(Q, K, V, causal=causal).reshape(2, 2, TILES, M, E).transpose(0, 2, 1, 3, 4)
    blocks = 2 * (6 if causal else 9)
    p = checked(
        lambda: st.nn.flash_attention(
            st.linear_load(stacked.copy(), (2 * M, D)).flatten(0, 1), K, V, kv_tile=4,
            **({"causal": True, "stacked": 2} if causal else {}),
        ),
        y, blocks * block_flops(2 * M, 4) + 2 * TILES * 2 * M * E,
    )  # fmt: skip
    assert p.metrics().off_chip_traffic == 4 * (Q.size + blocks * 4 * (D + E))


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "window": 3}])
def test_blocks_can_be_streams_from_a_buffer(options) -> None:
    """Keys of a head stay on chip; every query tile reads all blocks again."""

    def build() -> st.Stream:
        q = queries().reshape(2, dim=1)  # [2, 2, 3]
        k, v = (
            st.linear_load(x, (4, x.shape[2])).flatten(0, 1).bufferize(1).streamify(q)
            for x in (K, V)
        )
        return st.nn.flash_attention(q, k, v, **options)

    y = ref.attention(Q, K, V, **options)
    checked(build, y, HEADS * TILES * (3 * block_flops(M, 4) + M * E))


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "window": 3}])
@pytest.mark.parametrize("form", ["tensors", "streams", "whole"])
def test_heads_can_be_the_innermost_dim(options, form: str) -> None:
    """As a linear layer makes them: [3, 4] of 4x8."""
    y = ref.attention(Q, K, V, **options).reshape(HEADS, TILES, M, E).transpose(1, 0, 2, 3)
    inside = {"heads_inside": True} if options or form == "tensors" else {}

    def build() -> st.Stream:
        q = st.linear_load(Q, (M, D), shape=(TILES, HEADS), stride=(1, TILES))
        if form == "tensors":
            return st.nn.flash_attention(q, K, V, kv_tile=4, **options, **inside)
        tile, blocks = (4, 3) if form == "streams" else (LENGTH, 1)
        k, v = (
            st.linear_load(
                x, (tile, x.shape[2]), shape=(TILES, 2, 2, blocks), stride=(0, blocks, 0, 1)
            ).flatten(1, 2)
            for x in (K, V)
        )
        if form == "whole":
            return st.nn.attention(q, k.flatten(0, 1), v.flatten(0, 1), **options, **inside)
        return st.nn.flash_attention(q, k, v, **options, **inside)

    blocks = 9
    if form == "tensors" and options:
        blocks = seen_blocks(4, options.get("window"), 0)
    each = blocks * block_flops(M, 4) + TILES * M * E
    if form == "whole":
        each = TILES * (2 * M * LENGTH * (D + E) + 9 * M * LENGTH)
    checked(build, y, HEADS * each)


def test_one_head_and_leading_dims() -> None:
    y = ref.attention(Q, K[:1], V[:1], causal=True)
    flops = HEADS * (6 * block_flops(M, 4) + TILES * M * E)
    checked(lambda: st.nn.flash_attention(queries(), K[0], V[0], kv_tile=4, causal=True), y, flops)
    batch = ref.attention(Q, K, V, causal=True)
    q = np.stack([Q, 2 * Q])
    both = np.stack([batch, ref.attention(2 * Q, K, V, causal=True)])
    checked(
        lambda: st.nn.flash_attention(
            st.linear_load(q, (M, D)).flatten(0, 1), K, V, kv_tile=4, causal=True
        ),
        both, 2 * flops,
    )  # fmt: skip


def test_a_row_of_small_scores_after_large_ones() -> None:
    """The running maximum only grows; the scores span more than exp can hold."""
    q = np.full((1, M, D), 10, np.float32)
    k = np.linspace(30, -30, LENGTH, dtype=np.float32)[None, :, None] * np.ones(D, np.float32)
    for keys in (k, k[:, ::-1].copy()):
        y = ref.attention(q, keys, V[:1])
        checked(
            lambda keys=keys: st.nn.flash_attention(
                st.linear_load(q, (M, D)).flatten(0, 1), keys, V[:1], kv_tile=4
            ),
            y, 3 * block_flops(M, 4) + M * E,
        )  # fmt: skip


def test_flop_weights_of_the_program_count_inside_the_online_softmax() -> None:
    """An exp of 1 FLOP in place of 4: once for each score and once for each row of a block."""
    with st.Program(compute_bw=64, flop_weights={"exp": 1, "row_max": 0}) as p:
        y = st.nn.flash_attention(queries(), K, V, kv_tile=4)
        s = st.nn.softmax(st.linear_load(Q[0], (M, 2)), split=True, online=True)
        y.consume()
        s.consume()
    tiles = HEADS * TILES
    block = block_flops(M, 4) - 4 * M * 4 - 3 * M
    rows = TILES * 4 * (13 * M * 2 + 8 * M - 7 * M * 2 - 3 * M)
    flops = tiles * (3 * block + M * E) + rows
    assert p.metrics().flops == flops
    assert prepare(p, machine="sda-1024").run().flops == flops


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: st.nn.flash_attention(queries(), K, V), ArgError, "kv_tile is missing"),
        (lambda: st.nn.flash_attention(queries(), K, V, kv_tile=5), ArgError, "kv_tile 5 does not"),
        (
            lambda: st.nn.flash_attention(queries(), K, V, kv_tile=4, window=3),
            ArgError, "window has no effect without causal=True",
        ),
        (
            lambda: st.nn.flash_attention(queries(), K, V, kv_tile=4, causal=True, stacked=3),
            ArgError, "stacked=3 does not divide the 4 rows of q",
        ),
        (
            lambda: st.nn.flash_attention(queries(), K, V[:1], kv_tile=4),
            ArgError, "both need the same heads and keys",
        ),
        (
            lambda: st.nn.flash_attention(queries(), normal(3, 4, D), normal(3, 4, E), kv_tile=4),
            ArgError, "a multiple of the 3 heads of k",
        ),
        (
            lambda: st.nn.flash_attention(queries(), V, V, kv_tile=4),
            ArgError, "heads of 6 columns",
        ),
        (
            lambda: st.nn.flash_attention(queries(), whole(K), whole(V)),
            RankError, "one inner dim of blocks",
        ),
        (
            lambda: st.nn.flash_attention(queries(), whole(K), whole(V), kv_tile=4),
            ArgError, "kv_tile has no effect on streams",
        ),
        (
            lambda: st.nn.flash_attention(queries(), whole(K), V),
            ArgError, "k and v must both be streams, or both tensors",
        ),
        (
            lambda: st.nn.flash_attention(
                queries(), K, V, kv_tile=4, causal=True, start=8, window=4
            ),
            DimError, "the query at position 19 sees keys 16 to 19 alone",
        ),
        (
            lambda: st.nn.attention(queries(), whole(K), whole(V), stacked=2),
            ArgError, "stacked has no effect without causal=True",
        ),
        (
            lambda: st.nn.attention(queries(), whole(K), whole(V), heads_inside=True),
            ArgError, "heads_inside has no effect without",
        ),
        (
            lambda: st.nn.attention(queries(), whole(K), whole(V), scale="a"),
            ArgError, "scale must be a finite number or None",
        ),
        (
            lambda: st.nn.attention(queries(), whole(K), whole(V), scale=float("nan")),
            ArgError, "scale must be a finite number or None, found nan",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call, error, message: str) -> None:
    with pytest.raises(error, match=message), st.Program(compute_bw=8):
        call()


@pytest.mark.parametrize("seed", range(16))
def test_any_shape(seed: int) -> None:
    """Heads, groups, tiles, windows and positions at random."""
    rng = np.random.default_rng(seed)
    kv_heads, group, tiles = (int(n) for n in rng.integers(1, 4, 3))
    rows, tile, blocks = (int(n) for n in rng.integers(1, 6, 3))
    heads, length, start = kv_heads * group, tile * blocks, int(rng.integers(0, 4))
    last = start + tiles * rows - 1
    window = None if seed % 3 == 0 else int(rng.integers(max(last - length + 2, 1), last + 3))
    q = normal(heads, tiles * rows, D, seed=seed)
    k, v = normal(kv_heads, length, D, seed=seed + 1), normal(kv_heads, length, E, seed=seed + 2)
    y = ref.attention(q, k, v, causal=True, window=window, start=start)
    seen = 0
    for first in range(start, last + 1, rows):
        for block in range(blocks):
            keys = np.arange(block * tile, (block + 1) * tile)
            at = np.arange(first, first + rows)[:, None]
            seen += bool(((keys <= at) & (keys > at - (window or last + 1))).any())
    flops = heads * (seen * block_flops(rows, tile) + tiles * rows * E)
    checked(
        lambda: st.nn.flash_attention(
            st.linear_load(q, (rows, D)).flatten(0, 1), k, v, kv_tile=tile, causal=True,
            window=window, start=start,
        ),
        y, flops,
    )  # fmt: skip
