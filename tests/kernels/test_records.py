"""Functions given as records: cycles by hand, tuples, and why their units fail."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest

from stepsim.graph.published_functions import ACCUMULATIONS, MAPS
from stepsim.kernels.driver import execute
from stepsim.kernels.layout import MAX_TILE_SIDE, Abort
from stepsim.lowering import Network, TimingParams, build_image
from tests.engine_backend import run_engine, to_result
from tests.oracle.build import NetBuilder
from tests.oracle.compare import assert_same
from tests.oracle.example import tile_tokens
from tests.oracle.interpreter import interpret
from tests.oracle.invariants import check_all


def side(number: int) -> dict[str, Any]:
    return {"poly": [[1, [number]]]}


def result(rows: int, cols: int, **rules: Any) -> dict[str, Any]:
    """A result with the sides of operands."""
    plain = {"valid": ["rows"], "bits": ["operand", 0], "value": None, "rd": None}
    return {"rows": side(rows), "cols": side(cols), **plain, **rules}


def record(operands: int, *results: dict[str, Any], **rules: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"states": 0, "checks": [], "same_bits": [], "adopts": []}
    free: dict[str, Any] = {"flops": [], "cycles": []}
    given = {"name": "own", "operands": operands, "results": list(results)}
    return {**empty, **free, **given, **rules}


FUSED = record(3, result(0, 1), flops=[[5, [6, 7]], [3, [6]]])
"""Three tiles to one of the first's shape, for 5 m n + 3 m FLOPs."""


def run_one(network: Network) -> Any:
    """The engine's result, which is the interpreter's."""
    engine = run_engine(network)
    assert engine.status == "ok"
    assert_same(engine, interpret(network), accounts=True)
    check_all(network, engine)
    return engine


def joined(op: str, inputs: int, tile: list[Any], levels: list[int], **params: Any) -> Network:
    b = NetBuilder()
    names = [f"in{i}" for i in range(inputs)]
    for name in names:
        b.unit(f"source {name}", "Src", [], [name], tokens=tile_tokens(tile, levels), n=0)
    b.unit("unit", op, names, ["out"], **params)
    b.unit("sink", "Consumer", ["out"], [])
    return b.network()


@pytest.mark.parametrize(
    ("rd", "bw", "wb", "cycles"),
    [
        (0, 64, False, -(-(5 * 16 * 32 + 3 * 16) // 64)),  # compute: 41
        (1, 64, False, 3 * 16),  # three loads of 1024 bytes
        (0, 1 << 20, True, 16),  # one store
        (0, 1 << 20, False, 1),
    ],
)
def test_three_operands_take_the_longest_of_load_compute_and_store(
    rd: int, bw: int, wb: bool, cycles: int
) -> None:
    network = joined("NaryMap", 3, [16, 32, 2, rd], [0, 1, 0, 2], fn=deepcopy(FUSED), bw=bw, wb=wb)
    engine = run_one(network)
    assert engine.accounts["unit"]["busy"] == 4 * cycles
    assert [token[1] for token in engine.tokens["out"]] == [0, 1, 0, 2]
    run = execute(build_image(network))
    flops = run.units["flops"][[spec.name for spec in network.units].index("unit")]
    assert flops == 4 * (5 * 16 * 32 + 3 * 16)


def test_zipped_operands_spread_in_every_map() -> None:
    for split in ([["a", "b", "c"]], [["a", "b"], ["c"]], [["a"], ["b", "c"]]):
        b = NetBuilder()
        for name in "abc":
            tokens = tile_tokens([4, 8, 2, 1], [0, 1])
            b.unit(f"source {name}", "Src", [], [name], tokens=tokens, n=0)
        ins = []
        for group in split:
            wire = group[0]
            for other in group[1:]:
                b.unit(f"zip {other}", "Zip", [wire, other], [f"{wire}{other}"])
                wire = f"{wire}{other}"
            ins.append(wire)
        op = {1: "UnaryMap", 2: "BinaryMap"}[len(ins)]
        b.unit("unit", op, ins, ["out"], fn=deepcopy(FUSED), bw=1024, wb=False)
        b.unit("sink", "Consumer", ["out"], [])
        assert run_one(b.network()).accounts["unit"]["busy"] == 2 * 3


SOFTMAX = record(
    5,
    result(0, 1),
    result(2, 3),
    result(4, 5),
    states=3,
    checks=[[6, [[1, [0]]]], [9, [[1, [5]]]]],
    flops=[[4, [6, 7]], [2, [6, 7, 9]]],
    cycles=[[2, []]],
)
"""States m and l (r x 1) and acc (r x d) of scores r x n and values n x d."""


@pytest.mark.parametrize("op", ["Accum", "Scan", "BinaryMapAccum"])
@pytest.mark.parametrize("wb", [False, True])
def test_states_of_several_tiles(op: str, wb: bool) -> None:
    b = NetBuilder()
    for name, shape in (("s", [4, 8, 2, 1]), ("v", [8, 16, 2, 1])):
        tokens = tile_tokens(shape, [0, 0, 1, 0, 1])
        b.unit(f"source {name}", "Src", [], [name], tokens=tokens, n=0)
    ins = ["s", "v"]
    if op != "BinaryMapAccum":
        b.unit("zip", "Zip", ins, ["z"])
        ins = ["z"]
    params = {"bw": 1 << 20, "wb": wb, "rank": 1, "init": [[4, 1, 4], [4, 1, 4], [4, 16, 4]]}
    b.unit("unit", op, ins, ["out"], fn=deepcopy(SOFTMAX), **params)
    b.unit("again", "UnaryMap", ["out"], ["end"], fn=record(3, result(4, 5)), bw=0, wb=False)
    b.unit("sink", "Consumer", ["end"], [])
    engine = run_one(b.network())
    load, compute, store = 1 + 4, 1 + 2, 1 + 1 + 4
    final = max(load, compute, store if wb else 0)
    sent = 5 if op == "Scan" else 2
    assert engine.accounts["unit"]["busy"] == (5 - sent) * load + sent * final
    assert [len(token[2]["tuple"]) for token in engine.tokens["out"]] == [3] * sent
    assert engine.tokens["end"][0][2]["tile"][:2] == [4, 16]
    assert engine.accounts["again"]["busy"] == (sent * store if wb else 0)


@pytest.mark.parametrize("shape", [[0, 8], [4, 0], [0, 0]])
def test_an_empty_state_is_adopted(shape: list[int]) -> None:
    network = joined(
        "Accum", 1, [4, 8, 2, 0], [0, 1], fn="Add", bw=1, wb=False, rank=1, init=shape, bpe=2
    )
    engine = run_one(network)
    assert engine.tokens["out"][0][2]["tile"][:2] == [4, 8]
    assert engine.accounts["unit"]["busy"] == 2 * 32


@pytest.mark.parametrize(("model", "rows", "valid"), [
    ("step-2025", 4, 4), ("step-2026", 4, 3), ("step-2025", 1, 4), ("step-2026", 1, 4),
])  # fmt: skip
def test_valid_rows_of_sums(model: str, rows: int, valid: int) -> None:
    b = NetBuilder(TimingParams(model=model))
    tokens = [{"tile": [rows, 8, 2, 0, min(rows, 3)], "level": 1}]
    b.unit("source", "Src", [], ["in"], tokens=tokens, n=0)
    b.unit("unit", "Accum", ["in"], ["out"], fn="Add", bw=8, wb=False, rank=1, init=[4, 8], bpe=2)
    b.unit("sink", "Consumer", ["out"], [])
    assert run_one(b.network()).tokens["out"][0][2]["tile"][4] == valid


@dataclass(frozen=True)
class Failure:
    """A function, its operands' shapes, and how it fails."""

    name: str
    fn: dict[str, Any]
    shapes: list[list[int]]
    reason: Abort
    details: tuple[int, int]
    states: list[list[int]] = field(default_factory=list)


def packed(rows: int, cols: int) -> int:
    return rows * 2 * MAX_TILE_SIDE + cols


HUGE = [1 << 20, 1 << 20]
FAILURES = [
    Failure("a side", record(1, result(0, 1), checks=[[0, [[2, [1]]]]]), [[3, 4]],
            Abort.INNER_DIMS, (packed(0, 3), 8)),
    Failure("a state", record(2, result(2, 3), states=1, checks=[[0, [[1, [4]]]]]), [[3, 4]],
            Abort.INNER_DIMS, (packed(0, 1), 3), [[1, 1]]),
    Failure("three sides", record(3, {**result(0, 1), "rows": {"broadcast": [0, 2, 4]}}),
            [[1, 2], [3, 2], [4, 2]], Abort.NOT_BROADCASTABLE, (packed(3, 2), packed(4, 2))),
    Failure("too large", record(1, {**result(0, 1), "rows": {"poly": [[2, [0]]]}}), [HUGE],
            Abort.TILE_TOO_LARGE, (1 << 21, MAX_TILE_SIDE)),
    Failure("a negative side", record(1, {**result(0, 1), "rows": {"poly": [[-2, [0]]]}}),
            [[3, 4]], Abort.NEGATIVE, (-6, 0)),
    Failure("a negative cost", record(1, result(0, 1), flops=[[1, [0]], [-1, [1]]]), [[3, 4]],
            Abort.NEGATIVE, (-1, 1)),
    Failure("negative cycles", record(1, result(0, 1), cycles=[[-1, [1]]]), [[3, 4]],
            Abort.NEGATIVE, (-4, 1)),
    Failure("too much work", record(1, result(0, 1), flops=[[1, [0, 1, 0, 1]]]), [HUGE],
            Abort.TOO_MUCH_WORK, (0, 0)),
    Failure("too many cycles", record(1, result(0, 1), cycles=[[4, [0, 1, 0]]]), [HUGE],
            Abort.TOO_MUCH_WORK, (0, 0)),
    Failure("a sum that is too large",
            record(1, result(0, 1), flops=[[(1 << 62) - 1, []], [(1 << 62) - 1, []]]), [[3, 4]],
            Abort.TOO_MUCH_WORK, (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.name)
def test_functions_that_fail_say_why(case: Failure) -> None:
    b = NetBuilder()
    names = [f"in{i}" for i in range(len(case.shapes))]
    for name, shape in zip(names, case.shapes, strict=True):
        tokens = tile_tokens([*shape, 1, 0], [1])
        b.unit(f"source {name}", "Src", [], [name], tokens=tokens, n=0)
    if case.states:
        init = [[*shape, 1] for shape in case.states]
        b.unit("unit", "Accum", names, ["out"], fn=case.fn, bw=8, wb=False, rank=1, init=init)
    else:
        op = "UnaryMap" if len(names) == 1 else "NaryMap"
        b.unit("unit", op, names, ["out"], fn=case.fn, bw=8, wb=False)
    b.unit("sink", "Consumer", ["out"], [])
    network = b.network()
    image = build_image(network)
    run = execute(image, history=True)
    unit = run.units[image.unit_names.index("unit")]
    found = (Abort(unit["error"]), (int(unit["detail0"]), int(unit["detail1"])))
    assert found == (case.reason, case.details)
    assert_same(to_result(image, run), interpret(network), accounts=True)


@pytest.mark.parametrize("levels", [[[0, 1], [0, 1], [1, 1]], [[0], [0], []], [[], [0], []]])
def test_three_streams_must_agree(levels: list[list[int]]) -> None:
    b = NetBuilder()
    for name, of_name in zip("abc", levels, strict=True):
        b.late(name, tile_tokens([1, 8, 2, 0], of_name), 20 if name != "b" else 40)
    b.unit("unit", "NaryMap", list("abc"), ["out"], fn=deepcopy(FUSED), bw=8, wb=False)
    b.unit("sink", "Consumer", ["out"], [])
    network = b.network()
    engine = run_engine(network)
    assert engine.unit_status["unit"] == "failed"
    assert_same(engine, interpret(network), accounts=True)


def test_wrong_number_of_members() -> None:
    b = NetBuilder()
    for name in "ab":
        b.unit(f"source {name}", "Src", [], [name], tokens=tile_tokens([4, 8, 2, 0], [0]), n=0)
    b.unit("zip", "Zip", ["a", "b"], ["z"])
    b.unit("unit", "UnaryMap", ["z"], ["out"], fn=MAPS["Silu"], bw=8, wb=False)
    b.unit("sink", "Consumer", ["out"], [])
    network = b.network()
    image = build_image(network)
    unit = execute(image).units[image.unit_names.index("unit")]
    assert (Abort(unit["error"]), unit["detail0"]) == (Abort.PAYLOAD, 4)
    assert_same(run_engine(network), interpret(network), accounts=True)


def test_published_names_are_their_records() -> None:
    """Names and records make the same image."""

    def units(fn: Any, **params: Any) -> Network:
        return joined("Accum", 1, [4, 8, 2, 0], [0, 1], fn=fn, bw=8, wb=False, rank=1, **params)

    named = build_image(units("RetileRow", init=[0, 8], bpe=2))
    given = build_image(units(deepcopy(ACCUMULATIONS["RetileRow"]), init=[[0, 8, 2]]))
    assert named.digest() == given.digest()
