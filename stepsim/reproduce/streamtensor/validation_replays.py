"""Figures of the validation page from small replays: F1, F2, F4 to F6 and F8 to F12.

Draws use fixed seeds, so the page is always the same. Tests check the same criteria on more draws;
the page names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from random import Random
from typing import TypeAlias

from stepsim.design import (
    MODELS,
    Buffer,
    FusionEdge,
    FusionGraph,
    GraphBuilder,
    OrderChoice,
    Stream,
    Task,
    Unrollable,
    allocate,
    best_groups,
    block,
    compile,
    converted,
    crossings,
    greedy_groups,
    heap_skip,
    imbalance,
    kinds_of,
    merged_groups,
    partition,
)
from stepsim.design.passes.memory.memory_kinds import pack
from stepsim.graph import Program, linear_load, spec
from stepsim.itensor import ITensor, converter, matches
from stepsim.machine import load_machine
from stepsim.reproduce.streamtensor.path_program import path_delays
from stepsim.reproduce.streamtensor.stepping_runs import run_network, solved_network
from stepsim.simulation import simulate
from stepsim.sizing import (
    Fifo,
    FifoNetwork,
    SteppingKernel,
    depths_of_delays,
    intervals,
    lower_bounds,
    planned_depths,
)

Row: TypeAlias = tuple[str, str, str, str, str]
"""Criterion, figure, ours, target, tests that check it."""


def replays() -> list[Row]:
    """Rows of the page."""
    return [
        *_types(), *_matching(), *_converters(), *_passes(), *_fusion(), *_sizing(), *_bypasses(),
        *_unrolling(), *_placement(), *_models(),
    ]  # fmt: skip


def _drawn_type(random: Random) -> ITensor:
    """Tiles of an 8x12 tensor, each axis in one or two loops, sometimes with a repeating loop."""
    element = [random.choice((1, 2, 4)), random.choice((1, 2, 3, 4))]
    loops: list[tuple[int | None, int, int]] = []
    for axis, size in enumerate((8, 12)):
        turns = size // element[axis]
        inner = random.choice([n for n in range(1, turns + 1) if turns % n == 0])
        loops += [(axis, turns // inner, element[axis] * inner), (axis, inner, element[axis])]
    random.shuffle(loops)
    if random.random() < 0.3:
        loops.insert(random.randrange(len(loops) + 1), (None, random.randint(1, 3), 1))
    return ITensor.of_loops((8, 12), loops, element, "f32")


def _sequence(stream: ITensor) -> list[tuple[int, ...]]:
    """Offsets of all tokens, by going through the loops one by one."""
    found = []
    for turns in product(*(range(trip) for trip in stream.trips)):
        at = [turn * step for turn, step in zip(turns, stream.steps, strict=True)]
        found.append(
            tuple(
                const + sum(n * i for n, i in zip(coefficients, at, strict=True))
                for coefficients, const in stream.map.results
            )
        )
    return found


def _types(count: int = 500) -> list[Row]:
    random = Random(1)
    equal = 0
    for _ in range(count):
        stream = _drawn_type(random)
        every = _sequence(stream)
        reach = tuple(
            max(offset[axis] for offset in every) + size for axis, size in enumerate(stream.element)
        )
        equal += stream.tokens == len(every) and tuple(stream.shape) == reach
    found = f"{equal} of {count}"
    return [("F1", "random types whose tokens and shape are those of an enumeration", found,
             "all", "tests/itensor")]  # fmt: skip


def _matching(count: int = 1000) -> list[Row]:
    random = Random(2)
    wrong = same = 0
    for _ in range(count):
        one = _drawn_type(random)
        # Half of the pairs split the same loops elsewhere, so many are in fact equal.
        other = _drawn_type(random) if random.random() < 0.5 else _recut(random, one)
        equal = one.element == other.element and _sequence(one) == _sequence(other)
        same += equal
        wrong += matches(one, other) != equal
    return [("F2", f"of {count} random pairs, {same} of them with equal tokens: a converter "
             "where tokens are equal, or none where they differ", str(wrong), "0",
             "tests/itensor, tests/design/passes/test_converters_where_needed.py")]  # fmt: skip


def _recut(random: Random, one: ITensor) -> ITensor:
    """The same tokens, with a loop split in two or an additional loop of one iteration."""
    loops: list[tuple[int | None, int, int]] = []
    for loop in one.loops:
        dims = [axis for axis, n in enumerate(loop.stride) if n]
        dim = dims[0] if dims else None
        step = loop.stride[dim] if dim is not None else 1
        inner = random.choice([n for n in range(1, loop.trip + 1) if loop.trip % n == 0])
        loops += [(dim, loop.trip // inner, step * inner), (dim, inner, step)]
    return ITensor.of_loops(one.shape, loops, one.element, one.dtype)


def _converters() -> list[Row]:
    """Rows of a 64x64 tensor in tiles of 16x16, each drained three times."""
    where = "tests/design/passes/test_converters_in_programs.py"
    cycles, held = [], 0
    for rows in (64, 128):
        turns = rows // 16
        source = ITensor.of_loops((rows, 64), [(0, turns, 16), (1, 4, 16)], (16, 16), "f32")
        again: list[tuple[int | None, int, int]] = [(0, turns, 16), (None, 3, 1), (1, 4, 16)]
        by = converter(source, ITensor.of_loops((rows, 64), again, (16, 16), "f32"))
        with Program("converter") as program:
            tiles = spec(source.tokens * 16, 16, dtype="f32")
            x = linear_load(tiles, (16, 16), bypass=True).flatten(0, 1)
            converted(x, by, "converter").consume()
        cycles.append(simulate(program).cycles)
        held = sum(
            int(row.on_chip_memory)
            for row in program.metrics().table()
            if row.operator.name == "bufferize"
        )
    chunk = prod(by.chunk) * 4
    interval = (cycles[1] - cycles[0]) / 4
    return [
        ("F4", "bytes of a converter, rows of 16x64 f32 in tiles of 16x16", f"{held:,}",
         f"{2 * chunk + 1024:,}: two chunks and a token", where),
        ("F4", "cycles of a turn that fills 4 tiles of 1 KiB and drains 12, simulated",
         f"{interval:.1f}", "the longer of fill and drain", where),
    ]  # fmt: skip


def _passes() -> list[Row]:
    """A feed-forward network with and without each of the passes over FIFOs and loads."""
    b = GraphBuilder("network", "i8", "i4")
    x = b.input("x", (64, 256))
    up = b.gelu(b.linear(x, b.weight("up", (1024, 256))))
    b.output(b.add(x, b.linear(up, b.weight("down", (256, 1024)))), "y")
    graph = b.graph()
    order: OrderChoice = "reductions_innermost"
    plain = compile(graph, order=order, placed=False)
    rows = []
    for name, changed in (
        ("folding buffers", compile(graph, order=order, folded=True, placed=False)),
        ("narrow vectors", compile(graph, order=order, vectors="narrow", placed=False)),
        ("loads without packing", compile(graph, order=order, packed=False, placed=False)),
    ):
        was, now = plain.plan, changed.plan
        assert was.unbounded is not None
        assert now.unbounded is not None
        folded = sum(edge.folded for edge in now.graph.edges)
        removed = f", {folded} FIFO left out" if folded else ""
        rows.append(
            ("F5", f"a feed-forward network, {name}: cycles",
             f"{was.unbounded:,} to {now.unbounded:,}{removed}",
             "no longer, within 0.5 %" if now.choices["packed"] else "longer",
             "tests/design/test_programs.py")
        )  # fmt: skip
    return rows


def _fusion(count: int = 300) -> list[Row]:
    random = Random(4)
    greedy = merged = valid = 0
    for _ in range(count):
        kernels = random.randint(2, 6)
        edges = [
            FusionEdge(p, c, random.choice((0, 0, 1, 2, 4)) * 512, 1024 * (1 + p % 5), p)
            for c in range(1, kernels)
            if random.random() >= 0.2
            for p in sorted({random.randrange(c) for _ in range(2)})
        ]
        graph = FusionGraph(kernels, tuple(edges))
        budget = random.randint(0, sum(edge.cost for edge in edges) + 1)
        best = best_groups(graph, budget).traffic
        ours, theirs = merged_groups(graph, budget), greedy_groups(graph, budget)
        valid += ours.is_valid(budget) and theirs.is_valid(budget)
        greedy += theirs.traffic() == best
        merged += ours.traffic() == best
    return [("F6", f"of {count} random graphs, least traffic by merging (greedy as printed); all "
             "groups within the budget and without a cycle",
             f"{100 * merged / count:.0f} % ({100 * greedy / count:.0f} %); {valid}",
             f"more than greedy; {count}", "tests/design/passes/test_fusion.py")]  # fmt: skip


def _networks(seed: int, count: int, *, rates: bool) -> Iterator[FifoNetwork]:
    """Random networks of one rate and interval, or with reductions, expansions and paces."""
    random = Random(seed)
    for _ in range(count):
        kernels = random.randint(3, 8)
        steps = [random.choice((4, 8, 16, 32)) if rates else 32 for _ in range(kernels)]
        links = sorted(
            {
                (random.randrange(max(0, consumer - 4), consumer), consumer)
                for consumer in range(1, kernels)
                for _ in range(random.choice((1, 2, 2, 3)))
            }
        )
        fifos = []
        for producer, consumer in links:
            parts = random.choice((1, 1, 2, 4)) if rates else 1
            tokens = min(steps[producer], steps[consumer]) // parts
            fifos.append(
                Fifo(producer, consumer, steps[producer] // tokens, steps[consumer] // tokens)
            )
        yield FifoNetwork(
            tuple(
                SteppingKernel(n, random.randint(1, 4) if rates else 1, random.randint(1, 20))
                for n in steps
            ),
            tuple(fifos),
        )


def _sizing(count: int = 300) -> list[Row]:
    where = "tests/sizing/test_fifo_lp.py"
    ours = paths = 0
    for network in _networks(5, count, rates=False):
        paces = intervals(network, "normal")
        ours += run_network(network, planned_depths(network)).makespan == network.cycles
        delays = [round(n) for n in path_delays(network, lower_bounds(network, paces)).delays]
        run = run_network(network, depths_of_delays(network, delays, paces))
        paths += run.makespan == network.cycles
    deadlocks, own, slots, full, slow = 0, 0, 0, 0, 0
    for network in _networks(6, 500, rates=True):
        own += run_network(network, planned_depths(network, "normal")).deadlock
        found = solved_network(network, planned_depths(network)).depths
        run = run_network(network, found)
        deadlocks += run.deadlock
        slow += run.makespan != network.cycles
        slots, full = slots + int(found.sum()), full + sum(network.tokens)
    return [
        ("F8 b", f"of {count} random networks with one interval, as fast as unbounded FIFOs "
         "(published program over paths)", f"{ours} ({paths})", str(count), where),
        ("F8, F9", "of 500 random networks with rate changes, planned and repaired: deadlocks, "
         "slower than unbounded", f"{deadlocks}, {slow}", "0, 0", where),
        ("F9", "the same with intervals of kernels alone, not repaired: deadlocks",
         str(own), "some: an error of the paper", where),
        ("F8 c", "their slots, of those for all tokens of a run",
         f"{100 * slots / full:.1f} %", "-", where),
    ]  # fmt: skip


def _bypasses() -> list[Row]:
    rows = []
    for row in (4, 16, 64):
        b = GraphBuilder("softmax", "f32", "f32")
        b.output(b.softmax(b.input("x", (32, 16 * row)), 1), "y")
        made = compile(b.graph(), order="reductions_innermost", shrink=False, placed=False)
        prepared, planned = made.prepared[0], made.plan.groups[0]
        stream = made.programs[0].streams["softmax.exp->softmax.div.0"]
        (name,) = (fifo.name for fifo in prepared.wiring.fifos if fifo.stream is stream)
        short, enough = (
            prepared.changed(fifo_depths={name: depth}).run() for depth in (row - 1, row)
        )
        rows.append(
            ("F9", f"compiled softmax of {row} tokens a row, bypass of {row - 1}, of {row}, as "
             "planned", f"{short.status}, {enough.status}, {planned.simulated:,} cycles",
             f"deadlock, ok, {planned.unbounded:,} cycles", "tests/design/search/test_bypasses.py")
        )  # fmt: skip
    return rows


def _unrolling(count: int = 100) -> list[Row]:
    random = Random(7)
    best = 0
    for _ in range(count):
        kernels = [
            Unrollable(random.randint(1, 5000), tuple(1 << k for k in range(random.randint(1, 5))))
            for _ in range(random.randint(1, 5))
        ]
        budget = random.randint(len(kernels), 8 * len(kernels))
        least = min(
            max(k.latency(f) for k, f in zip(kernels, choice, strict=True))
            for choice in product(*(kernel.factors for kernel in kernels))
            if sum(choice) <= budget
        )
        best += heap_skip(kernels, budget).latency == least
    return [("F10", f"of {count} random sets of kernels, heap as fast as the best of all choices",
             str(best), str(count), "tests/design/passes/test_unrolling.py")]  # fmt: skip


def _placement(count: int = 12) -> list[Row]:
    random = Random(8)
    capacity = ({"lut": 100.0}, {"lut": 100.0}, {"lut": 80.0})
    equal = placed = 0
    for _ in range(count):
        tasks = [Task(f"k{i}", {"lut": random.randint(5, 40)}) for i in range(6)]
        streams = [Stream(random.randrange(i), i, random.choice((8, 64))) for i in range(1, 6)]
        values = [
            crossings(streams, dies) + 100 * imbalance(tasks, dies, capacity)
            for dies in product(range(3), repeat=6)
            if all(
                sum(t.resources["lut"] for t, at in zip(tasks, dies, strict=True) if at == die)
                <= capacity[die]["lut"]
                for die in range(3)
            )
        ]
        if values:
            placed += 1
            found = partition(tasks, streams, capacity, imbalance_weight=100).objective
            equal += abs(found - min(values)) < 1e-6
    device = load_machine("u55c").device
    assert device is not None
    kinds = kinds_of(device)
    worst = 1.0
    for _ in range(8):
        buffers = [
            Buffer(f"b{i}", random.choice((8, 64, 512)), int(2 ** random.uniform(4, 14)))
            for i in range(100)
        ]
        worst = max(worst, allocate(buffers, kinds).share / pack(buffers, kinds).share)
    return [
        ("F11", f"of {placed} random partitions of 6 tasks, as good as the best of all", str(equal),
         str(placed), "tests/design/passes/test_partition.py"),
        ("F11", "largest share of memory blocks, of that of the best packing, 8 draws of 100",
         f"{worst:.3f}", "at most 1.05", "tests/design/passes/test_memory_kinds.py"),
    ]  # fmt: skip


def _models() -> list[Row]:
    known = {"gpt2-medium": "12.58", "qwen2.5-0.5b": "14.91", "tinyllama-1.1b": "44.04",
             "gemma-3-1b": "26.84"}  # fmt: skip
    rows = []
    for name in MODELS:
        graph = block(name, "prefill")
        weights = sum(prod(one.shape) for one in graph.with_role("weight") if len(one.shape) == 2)
        rows.append(
            ("F12", f"{name}: weights of the products of a block, millions",
             f"{weights / 1e6:.2f}", known[name],
             "tests/design/operators/test_torch_import.py, "
             "tests/design/operators/test_onnx_import.py")
        )  # fmt: skip
    return rows
