"""Attention over paged caches and latent attention: values, FLOPs, reads, errors."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, RankError
from tests.functional.nn import references as ref
from tests.functional.nn.support import checked, normal

REQUESTS, GROUP, D, E, PAGE = 3, 2, 8, 6, 4
Q = normal(REQUESTS, GROUP, D)
K, V = normal(36, D, seed=1), normal(36, E, seed=2)
LENGTHS = np.array([5, 12, 1])
TABLE = np.array([[7, 2, -1], [1, 8, 3], [4, -1, 99]])


def queries() -> st.Stream:
    """[3] of 2x8."""
    return st.linear_load(Q.reshape(-1, D), (GROUP, D)).flatten(0, 1)


def page_flops() -> int:
    return 2 * GROUP * PAGE * (D + E) + 8 * GROUP * PAGE + GROUP * E + 8 * GROUP


def expected(
    pages: np.ndarray,
    scale: float | None = None,
    lengths: np.ndarray = LENGTHS,
    window: int = 99,
) -> np.ndarray:
    found = []
    for request, length in enumerate(lengths):
        rows = (np.maximum(pages[request], 0)[:, None] * PAGE + np.arange(PAGE)).ravel()
        rows = rows[max(length - window, 0) : length]
        found.append(
            ref.attention(Q[request : request + 1], K[None, rows], V[None, rows], scale=scale)
        )
    return np.concatenate(found)


def test_requests_read_the_pages_that_they_use() -> None:
    """Pages are reserved, three for each request; they use 2, 3 and 1."""
    y = expected(np.arange(9).reshape(3, 3))
    p = checked(
        lambda: st.nn.paged_attention(queries(), K, V, LENGTHS, page=PAGE), y,
        6 * page_flops() + REQUESTS * GROUP * E,
    )  # fmt: skip
    assert p.metrics().off_chip_traffic == 4 * (Q.size + 6 * PAGE * (D + E))


def test_a_page_table() -> None:
    y = expected(TABLE, 0.7)
    p = checked(
        lambda: st.nn.paged_attention(queries(), K, V, LENGTHS, page=PAGE, pages=TABLE, scale=0.7),
        y, 6 * page_flops() + REQUESTS * GROUP * E,
    )  # fmt: skip
    assert p.metrics().off_chip_traffic == 4 * (Q.size + 6 * PAGE * (D + E))


@pytest.mark.parametrize(("window", "read"), [(1, 3), (3, 4), (4, 4), (5, 5), (8, 5), (12, 6)])
@pytest.mark.parametrize("table", [None, TABLE])
def test_windows_read_the_last_pages_alone(
    window: int, read: int, table: np.ndarray | None
) -> None:
    pages = np.arange(9).reshape(3, 3) if table is None else table
    if table is not None:  # Pages before the window need no entry.
        before = np.arange(3) < (np.maximum(LENGTHS - window, 0) // PAGE)[:, None]
        table = np.where(before, -1, table)
    y = expected(pages, window=window)
    p = checked(
        lambda: st.nn.paged_attention(
            queries(), K, V, LENGTHS, page=PAGE, pages=table, window=window
        ),
        y, read * page_flops() + REQUESTS * GROUP * E,
    )  # fmt: skip
    assert p.metrics().off_chip_traffic == 4 * (Q.size + read * PAGE * (D + E))


def test_a_page_table_of_one_page_each() -> None:
    lengths = np.array([4, 1, 2])
    y = expected(TABLE, lengths=lengths)
    checked(
        lambda: st.nn.paged_attention(queries(), K, V, lengths, page=PAGE, pages=TABLE), y,
        3 * page_flops() + REQUESTS * GROUP * E,
    )  # fmt: skip


def test_requests_of_several_key_heads() -> None:
    """[3, 2] tiles of one query head each: a table with a row for each request and head."""
    table = np.stack([TABLE, np.roll(TABLE, 1, axis=1)], axis=1)
    table[:, 1] = [[3, 5, -1], [0, 6, 2], [8, -1, -1]]
    lengths = np.stack([LENGTHS, LENGTHS], axis=1)
    found = []
    for request, length in enumerate(LENGTHS):
        for head in range(2):
            rows = (np.maximum(table[request, head], 0)[:, None] * PAGE + np.arange(PAGE)).ravel()
            rows = rows[:length]
            q = Q[request : request + 1, head : head + 1]
            found.append(ref.attention(q, K[None, rows], V[None, rows]))
    flops = 2 * 1 * PAGE * (D + E) + 8 * PAGE + E + 8
    checked(
        lambda: st.nn.paged_attention(
            st.linear_load(Q.reshape(-1, D), (1, D), shape=(3, 2), stride=(2, 1)), K, V, lengths,
            page=PAGE, pages=table,
        ),
        np.concatenate(found), 12 * flops + 6 * E,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": [5, 12]}, r"lengths have shape \[2\], expected that of q, \[3\]"),
        ({"lengths": [5, 12, 0]}, "lengths must be an array of ints from 1"),
        ({"lengths": [[1], [2, 3]]}, "lengths must be an array of ints from 1"),
        ({"lengths": [5, 13, 1]}, "9 pages of 4 keys for 3 requests of up to 13 keys"),
        ({"page": 5}, "page 5 does not divide the 36 keys"),
        ({"pages": TABLE[:2]}, r"pages have shape \[2, 3\], expected \[3, 3 or more\]"),
        ({"pages": TABLE[:, :2]}, r"pages have shape \[3, 2\], expected \[3, 3 or more\]"),
        ({"pages": TABLE + 5}, "names pages 6 to 13, the cache has 9"),
        ({"pages": TABLE - 2}, "pages must be an array of ints from -1"),
        ({"pages": 3}, r"pages have shape \[\]"),
        ({"window": 0}, "window must be an int from 1"),
        ({"k": K[:, :3]}, "k must be any number x 8"),
        ({"v": V[:3]}, "v must be 36 x any number"),
    ],
)
def test_errors_name_the_argument(options, message: str) -> None:
    given = {"k": K, "v": V, "lengths": LENGTHS, "page": PAGE, **options}
    k, v, lengths = given.pop("k"), given.pop("v"), given.pop("lengths")
    with pytest.raises(ArgError, match=message), st.Program(compute_bw=8):
        st.nn.paged_attention(queries(), k, v, lengths, **given)


# Latent attention: 2 heads, 8 positions, latent vectors of 4, rotated keys of 2.
HEADS, LENGTH, M, R, P = 2, 8, 4, 4, 2
QUERY, QUERY_ROPE = normal(HEADS, LENGTH, D, seed=3), normal(HEADS, LENGTH, P, seed=4)
LATENT, KEY_ROPE = normal(LENGTH, R, seed=5), normal(LENGTH, P, seed=6)
UP_KEY, UP_VALUE = normal(HEADS, D, R, seed=7), normal(HEADS, R, E, seed=8)


def latent_inputs() -> tuple[st.Stream, st.Stream]:
    """[2, 2] of 4x8 and of 4x2."""
    return tuple(st.linear_load(x, (M, x.shape[2])).flatten(0, 1) for x in (QUERY, QUERY_ROPE))  # type: ignore[return-value]


def latent_expected(**options) -> np.ndarray:
    shared = np.broadcast_to(KEY_ROPE, (HEADS, LENGTH, P))
    keys = np.concatenate([LATENT @ UP_KEY.transpose(0, 2, 1), shared], axis=-1)
    query = np.concatenate([QUERY, QUERY_ROPE], axis=-1)
    return ref.attention(query, keys, LATENT @ UP_VALUE, **options)


def latent_flops(absorbed: bool, tiles: int, blocks: int, t: int) -> int:
    if absorbed:
        tile = 2 * M * D * R + 2 * M * R * E + M * R
        block = 2 * M * t * (R + P) + 2 * M * t * R + 8 * M * t + M * R + 8 * M
    else:
        tile = M * E
        block = 2 * t * R * (D + E)
        block += 2 * M * t * (D + P) + 2 * M * t * E + 8 * M * t + M * E + 8 * M
    return tiles * tile + blocks * block


@pytest.mark.parametrize("absorbed", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_latent_attention(absorbed: bool, causal: bool) -> None:
    blocks = HEADS * (3 if causal else 4)
    ups = UP_KEY.reshape(-1, R), UP_VALUE.reshape(-1, E)
    checked(
        lambda: st.nn.latent_attention(
            *latent_inputs(), LATENT, KEY_ROPE, *ups, absorbed=absorbed, causal=causal, kv_tile=4
        ),
        latent_expected(causal=causal), latent_flops(absorbed, 4, blocks, 4),
    )  # fmt: skip


@pytest.mark.parametrize("absorbed", [True, False])
def test_latent_attention_of_streams(absorbed: bool) -> None:
    """The cache is read once and stays on chip for all heads and query tiles."""

    def build() -> st.Stream:
        q, turned = latent_inputs()
        latent, key = (
            st.linear_load(x, (2, x.shape[1]), shape=(1, 4), stride=(4, 1))
            .bufferize(1)
            .streamify(repeat=4)
            .reshape(2, dim=1)
            .flatten(2, 3)
            for x in (LATENT, KEY_ROPE)
        )
        ups = UP_KEY.reshape(-1, R), UP_VALUE.reshape(-1, E)
        return st.nn.latent_attention(
            q, turned, latent, key, *ups, absorbed=absorbed, causal=True, scale=0.2
        )

    y = latent_expected(causal=True, scale=0.2)
    checked(build, y, latent_flops(absorbed, 4, 16, 2))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"up_key": UP_KEY[0]}, ArgError, "up_key must be 16 x any number"),
        ({"up_value": UP_VALUE[0]}, ArgError, "up_value must be 8 x any number"),
        ({"k_rope": LATENT}, ArgError, "k_rope has 4 columns, expected 2"),
        ({"latent": LATENT[:4]}, ArgError, "latent is .* and k_rope is .*; both need the same"),
        ({"kv_tile": None}, ArgError, "latent and k_rope are read from off chip"),
    ],
)
def test_errors_of_latent_attention(change, error, message: str) -> None:
    given = {
        "latent": LATENT, "k_rope": KEY_ROPE, "up_key": UP_KEY.reshape(-1, R),
        "up_value": UP_VALUE.reshape(-1, E), "kv_tile": 4, **change,
    }  # fmt: skip
    with pytest.raises(error, match=message), st.Program(compute_bw=8):
        st.nn.latent_attention(*latent_inputs(), **given)


def test_latent_attention_needs_a_dim_of_heads() -> None:
    with pytest.raises(RankError, match="heads, query tiles"), st.Program(compute_bw=8):
        st.nn.latent_attention(
            *(x.flatten(0, 1) for x in latent_inputs()), LATENT, KEY_ROPE, UP_KEY[0], UP_VALUE[0],
            kv_tile=4,
        )  # fmt: skip
