"""Programs of compiled graphs: values, FLOPs and cycles, for blocks and random graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as some

from stepsim.design import (
    DataflowGraph,
    GraphBuilder,
    OperatorGraph,
    block,
    fold_unit_dims,
    fuse_elementwise,
    fuse_kernels,
    kernels_of,
    permute,
    program_of,
    programs_of,
    share_converters,
    single_buffers,
    tile,
    unroll,
)
from stepsim.design.passes.memory.dma import pack, widen
from stepsim.design.passes.memory.fifos import fold_buffers, vectorize_fifos
from stepsim.errors import CompileError
from tests.design.compiled import drawn_schedule, evaluated, simulated, worst
from tests.design.operators.test_models import PHASES, SMALL, drawn
from tests.design.random_graphs import drawn_graphs
from tests.property_profile import profile
from tests.samples import sampled

UNLIMITED = 1 << 40


def compiled(
    graph: OperatorGraph, size: int = 16, budget: int = UNLIMITED, order: Any = None
) -> DataflowGraph:
    scheduled = permute(unroll(tile(graph, size), 1024), order or "reductions_outermost")
    return fuse_kernels(share_converters(kernels_of(scheduled)), budget)


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("model", sampled(SMALL, "gpt2-medium", "gemma-3-1b"))
def test_blocks_have_the_values_of_their_graphs(model: str, phase: Any) -> None:
    """Prefill of 16 tokens, and decoding one against a cache of 64."""
    given = block(model, phase, **SMALL[model])
    graph = fuse_elementwise(fold_unit_dims(given))
    values = drawn(given)
    expected = given.evaluate(values)
    one = compiled(graph)
    assert len(one.groups) == 1
    assert worst(graph, evaluated(one, values), expected) < 1e-4
    assert simulated(one)[1] == graph.flops


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    sampled(
        ["innermost", "small tiles", "groups", "greedy", "reload", "packed", "widened", "vectors"],
        "groups",
        "reload",
        "widened",
        "vectors",
    ),
)
def test_every_choice_keeps_the_values(how: str) -> None:
    graph = fuse_elementwise(block("qwen2.5-0.5b", "prefill", **SMALL["qwen2.5-0.5b"]))
    values = drawn(graph)
    kernels = share_converters(kernels_of(permute(tile(graph))))
    made = {
        "innermost": lambda: compiled(graph, order="reductions_innermost"),
        "small tiles": lambda: compiled(graph, 4),
        "groups": lambda: fuse_kernels(kernels, 3000),
        "greedy": lambda: fuse_kernels(kernels, 3000, "greedy"),
        "reload": lambda: fuse_kernels(kernels, UNLIMITED, reuse_bytes=0),
        "packed": lambda: pack(fuse_kernels(kernels, 3000)),
        "widened": lambda: widen(pack(compiled(graph)), 256),
        "vectors": lambda: vectorize_fifos(compiled(graph), slack=10),
    }[how]()
    assert len(made.groups) > 1 or how not in ("groups", "greedy", "packed")
    assert worst(graph, evaluated(made, values), graph.evaluate(values)) < 1e-4
    assert simulated(made)[1] == graph.flops


@pytest.mark.slow
@profile(30)
@given(some.data())
def test_any_tiles_and_orders_keep_values_and_flops(data: Any) -> None:
    drawn_graph = data.draw(drawn_graphs())
    graph = drawn_graph.graph
    if data.draw(some.booleans()):
        graph = fuse_elementwise(fold_unit_dims(graph))
    try:
        kernels = share_converters(kernels_of(drawn_schedule(data.draw, graph)))
    except CompileError as error:
        # A slice across tiles of several loops, or pairs that do not lie side by side.
        if "read alone" not in str(error) and "contiguous slice" not in str(error):
            raise
        assume(False)
    budget = data.draw(some.sampled_from([0, 64, UNLIMITED]))
    method: Any = data.draw(some.sampled_from(["greedy", "merge"]))
    made = fuse_kernels(kernels, budget, method)
    found = evaluated(made, drawn_graph.values)
    assert worst(graph, found, graph.evaluate(drawn_graph.values)) < 1e-4
    assert simulated(made)[1] == graph.flops
    assert converter_bytes(made) == made.converter_bytes


def converter_bytes(graph: DataflowGraph) -> int:
    """Bytes of both halves of all buffers between kernels, as the programs have them."""
    found = 0
    for group in programs_of(graph):
        for row in group.program.metrics().table():
            if row.operator.name == "bufferize" and not row.operator.label.startswith("load_"):
                tile = row.operator.inputs[0].type
                bits = int(tile.rows) * int(tile.cols) * tile.dtype.bits
                found += int(row.on_chip_memory) - bits // 8
    return found


def tokens(stream: Any) -> list[tuple[int, ...]]:
    """The offsets of a nest, by its loops one inside the other."""
    offsets = [tuple(const for _, const in stream.map.results)]
    for p, (trip, step) in enumerate(zip(stream.trips, stream.steps, strict=True)):
        moved = [coefficients[p] * step for coefficients, _ in stream.map.results]
        offsets = [
            tuple(o + turn * m for o, m in zip(at, moved, strict=True))
            for at in offsets
            for turn in range(trip)
        ]
    return offsets


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("model", SMALL)
@pytest.mark.parametrize("order", ["reductions_outermost", "reductions_innermost"])
def test_converters_only_where_tokens_differ(model: str, phase: Any, order: Any) -> None:
    graph = fuse_elementwise(block(model, phase, **SMALL[model]))
    kinds = set()
    for edge in kernels_of(permute(tile(graph, 8), order)).edges:
        same = edge.source.element == edge.target.element and tokens(edge.source) == tokens(
            edge.target
        )
        assert edge.matched == same, str(edge.converter)
        kinds.add(edge.matched)
    assert kinds == {True, False}


@profile(50)
@given(some.data())
def test_ports_are_the_slices_of_the_loop_nest(data: Any) -> None:
    """Every token of every port is the slice that numpy finds by walking the loops."""
    graph = drawn_schedule(data.draw, data.draw(drawn_graphs()).graph)
    for op in graph.ops:
        if op.kind in ("concat", "opaque", "gather", "pad"):
            continue
        alone = OperatorGraph(
            "alone",
            {
                **{
                    x.tensor: graph.tensors[x.tensor].__class__(
                        x.tensor, graph.tensors[x.tensor].shape, "i8", "input"
                    )
                    for x in op.inputs
                },
                op.output.tensor: graph.tensors[op.output.tensor].__class__(
                    op.output.tensor, graph.tensors[op.output.tensor].shape, "i8", "output"
                ),
            },
            (op,),
        )
        (kernel,) = kernels_of(alone).kernels
        assert op.tiling is not None
        nest: list[dict[str, int]] = [{}]
        for dim in op.tiling.order:
            step = op.tiling.tile[dim]
            nest = [{**at, dim: place} for at in nest for place in range(0, op.sizes[dim], step)]
        for operand, port in zip(op.inputs, kernel.inputs, strict=True):
            starts = [start for start, _ in port.window]
            expected = [
                tuple(
                    index.offset + sum(n * at[dim] for dim, n in index.terms) - start
                    for index, start in zip(operand.access, starts, strict=True)
                )
                for at in nest
            ]
            assert [tuple(map(int, o)) for o in port.itensor.offsets()] == expected


def test_parts_of_a_tensor_go_where_they_are_read() -> None:
    """Queries, keys and values in one matrix, whose columns three consumers share."""
    b = GraphBuilder("joint")
    x, w = b.input("x", (8, 16)), b.weight("w", (48, 16))
    heads = [
        b.transpose(b.reshape(part, (8, 2, 8)), 0, 1)
        for part in b.chunk(b.linear(x, w), 3, axis=-1)
    ]
    b.output(b.sdpa(*heads, causal=True), "y")
    graph = b.graph()
    values = drawn(graph)
    for size in (4, 8, 16):
        made = compiled(graph, size)
        assert worst(graph, evaluated(made, values), graph.evaluate(values)) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_block_of_full_size(phase: Any) -> None:
    graph = block("gpt2-medium", phase)
    values = drawn(graph)
    made = widen(pack(compiled(fuse_elementwise(fold_unit_dims(graph)), 64)))
    assert worst(graph, evaluated(made, values), graph.evaluate(values)) < 1e-4


def test_rows_by_index() -> None:
    b = GraphBuilder("embedding")
    rows = b.embedding(b.input("ids", (12,)), b.weight("table", (40, 32)))
    b.output(b.linear(rows, b.weight("w", (24, 32))), "y")
    graph = b.graph()
    values = {**drawn(graph), "ids": np.random.default_rng(1).integers(0, 40, 12)}
    made = compiled(graph)
    assert worst(graph, evaluated(made, values), graph.evaluate(values)) < 1e-4
    (program,) = programs_of(made, values)
    with pytest.raises(CompileError, match="'ids' are addresses"):
        program.tensors({**values, "ids": np.zeros(12, int)})


def test_opaque_operators_take_their_declared_cost() -> None:
    b = GraphBuilder("opaque")
    made = b.opaque("magic", [b.silu(b.input("x", (12, 32)))], (8, 64), flops=12345)
    b.output(b.exp(made), "y")
    graph = b.graph()
    cycles, flops = simulated(compiled(graph, 8))
    assert flops == graph.flops == 12345 + 8 * 12 * 32 + 4 * 8 * 64
    slow = tile(graph, 8)
    assert simulated(fuse_kernels(kernels_of(permute(slow)), 0))[0] > max(cycles, 12345)


@pytest.mark.slow
def test_no_cycle_is_lost_by_folded_buffers() -> None:
    edges = 0
    for model in SMALL:
        for phase in PHASES:
            one = compiled(fuse_elementwise(block(model, phase, **SMALL[model])))  # type: ignore[arg-type]
            folded = fold_buffers(one)
            assert simulated(folded)[0] <= simulated(one)[0]
            edges += sum(edge.folded for edge in folded.edges)
    assert edges > 0


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("model", sampled(SMALL, "gemma-3-1b"))
def test_one_buffer_everywhere_keeps_values(model: str, phase: Any) -> None:
    given = block(model, phase, **SMALL[model])
    graph = fuse_elementwise(fold_unit_dims(given))
    values = drawn(given)
    two = compiled(graph, 8)
    names = [edge.name for edge in two.edges if not edge.matched]
    names += [dma.name for dma in two.dmas if dma.converter_bytes]
    one = single_buffers(two, names)
    assert worst(graph, evaluated(one, values), given.evaluate(values)) < 1e-4
    assert simulated(one)[0] >= simulated(two)[0]
    assert converter_bytes(one) == one.converter_bytes == two.converter_bytes // 2


@pytest.mark.slow
def test_packed_loads_are_not_slower() -> None:
    one = compiled(block("gpt2-medium", "decode", **SMALL["gpt2-medium"]))
    assert simulated(pack(one))[0] < simulated(one)[0]
    assert simulated(widen(pack(one)))[0] < simulated(one)[0]


def test_programs_need_groups() -> None:
    graph = block("tinyllama-1.1b", **SMALL["tinyllama-1.1b"])
    kernels = kernels_of(permute(tile(graph)))
    with pytest.raises(CompileError, match=r"no loads and stores; .* fuse_kernels"):
        programs_of(kernels)
    several = fuse_kernels(kernels, 0)
    with pytest.raises(CompileError, match=f"has {len(several.groups)} groups"):
        program_of(several)
    assert program_of(fuse_kernels(kernels, UNLIMITED)).closed
