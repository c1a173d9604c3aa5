"""How units fail: inputs that do not fit are an error even when there is no room for a result."""

from __future__ import annotations

from typing import Any

import pytest

from stepsim.kernels.driver import execute
from stepsim.lowering import Network, build_image
from tests.engine_backend import run_engine
from tests.oracle.build import NetBuilder
from tests.oracle.compare import assert_same
from tests.oracle.example import tile_tokens
from tests.oracle.interpreter import interpret
from tests.oracle.invariants import check_all

WIDE, NARROW = [4, 16, 2, 0], [4, 8, 2, 0]
EMPTY = {"tile": [*WIDE, 0], "level": 0}
LEVELS = (tile_tokens(WIDE, [0, 0]), tile_tokens(WIDE, [0, 1]))
SHAPES = ([*tile_tokens(WIDE, [0]), *tile_tokens(NARROW, [0])], tile_tokens(WIDE, [0, 0]))
PRODUCT: dict[str, Any] = {"fn": ["Mul"], "bw": 64, "wb": False}
MATMUL: dict[str, Any] = {"fn": ["Matmul", True], "bw": 64, "wb": False}
WIDTHS = (tile_tokens(WIDE, [0, 0]), [*tile_tokens(WIDE, [0]), *tile_tokens([4, 16, 0.5, 0], [0])])


def sealed(op: str, params: dict[str, Any], sources: tuple[list[Any], ...]) -> Network:
    """``op``, whose result waits in a FIFO of one token that nobody ever takes."""
    b = fed(op, params, sources)
    b.unit("stuck", "BinaryMap", ["out", "own"], ["own"], **PRODUCT)
    return b.network()


def fed(op: str, params: dict[str, Any], sources: tuple[list[Any], ...]) -> NetBuilder:
    """``op`` between its sources and channel ``out``."""
    b = NetBuilder(capacity=1)
    names = [f"in{i}" for i in range(len(sources))]
    for name, tokens in zip(names, sources, strict=True):
        b.unit(f"source {name}", "Gen", [], [name], tokens=tokens)
    if op == "UnaryMap":  # of pairs
        b.unit("pairs", "Zip", names, ["pairs"])
        names = ["pairs"]
    b.unit("unit", op, names, ["out"], **params)
    return b


@pytest.mark.parametrize(
    ("op", "params", "sources"),
    [
        ("BinaryMap", PRODUCT, LEVELS),
        ("BinaryMap", PRODUCT, SHAPES),
        ("Zip", {}, LEVELS),
        ("UnaryMap", PRODUCT, SHAPES),
        ("BinaryMap", MATMUL, WIDTHS),
        ("UnaryMap", MATMUL, WIDTHS),
    ],
    ids=["levels", "shapes", "zip", "pair", "widths", "widths of a pair"],
)
def test_a_bad_input_fails_although_there_is_no_room(op, params, sources) -> None:
    network = sealed(op, params, sources)
    engine, interpreter = run_engine(network), interpret(network)
    assert interpreter.unit_status["unit"].state == "failed"
    assert len(interpreter.tokens["out"]) == 1
    assert_same(engine, interpreter, accounts=True)
    check_all(network, engine)


@pytest.mark.parametrize("op", ["BinaryMap", "UnaryMap"])
def test_widths_may_differ_where_that_of_the_result_is_given(op: str) -> None:
    b = fed(op, {**MATMUL, "result_bpe": 1}, WIDTHS)
    b.unit("sink", "Consumer", ["out"], [])
    network = b.network()
    engine, interpreter = run_engine(network), interpret(network)
    assert [token[2]["tile"][2] for token in engine.tokens["out"]] == [1, 1]
    assert_same(engine, interpreter, accounts=True)


def test_a_token_that_expands_to_nothing_is_taken() -> None:
    """Its slot is free for one more of the producer, which has nobody to send it to."""
    b = NetBuilder(capacity=2)
    b.unit("source", "Gen", [], ["in"], tokens=[EMPTY] * 5)
    b.unit("flat", "FlatMap", ["in"], ["out"], dims=["valid"], tile=[1, "cols"], cycles=1)
    b.unit("sink", "Consumer", ["out"], [])
    network = b.network()
    engine, interpreter = run_engine(network), interpret(network)
    assert interpreter.unit_status["flat"].state == "failed"
    assert (interpreter.removed["in"], len(interpreter.tokens["in"])) == (1, 3)
    assert_same(engine, interpreter, accounts=True)


def test_work_is_counted_once_however_often_there_is_no_room() -> None:
    b = NetBuilder(capacity=1)
    # All that the maps need is there at once, so that room is what they wait for.
    for name in ("in0", "in1"):
        b.channel(name, None)
        b.unit(f"source {name}", "Gen", [], [name], tokens=tile_tokens(WIDE, [0] * 9))
    b.channel("middle", 4)
    b.unit("product", "BinaryMap", ["in0", "in1"], ["middle"], **PRODUCT)
    b.unit("silu", "UnaryMap", ["middle"], ["out"], fn="Silu", bw=64, wb=False)
    b.unit("slow", "Hold", ["out"], [], n=50)
    image = build_image(b.network())
    flops = dict(zip(image.unit_names, execute(image).units["flops"].tolist(), strict=True))
    assert (flops["product"], flops["silu"]) == (9 * 4 * 16, 8 * 9 * 4 * 16)
