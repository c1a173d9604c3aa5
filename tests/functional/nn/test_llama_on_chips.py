"""A decoder layer of the Llama family that chips divide: values of one chip, FLOPs, messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError
from stepsim.functional import evaluate
from stepsim.machine import load_machine
from stepsim.simulation import simulate
from tests.functional.nn.support import close
from tests.functional.nn.test_llama import (
    LENGTH,
    SEQUENCES,
    TILES,
    D,
    M,
    X,
    block_flops,
    expected,
    load,
    weights,
)
from tests.on_chips import in_order, messages_of, moved

MACHINE = {
    "clock_ghz": 1, "chips.count": 8, "chips.topology": "ring", "chips.gib_per_s": 50,
    "chips.latency_ns": 100,
}  # fmt: skip


def divided(tp: int, heads: int, kv_heads: int, **options: Any) -> tuple[st.Program, list[Any]]:
    """The program of a layer on chips, each with the rows, and what it stores on each of them."""
    with st.Program("layer on chips", compute_bw=64) as program:
        xs = []
        for number in range(tp):
            with st.chip(number):
                xs.append(load())
        ys = st.nn.llama_block(
            xs, weights(heads, kv_heads), heads=heads, kv_heads=kv_heads, inner=6, tp=tp, **options
        )
        for number, y in enumerate(ys):
            assert y.producer.chip == number
            with st.chip(number):
                st.linear_store(y.flatten(0, 1), f"y{number}")
    stored = evaluate(program, decisions=in_order(program)).stored
    return program, [stored[f"y{number}"] for number in range(tp)]


def flops(tp: int, heads: int, kv_heads: int) -> int:
    """Norms and sums are on every chip, and key heads on as many as need them."""
    more = 2 * (4 * M * D + 6 * M) + 2 * M * D  # of every further chip, and its all-reduces:
    more += 2 * M * D
    return block_flops(heads, max(tp, kv_heads)) + SEQUENCES * TILES * (tp - 1) * more


@pytest.mark.parametrize(
    ("tp", "heads", "kv_heads"), [(1, 4, 2), (2, 4, 2), (2, 4, 4), (4, 4, 2), (4, 8, 1), (4, 8, 4)]
)
def test_each_chip_has_the_values_of_the_whole(tp: int, heads: int, kv_heads: int) -> None:
    program, found = divided(tp, heads, kv_heads)
    wanted = expected(weights(heads, kv_heads))
    for one in found:
        close(one.reshape(wanted.shape), wanted)
    run = simulate(program, load_machine("sda-1024", MACHINE))
    assert run.status == "ok"
    assert run.flops == program.metrics().flops == flops(tp, heads, kv_heads)


@pytest.mark.parametrize("collective", ["ring", "direct", "halving-doubling"])
def test_messages_are_those_of_two_all_reduces(collective: str) -> None:
    program, found = divided(4, 4, 2, collective=collective)
    close(found[3].reshape(SEQUENCES, LENGTH, D), expected(weights(4, 2)))
    each = 2 * SEQUENCES * TILES
    # Both all-reduces of every tile of f32; see the table of collectives.
    count = {"ring": 6, "direct": 6, "halving-doubling": 4}[collective]
    size = 6 * M * D * 4 // 4
    sent = {chip: moved(messages) for chip, messages in messages_of(program).items()}
    assert sent == dict.fromkeys(range(4), (each * count, each * size))


def test_a_single_stream_is_sent_to_all_chips() -> None:
    with st.Program(compute_bw=64) as program:
        ys = st.nn.llama_block(load(), weights(4, 2), heads=4, kv_heads=2, tp=2)
        for number, y in enumerate(ys):
            with st.chip(number):
                st.linear_store(y.flatten(0, 1), f"y{number}")
    stored = evaluate(program, decisions=in_order(program)).stored
    for number in range(2):
        close(stored[f"y{number}"].reshape(SEQUENCES, LENGTH, D), expected(weights(4, 2)))
    names = {op.tensor.name for op in program.operators if isinstance(op, st.LinearLoad)}
    assert names == {None}
    assert {op.chip for op in program.operators} == {0, 1}
    crossed = sum(size for _, size in (moved(one) for one in messages_of(program).values()))
    assert crossed == X.size * 4 + 2 * SEQUENCES * TILES * 2 * M * D * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tp": 3, "heads": 4, "kv_heads": 2}, "tp 3 does not divide the 4 heads"),
        ({"tp": 8, "heads": 4, "kv_heads": 2}, "tp 8 does not divide the 4 heads"),
        (
            {"tp": 4, "heads": 12, "kv_heads": 6},
            "tp 4 neither divides the 6 key heads nor is a multiple of them",
        ),
        ({"tp": 16, "heads": 16, "kv_heads": 16}, "tp 16 does not divide the 24 columns of gate"),
        ({"heads": 4, "kv_heads": 2, "collective": "ring"}, "no effect without tp"),
        ({"heads": 4, "kv_heads": 2, "tp": 1, "collective": "ring"}, "no effect with tp 1"),
        ({"heads": 4, "kv_heads": 2, "tp": 2, "collective": "tree"}, "collective must be"),
    ],
)
def test_errors_name_the_argument(options: dict[str, Any], message: str) -> None:
    own = weights(options["heads"], options["kv_heads"])
    with pytest.raises(ArgError, match=message), st.Program(compute_bw=8):
        st.nn.llama_block(load(), own, **options)


def test_a_list_of_streams_needs_tp() -> None:
    with pytest.raises(ArgError, match="say how many chips with tp="), st.Program(compute_bw=8):
        st.nn.llama_block([load()], weights(4, 2), heads=4, kv_heads=2)
    with pytest.raises(ArgError, match="x is 1 stream, tp is 2"), st.Program(compute_bw=8):
        st.nn.llama_block([load()], weights(4, 2), heads=4, kv_heads=2, tp=2)


def test_parts_of_all_chips_together_are_the_tensors() -> None:
    shapes = {
        "q": (D, 32), "k": (D, 16), "v": (D, 16), "o": (32, D), "gate": (D, 24), "up": (D, 24),
        "down": (24, D), "attention_norm": (1, D), "ffn_norm": (1, D), "cos": (LENGTH, 2),
        "sin": (LENGTH, 2),
    }  # fmt: skip
    own = st.nn.LlamaWeights(**{name: st.spec(*shape, name=name) for name, shape in shapes.items()})
    with st.Program(compute_bw=64) as program:
        for y in st.nn.llama_block(load(), own, heads=8, kv_heads=4, tp=4):
            with st.chip(y.producer.chip):
                y.consume()
    parts: dict[str, dict[str, int]] = {name: {} for name in shapes}
    for op in program.operators:
        if isinstance(op, st.LinearLoad) and op.tensor.name is not None:
            name, _, number = op.tensor.name.partition("@")
            assert op.chip == int(number or 0)
            parts[name][number] = int(np.prod(op.tensor.shape))
    for name, shape in shapes.items():
        copied = name in ("attention_norm", "ffn_norm", "cos", "sin")
        assert len(parts[name]) == 4
        assert sum(parts[name].values()) == (4 if copied else 1) * int(np.prod(shape)), name
