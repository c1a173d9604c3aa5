"""FIFO depths of a dataflow graph before any run of it, by the linear program over start times.

Kernels, loads and converters become kernels that step (see `stepsim.sizing.rates`), with the rates
measured in isolation. A unit that first takes in a group of tokens and then sends another, that is,
a converter or a reduction around parallel loops, becomes two of them: one whose ``out_period`` is
the group that it takes in, one whose ``in_period`` is the group that it sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, lcm, prod

from stepsim.design.dataflow.graph import DataflowGraph, Dma, Edge, Kernel
from stepsim.design.plan.plan import Measured
from stepsim.itensor import Converter
from stepsim.machine import Machine
from stepsim.sizing import Equalization, Fifo, FifoNetwork, SteppingKernel, planned_depths

MOST_STEPS = 4_000_000
"""Largest number of steps of a network whose cycles are predicted: some ten megabytes of times."""

SHALLOW = 64
"""Tokens in a FIFO behind a load or a converter, which cover the latency of off-chip memory."""


@dataclass(frozen=True)
class FifoPlan:
    """The network of a group, and which of its FIFOs are those of the program.

    Attributes
    ----------
    network : times are in parts of a cycle, ``scale`` of them.
    streams : number of a FIFO of the network by name of a stream of the program.
    vectors : places of the FIFO of the program for a token of the network, by name of the stream.
    loaded : streams of loads with one reader, by the tiles of a burst. Their tokens can wait off
        chip, since nothing else waits for such a load.
    drained : streams out of converters, whose tokens can wait in their buffers unless other readers
        of the converter, or of its producer, wait for them.
    """

    network: FifoNetwork
    streams: Mapping[str, int]
    vectors: Mapping[str, int]
    scale: int
    loaded: Mapping[str, int]
    drained: frozenset[str]

    def depths(self, equalization: Equalization = "effective") -> dict[str, int]:
        """Places of every FIFO of the program that is between kernels, by name of its stream."""
        planned = planned_depths(self.network, equalization)
        return {name: planned[number] * self.vectors[name] for name, number in self.streams.items()}

    def shallow(self, depths: Mapping[str, int]) -> list[dict[str, int]]:
        """Depths of less memory, which may be too small, those of least memory first.

        The linear program starts every load at once and runs converters at their own pace, so that
        a FIFO holds all that arrives before its reader is ready. But a full FIFO makes a load or a
        converter wait, and its tokens stay where they are. The depths of such FIFOs are bounded: of
        loads and converters, by larger and larger bounds for converters, and of loads alone.

        Parameters
        ----------
        depths : those of :meth:`depths`.
        """
        loaded = {name: self.loaded_depth(name) for name in self.loaded}
        tried = [
            {**loaded, **{name: most * self.vectors[name] for name in self.drained}}
            for most in (SHALLOW, 16 * SHALLOW, 256 * SHALLOW)
        ]
        return [
            {name: min(depth, bounds.get(name, depth)) for name, depth in depths.items()}
            for bounds in (*tried, loaded)
        ]

    def loaded_depth(self, name: str) -> int:
        """Places behind a load that cover the latency of off-chip memory."""
        return max(SHALLOW, 2 * self.loaded[name])

    @property
    def cycles(self) -> int | None:
        """Of the network with unbounded FIFOs; None where it has more steps than `MOST_STEPS`."""
        if sum(kernel.steps for kernel in self.network.kernels) > MOST_STEPS:
            return None
        return ceil(self.network.cycles / self.scale)


@dataclass
class _Stage:
    """A stepping kernel under construction; times in cycles."""

    name: str
    pace: float
    """Cycles for a token of the side that it is known for."""
    tokens: int
    first: float
    """Cycles to its first token out."""
    sides: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Link:
    producer: int
    consumer: int
    sent: int
    bits: int


class _Network:
    """Stages and links of one group."""

    def __init__(
        self, graph: DataflowGraph, group: int, known: Mapping[str, Measured], machine: Machine
    ) -> None:
        self.graph, self.known, self.machine = graph, known, machine
        self.stages: list[_Stage] = []
        self.links: list[_Link] = []
        self.streams: dict[str, int] = {}
        self.vectors: dict[str, int] = {}
        self.loaded: dict[str, int] = {}
        self.drained: set[str] = set()
        self._ends: dict[str, int] = {}
        self._converters: dict[object, int] = {}
        kernels = [kernel for kernel in graph.kernels if kernel.group == group]
        fed: dict[str, list[tuple[Edge | Dma, int, int]]] = {one.name: [] for one in kernels}
        for dma in graph.dmas_of(group, "load"):
            end = self._load(dma)
            for name, slot in dma.ports:
                fed[name].append((dma, end, slot))
        inner = graph.edges_in(group)
        for kernel in kernels:
            for edge in inner:
                if edge.consumer == kernel.name:
                    fed[kernel.name].append((edge, self._source(edge), edge.slot))
            begin = self._kernel(kernel)
            for owner, end, slot in fed[kernel.name]:
                tokens = kernel.inputs[slot].itensor
                if isinstance(owner, Dma):
                    stream, vectors = f"{owner.name}->{kernel.name}.{slot}", 1
                    if len(owner.ports) == 1:
                        self.loaded[stream] = owner.burst
                else:
                    stream, vectors = owner.name, owner.vectors
                    if not owner.matched:
                        self.drained.add(stream)
                self._link(stream, end, begin, tokens.tokens, tokens.token_bits, vectors)

    def _stage(self, name: str, tokens: int, pace: float, first: float) -> int:
        self.stages.append(_Stage(name, pace, tokens, first, [tokens]))
        return len(self.stages) - 1

    def _link(
        self, name: str, producer: int, consumer: int, tokens: int, bits: int, vectors: int = 1
    ) -> None:
        for end in (producer, consumer):
            self.stages[end].sides.append(tokens)
        if name:
            self.streams[name], self.vectors[name] = len(self.links), vectors
        self.links.append(_Link(producer, consumer, tokens, bits))

    def _load(self, dma: Dma) -> int:
        """A load asks for the next burst when it has sent the one before."""
        hbm, burst = self.machine.hbm, dma.burst
        moved = dma.walk.bytes_of(burst * dma.walk.token_cells)
        arrives = hbm.latency + hbm.startup + moved / self.machine.peak_bandwidth
        sent = max(burst, moved / self.machine.onchip.bytes_per_cycle) if dma.packed else burst
        end = self._stage(dma.name, dma.walk.tokens, (arrives + sent) / burst, arrives)
        if dma.converter is not None and dma.converter.kind != "fifo":
            end = self._converter(dma.converter, end, "")
        return end

    def _kernel(self, kernel: Kernel) -> int:
        """The stage that takes tokens in; the one that sends them is kept by name."""
        known = self.known[kernel.name]
        together = prod(loop.trip for loop in kernel.kept)
        if together == 1 or not kernel.turns > 1:
            pace = known.interval / kernel.turns or known.first / kernel.turns
            stage = self._stage(kernel.name, kernel.firings, pace, known.first)
            self.stages[stage].sides.append(known.tokens)
            self._ends[kernel.name] = stage
            return stage
        groups = known.tokens // together
        taken = kernel.firings // groups
        begin = self._stage(f"{kernel.name} in", kernel.firings, known.first / taken, known.first)
        end = self._stage(f"{kernel.name} out", known.tokens, known.interval, 1)
        self._link("", begin, end, groups, 1)
        self._ends[kernel.name] = end
        return begin

    def _source(self, edge: Edge) -> int:
        """The stage that feeds an edge: its producer or the converter, which may be shared."""
        end = self._ends[edge.producer]
        if edge.matched:
            return end
        key = edge.buffer
        if key not in self._converters:
            self._converters[key] = self._converter(edge.converter, end, f"{edge.name}/before")
        return self._converters[key]

    def _converter(self, by: Converter, source: int, before: str) -> int:
        sent, taken = by.src.tokens, by.dst.tokens
        fill = self._stage(f"{before} fill", sent, 1, sent / by.reuse)
        self._link(before, source, fill, sent, by.src.token_bits)
        drain = self._stage(f"{before} drain", taken, 1, 1)
        self._link("", fill, drain, by.reuse, 1)
        return drain

    def made(self) -> FifoPlan:
        steps = [lcm(*stage.sides) for stage in self.stages]
        paces = [
            stage.pace * stage.tokens / count
            for stage, count in zip(self.stages, steps, strict=True)
        ]
        scale = max(1, *(ceil(1 / max(pace, 1e-3)) for pace in paces))
        kernels = []
        for stage, count, pace in zip(self.stages, steps, paces, strict=True):
            whole = max(1, round(pace * scale))
            before = (count // min(stage.sides) - 1) * whole
            latency = max(1, round(stage.first * scale) - before)
            kernels.append(SteppingKernel(count, whole, latency, stage.name))
        fifos = tuple(
            Fifo(
                link.producer, link.consumer,
                steps[link.producer] // link.sent, steps[link.consumer] // link.sent, link.bits,
            )
            for link in self.links
        )  # fmt: skip
        network = FifoNetwork(tuple(kernels), fifos, hop=scale)
        return FifoPlan(
            network, self.streams, self.vectors, scale, self.loaded, frozenset(self.drained)
        )


def fifo_plan(
    graph: DataflowGraph, group: int, known: Mapping[str, Measured], machine: Machine
) -> FifoPlan:
    """The network of a group, with what was measured of its kernels."""
    return _Network(graph, group, known, machine).made()


def with_stream_depths(graph: DataflowGraph, streams: Mapping[str, int]) -> DataflowGraph:
    """The graph with depths of the FIFOs between its kernels, by name of their streams."""
    edges = tuple(
        replace(
            edge,
            depth=streams.get(edge.name, edge.depth),
            depth_before=streams.get(f"{edge.name}/before", edge.depth_before),
        )
        for edge in graph.edges
    )
    dmas = tuple(
        replace(
            dma, depth=max(streams[f"{dma.name}->{kernel}.{slot}"] for kernel, slot in dma.ports)
        )
        if dma.ports and all(f"{dma.name}->{k}.{slot}" in streams for k, slot in dma.ports)
        else dma
        for dma in graph.dmas
    )
    return graph.replaced(edges=edges, dmas=dmas)
