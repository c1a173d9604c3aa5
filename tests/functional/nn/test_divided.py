"""Layers that chips divide: values of one chip, messages by formula, bad input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, StepError
from stepsim.functional import evaluate
from stepsim.machine import load_machine
from stepsim.simulation import simulate
from tests.functional.nn import references as ref
from tests.functional.nn.support import close, normal
from tests.on_chips import in_order, messages_of, moved
from tests.samples import sampled_rows

M, D, F, TILES = 4, 8, 24, 3
"""Rows of a tile, columns, hidden columns, and row tiles."""

X = normal(TILES * M, D)
GATE, UP, DOWN = normal(D, F, seed=1) / 3, normal(D, F, seed=2) / 3, normal(F, D, seed=3) / 3
BIAS = normal(F, seed=4)
MACHINE = {
    "clock_ghz": 1, "chips.count": 8, "chips.topology": "ring", "chips.gib_per_s": 50,
    "chips.latency_ns": 100,
}  # fmt: skip


def loaded(x: np.ndarray, chip: int = 0, rows: int = M) -> st.Stream:
    with st.chip(chip):
        return st.linear_load(x, (rows, x.shape[-1])).flatten(0, 1)


def on_each(chips: int, x: np.ndarray = X, rows: int = M) -> list[st.Stream]:
    return [loaded(x, i, rows) for i in range(chips)]


def built(layer: Callable[[], Sequence[st.Stream]]) -> tuple[st.Program, list[np.ndarray]]:
    """The program of a layer, and what it stores on each chip; it runs on a machine."""
    with st.Program("divided", compute_bw=64) as program:
        for i, y in enumerate(layer()):
            with st.chip(y.producer.chip):
                st.linear_store(y, f"y{i}")
    stored = evaluate(program, decisions=in_order(program)).stored
    run = simulate(program, load_machine("sda-1024", MACHINE))
    assert run.status == "ok"
    assert run.flops == program.metrics().flops
    return program, [stored[f"y{i}"] for i in range(len(stored))]


def sent(program: st.Program) -> dict[int, tuple[int, int]]:
    return {chip: moved(messages) for chip, messages in messages_of(program).items()}


def of_reduce(tp: int, tiles: int, scalars: int) -> dict[int, tuple[int, int]]:
    """Messages and bytes of every chip in ring all-reduces of f32."""
    steps = 2 * (tp - 1) * tiles
    return dict.fromkeys(range(tp), (steps, steps * scalars * 4 // tp)) if tp > 1 else {}


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("single", [False, True])
def test_feed_forward_networks(tp: int, single: bool) -> None:
    wanted = (ref.silu(X @ GATE) * (X @ UP)) @ DOWN
    program, found = built(
        lambda: st.nn.swiglu(loaded(X) if single else on_each(tp), GATE, UP, DOWN, tile=6, tp=tp)
    )
    assert len(found) == tp
    for one in found:
        close(one, wanted)
    messages = of_reduce(tp, TILES, M * D)
    if single and tp > 1:
        count, size = messages[0]
        extra = (tp - 1) * TILES
        messages[0] = count + extra, size + extra * M * D * 4
    assert sent(program) == messages
    sums = (tp - 1) * TILES * M * D
    assert program.metrics().flops == TILES * (6 * M * D * F + 9 * M * F) + sums

    way = None if tp == 1 else "direct"
    _, found = built(lambda: st.nn.gelu_ffn(on_each(tp), UP, DOWN, tp=tp, collective=way))
    close(found[-1], ref.gelu(X @ UP) @ DOWN)


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_a_matrix_by_columns_and_then_by_rows(tp: int) -> None:
    program, found = built(lambda: st.nn.linear(on_each(tp), UP, BIAS, tp=tp))
    close(np.hstack(found), X @ UP + BIAS)
    assert sent(program) == {}
    bias = normal(D, seed=5)

    def both() -> list[st.Stream]:
        hidden = st.nn.linear(loaded(X), UP, BIAS, tile=F // tp, tp=tp)
        rows = []
        for i, x in enumerate(hidden):
            with st.chip(i):
                rows.append(x.flatten(0, 1))
        return st.nn.linear(rows, DOWN, bias, tile=4, tp=tp, divide="rows")

    _, found = built(both)
    for one in found:
        close(one, (X @ UP + BIAS) @ DOWN + bias)


def test_stages_are_on_the_chips_of_their_streams() -> None:
    def stages() -> list[st.Stream]:
        first = st.nn.swiglu(loaded(X), GATE, UP, DOWN, tp=2)
        return st.nn.swiglu(loaded(X, chip=2), GATE, UP, DOWN, tp=2) + first

    program, found = built(stages)
    assert {op.chip for op in program.operators} == {0, 1, 2, 3}
    close(found[0], found[3])


HEADS, LENGTH, W = 4, 12, 8
Q, KEYS, VALUES = (normal(HEADS, LENGTH, W, seed=i) for i in range(3))


def joined(found: list[np.ndarray]) -> np.ndarray:
    """[heads, rows, columns] of what was stored with the row tiles of a head side by side."""
    every = np.vstack(found)
    return every.reshape(len(every) // M, M, -1, W).swapaxes(1, 2).reshape(len(every) // M, -1, W)


def of_heads(x: np.ndarray, tp: int) -> list[st.Stream]:
    """[heads / tp, row tiles] on each chip."""
    found = []
    for i, part in enumerate(np.split(x, tp)):
        with st.chip(i):
            found.append(st.linear_load(part, (M, x.shape[-1])).flatten(0, 1))
    return found


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("tp", [1, 2, 4])
def test_heads_of_tensors(tp: int, kv_heads: int) -> None:
    k, v = KEYS[:kv_heads], VALUES[:kv_heads]
    program, found = built(
        lambda: st.nn.flash_attention(of_heads(Q, tp), k, v, kv_tile=4, causal=True, tp=tp)
    )
    each = HEADS // kv_heads
    wanted = ref.attention(Q, np.repeat(k, each, axis=0), np.repeat(v, each, axis=0), causal=True)
    close(joined(found), wanted)
    assert sent(program) == {}


def test_heads_of_streams() -> None:
    def whole(x: np.ndarray) -> list[st.Stream]:
        found = []
        for i, part in enumerate(np.split(x, 2)):
            with st.chip(i):
                found.append(
                    st.linear_load(part, (LENGTH, W), shape=(2, LENGTH // M), stride=(1, 0))
                )
        return found

    _, found = built(lambda: st.nn.attention(of_heads(Q, 2), whole(KEYS), whole(VALUES), tp=2))
    close(joined(found), ref.attention(Q, KEYS, VALUES))


def test_heads_of_paged_caches() -> None:
    lengths, page, heads, requests = np.array([5, 12]), 4, 2, 2
    caches = [normal(heads * requests * 3 * page, W, seed=i) for i in range(2)]
    queries = normal(heads, requests * M, W, seed=3)
    places = np.arange(heads * requests * 3).reshape(heads, requests, 3)[:, :, ::-1].copy()
    for pages in (None, places):

        def layer(pages: Any = pages) -> list[st.Stream]:
            return st.nn.paged_attention(
                of_heads(queries, 2), *caches, np.tile(lengths, (heads, 1)), page=page,
                pages=pages, tp=2,
            )  # fmt: skip

        _, found = built(layer)
        rows = joined(found).reshape(heads, requests, M, W)
        for h, r in np.ndindex(heads, requests):
            used = np.arange(3) + (h * requests + r) * 3 if pages is None else places[h, r]
            k, v = (x.reshape(-1, page, W)[used].reshape(-1, W)[: lengths[r]] for x in caches)
            close(
                rows[h, r], ref.attention(queries[h : h + 1, r * M : (r + 1) * M], k[None], v[None])
            )


def test_heads_of_a_latent_cache() -> None:
    r, p = 6, 2
    latent, turned, ropes = normal(LENGTH, r), normal(LENGTH, p), normal(HEADS, LENGTH, p)
    up_key, up_value = normal(HEADS * W, r), normal(HEADS * r, W)
    _, found = built(
        lambda: st.nn.latent_attention(
            of_heads(Q, 2), of_heads(ropes, 2), latent, turned, up_key, up_value, kv_tile=4, tp=2
        )
    )
    keys = latent @ up_key.reshape(HEADS, W, r).swapaxes(1, 2)
    keys = np.concatenate([keys, np.broadcast_to(turned, (HEADS, LENGTH, p))], axis=-1)
    wanted = ref.attention(
        np.concatenate([Q, ropes], axis=-1), keys, latent @ up_value.reshape(HEADS, r, W)
    )
    close(joined(found), wanted)


# Experts

EXPERTS, K = 8, 2
GATES, UPS = normal(EXPERTS, D, F, seed=1) / 3, normal(EXPERTS, D, F, seed=2) / 3
DOWNS = normal(EXPERTS, F, D, seed=3) / 3
SCORER = normal(D, EXPERTS, seed=4)


def routed(group: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a group, and their experts."""
    x = normal(5 + group, D, seed=group + 9)
    return x, np.argsort(-(x @ SCORER), axis=1)[:, :K].copy()


def mixed(x: np.ndarray, chosen: np.ndarray, *, weighed: bool) -> np.ndarray:
    out = np.zeros(x.shape)
    for row, experts in enumerate(chosen):
        weights = ref.softmax((x[row] @ SCORER)[experts]) if weighed else np.ones(K)
        for e, weight in zip(experts, weights, strict=True):
            hidden = ref.silu(x[row] @ GATES[e]) * (x[row] @ UPS[e])
            out[row] += weight * (hidden @ DOWNS[e])
    return out


def experts_on(
    tp: int, dp: int, ep: int, *, tile: int | str = "dynamic", weighed: bool = True
) -> list[st.Stream]:
    xs, tables, weights = [], [], []
    for d in range(dp):
        x, chosen = routed(d)
        tables.append(st.routing(chosen, EXPERTS))
        for t in range(tp):
            with st.chip(d * tp + t):
                rows = loaded(x, d * tp + t, rows=1)
                xs.append(rows)
                if weighed:
                    scores = st.linear_load((x @ SCORER).astype("f4"), (1, EXPERTS)).flatten(0, 1)
                    weights.append(st.nn.chosen_weights(scores, chosen))
    return st.nn.moe(
        xs, tables, GATES, UPS, DOWNS, weights if weighed else None, tile=tile, inner=6, tp=tp,
        ep=ep,
    )  # fmt: skip


SPLITS = [(1, 1, 1), (2, 1, 1), (2, 1, 2), (4, 1, 2), (1, 2, 2), (1, 4, 4), (2, 2, 4), (2, 2, 1)]
EXPERTS_ON = [(*split, weighed) for weighed in (True, False) for split in SPLITS]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tp", "dp", "ep", "weighed"), sampled_rows(EXPERTS_ON, [*EXPERTS_ON[:8], EXPERTS_ON[14]])
)
def test_experts(tp: int, dp: int, ep: int, weighed: bool) -> None:
    program, found = built(lambda: experts_on(tp, dp, ep, weighed=weighed))
    for d in range(dp):
        x, chosen = routed(d)
        for t in range(tp):
            close(found[d * tp + t], mixed(x, chosen, weighed=weighed))
    each = EXPERTS // ep
    across = np.gcd(ep, dp)
    bytes_of = dict.fromkeys(range(tp * dp), 0)
    scalars = 2 * D + (K if weighed else 0)
    for d in range(dp):
        x, chosen = routed(d)
        for t in range(tp):
            if tp > 1:
                bytes_of[d * tp + t] += 2 * (tp - 1) * len(x) * D * 4 // tp
            for other in range(d - d % across, d - d % across + across):
                # Which of ep parts a chip has: groups first, then members.
                block = t // (tp // (ep // across)) * across + other % across
                rows = int((chosen // each == block).any(axis=1).sum())
                if other != d:
                    bytes_of[d * tp + t] += rows * (scalars - D) * 4
                    bytes_of[other * tp + t] += rows * D * 4
    found_bytes = {number: size for number, (_, size) in sent(program).items()}
    assert found_bytes == {number: size for number, size in bytes_of.items() if size}


@pytest.mark.parametrize("tile", [1, 3])
def test_static_tiles_of_experts(tile: int) -> None:
    _, found = built(lambda: experts_on(2, 2, 4, tile=tile))
    for d in range(2):
        close(found[2 * d], mixed(*routed(d), weighed=True))


def test_groups_of_unlike_sizes_wait_for_no_room() -> None:
    # The only tile of expert 0 is full when its last row has come; expert 1 keeps 600 results.
    chosen = [[[0]], [[0], *[[1]] * 600, [0]]]
    with st.Program("unlike", compute_bw=64, fifo_depth=2) as program:
        xs = [loaded(normal(len(rows), D), d, rows=1) for d, rows in enumerate(chosen)]
        tables = [st.routing(rows, EXPERTS) for rows in chosen]
        for d, y in enumerate(st.nn.moe(xs, tables, GATES, UPS, DOWNS, tile=4, ep=2)):
            with st.chip(d):
                y.consume()
    assert simulate(program, load_machine("sda-1024", MACHINE)).status == "ok"


def test_one_stream_of_rows_is_sent_to_all_members() -> None:
    x, chosen = routed(0)

    def layer() -> list[st.Stream]:
        rows = loaded(x, rows=1)
        scores = st.linear_load((x @ SCORER).astype("f4"), (1, EXPERTS)).flatten(0, 1)
        weights = st.nn.chosen_weights(scores, chosen)
        table = st.routing(chosen, EXPERTS)
        return st.nn.moe(rows, table, GATES, UPS, DOWNS, weights, tile="dynamic", tp=4, ep=4)

    _, found = built(layer)
    for one in found:
        close(one, mixed(x, chosen, weighed=True))


def test_parts_of_named_tensors_say_their_chip() -> None:
    with st.Program("names", compute_bw=64) as program:
        w = st.spec(D, F, name="w")
        for y in st.nn.linear(on_each(3), w, tp=3):
            y.consume()
    names = [op.tensor for op in program.operators if getattr(op, "tensor", None) is not None]
    assert [str(t) for t in names if t.name] == [
        "w[8x8 bf16]", "w@1[8x8 bf16]", "w@2[8x8 bf16]",
    ]  # fmt: skip


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "columns": (
        lambda: st.nn.linear(on_each(5), UP, tp=5),
        "tp 5 does not divide the 24 columns of weight",
    ),
    "rows": (
        lambda: st.nn.linear(on_each(5, UP.T.copy()[:, :4]), DOWN, tp=5, divide="rows"),
        "tp 5 does not divide the 24 rows of weight",
    ),
    "streams": (
        lambda: st.nn.linear(on_each(2), UP, tp=4),
        "x is 2 streams, tp is 4. Give a list with a stream on each of 4 chips, or a single one",
    ),
    "one stream of rows": (
        lambda: st.nn.linear(loaded(X), UP, tp=2, divide="rows"),
        "x is 1 stream, tp is 2. Give a list with a stream on each of 2 chips",
    ),
    "no tp": (lambda: st.nn.swiglu(on_each(2), GATE, UP, DOWN), "x is a list of streams; say how"),
    "one chip": (
        lambda: st.nn.linear([loaded(X), loaded(X)], UP, tp=2),
        r"x\[0\] and x\[1\] are both on chip 0. Make each in `with st.chip\(...\)`.\n",
    ),
    "divide": (lambda: st.nn.linear(loaded(X), UP, tp=2, divide="tiles"), "'columns' or 'rows'"),
    "divide without tp": (
        lambda: st.nn.linear(loaded(X), UP, divide="rows"), "divide has no effect without tp",
    ),
    "collective without sums": (
        lambda: st.nn.linear(loaded(X), UP, tp=2, collective="ring"),
        "collective has no effect on a matrix divided by columns",
    ),
    "collective of one chip": (
        lambda: st.nn.swiglu(loaded(X), GATE, UP, DOWN, tp=1, collective="ring"),
        "collective has no effect with tp 1",
    ),
    "collective": (
        lambda: st.nn.swiglu(on_each(3), GATE, UP, DOWN, tp=3, collective="halving-doubling"),
        "needs a number of chips that is a power of two, found 3",
    ),
    "write_back": (
        lambda: st.nn.swiglu(on_each(2), GATE, UP, DOWN, tp=2, write_back=True),
        "write_back has no effect on a result that an all-reduce makes",
    ),
    "bias": (
        lambda: st.nn.linear(loaded(X), UP, loaded(X), tp=2),
        "bias is a stream, which chips cannot divide",
    ),
    "tp": (lambda: st.nn.linear(loaded(X), UP, tp=0), "tp must be an int"),
    "keys": (
        lambda: st.nn.attention(of_heads(Q, 2), loaded(X), loaded(X), tp=2),
        "k must be a list of 2 streams, one on each chip",
    ),
    "heads": (
        lambda: st.nn.flash_attention(of_heads(Q, 2), KEYS[:3], VALUES[:3], kv_tile=4, tp=2),
        "tp 2 does not divide the 3 heads of k",
    ),
    "lengths": (
        lambda: st.nn.paged_attention(of_heads(Q, 2), X, X, [4, 4], page=4, tp=2),
        r"lengths have shape \[2\], whose first dim counts heads",
    ),
    "experts": (lambda: experts_on(1, 3, 3), "ep 3 does not divide the 8 experts of the table"),
    "ep": (lambda: experts_on(2, 1, 4), "expected a divisor of dp 1 times a divisor of tp 2"),
    "hidden columns": (
        lambda: experts_on(5, 1, 1), "5 members of a group do not divide the 24 hidden columns",
    ),
    "tables": (
        lambda: st.nn.moe(
            on_each(2, rows=1), st.routing(np.zeros((12, 1), int), EXPERTS), GATES, UPS, DOWNS,
            tile=1, ep=2,
        ),
        "table must be a list of 2 routings, one of each group",
    ),
    "a table of the run": (
        lambda: st.nn.moe(
            on_each(2, rows=1), st.routing(st.spec(12, 1), EXPERTS), GATES, UPS, DOWNS, tile=1,
            tp=2,
        ),
        "is bound with each run, and a program on several chips is for one routing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_named(case: str) -> None:
    make, text = WRONG[case]
    with pytest.raises(ArgError, match=text), st.Program("wrong", compute_bw=64):
        make()


def test_a_page_on_another_chip_is_named() -> None:
    caches = normal(16, W), normal(16, W, seed=1)
    with pytest.raises(StepError, match="pages"), st.Program("wrong", compute_bw=64):
        st.nn.paged_attention(
            of_heads(normal(2, 4, W), 2), *caches, [[4], [4]], page=4, pages=[[[0]], [[1]]], tp=2
        )
