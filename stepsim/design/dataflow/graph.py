"""The dataflow graph: kernels that pass typed streams to each other, and their connections.

A kernel is an operator as a loop nest over tiles; every operand is a port with an itensor, inferred
from the loops. An edge connects the port of a producer to one of a consumer: on chip by a FIFO or a
converter if both are in one group, else through off-chip memory, by a store and a load (DMAs).
Groups run one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from stepsim.arguments import counted
from stepsim.design.dataflow.buffer_walks import planned
from stepsim.design.operators.graph import Op, OperatorGraph
from stepsim.errors import CompileError, did_you_mean
from stepsim.itensor import Converter, ITensor
from stepsim.shown import shown
from stepsim.typed import typed

if TYPE_CHECKING:
    from typing import Self

Window = tuple[tuple[int, int], ...]
"""First position and extent along every axis: the part of a tensor that a port reads."""


@dataclass(frozen=True, slots=True)
class KernelLoop:
    """A loop over tiles: its dim, trip count and step, and whether it is a reduction."""

    dim: str
    trip: int
    step: int
    kind: Literal["parallel", "reduction"]

    def __str__(self) -> str:
        return f"{self.dim} {self.trip}x{self.step}{'+' * (self.kind == 'reduction')}"


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a kernel, which reads or writes a tensor.

    Attributes
    ----------
    window : the part of the tensor that it reads; the itensor is over this part.
    itensor : the tokens in order, including repeated reads.
    """

    tensor: str
    window: Window
    itensor: ITensor

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a token: its last two extents, those before are 1."""
        element = (1, 1, *self.itensor.element)
        return element[-2], element[-1]


@dataclass(frozen=True)
class Kernel:
    """An operator as a loop nest over tiles.

    Attributes
    ----------
    loops : outermost first; dims of one tile have none.
    unroll : iterations that run at once.
    points : iterations of one tile.
    group : number of the fused group; kernels of a group are on the chip together.
    die : number of the die; None before partitioning.
    """

    op: Op
    loops: tuple[KernelLoop, ...]
    inputs: tuple[Port, ...]
    output: Port
    unroll: int
    points: int
    group: int
    die: int | None = None

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def trips(self) -> tuple[int, ...]:
        return tuple(loop.trip for loop in self.loops)

    @property
    def firings(self) -> int:
        """Number of firings: tiles of iterations."""
        return prod(self.trips)

    @property
    def flops_per_firing(self) -> int:
        return self.op.flops // self.firings

    @property
    def interval(self) -> int:
        """Cycles of one firing: its iterations divided by the lanes."""
        if self.op.kind == "opaque":
            return -(-self.flops_per_firing // self.unroll)
        return -(-self.points // self.unroll)

    @property
    def compute_bw(self) -> int:
        """FLOPs per cycle that give this interval: 2 for each lane of a multiply-accumulate."""
        per_lane = 1 if self.op.kind == "opaque" else self.op.flops // self.op.iterations
        return max(1, self.unroll * per_lane)

    @property
    def turns(self) -> int:
        """Firings for each output tile: the iterations of the reduction loops."""
        return prod(loop.trip for loop in self.loops if loop.kind == "reduction")

    @property
    def ii(self) -> int:
        """Average cycles between output tiles."""
        return self.turns * self.interval

    @property
    def d(self) -> int:
        """Cycles from the first input tiles to the first output tile, after all reductions."""
        return self.interval * prod(self.trips[self._outermost_sum :])

    @property
    def gathered(self) -> int:
        """Bytes of the rows that it reads by address: of a gather a part of one row each firing."""
        if self.op.kind != "gather":
            return 0
        sent = self.output.itensor
        return sent.bytes_of(sent.tokens * sent.token_cells)

    @property
    def kept(self) -> tuple[KernelLoop, ...]:
        """Parallel loops inside a reduction loop, whose results the kernel keeps meanwhile."""
        return tuple(loop for loop in self.loops[self._outermost_sum :] if loop.kind == "parallel")

    @property
    def _outermost_sum(self) -> int:
        """Index of the first reduction loop, or the number of loops if there is none."""
        adds = [i for i, loop in enumerate(self.loops) if loop.kind == "reduction"]
        return adds[0] if adds else len(self.loops)


@dataclass(frozen=True)
class Edge:
    """A tensor from the kernel that makes it to an operand of another.

    Attributes
    ----------
    slot : number of the operand.
    source : the producer's stream, limited to the part that the consumer reads.
    converter : the converter between the two; its ``kind`` is ``"fifo"`` if their tokens are the
        same.
    shared : number of the edges of this producer that have the same converter: one is built, and
        its stream forked.
    depth : tokens of the FIFO to the consumer; None until sized, when it holds them all.
    depth_before : tokens of the FIFO from the producer to the converter, likewise; without a
        converter there is none.
    vector : rows and columns of the vectors that a tile is cut into; None for whole tiles.
    folded : both kernels work on one buffer of a tile, and there is no FIFO.
    memory : kind of memory of the converter's buffer, or of the FIFO without one; None until it is
        placed.
    """

    tensor: str
    producer: str
    consumer: str
    slot: int
    source: ITensor
    converter: Converter
    shared: int | None = None
    depth: int | None = None
    depth_before: int | None = None
    vector: tuple[int, int] | None = None
    folded: bool = False
    memory: str | None = None

    @property
    def name(self) -> str:
        return f"{self.producer}->{self.consumer}.{self.slot}"

    @property
    def buffer(self) -> object:
        """What identifies its converter: the same for edges that share one."""
        return self.name if self.shared is None else (self.producer, self.shared)

    @property
    def target(self) -> ITensor:
        return self.converter.dst

    @property
    def matched(self) -> bool:
        """Whether a FIFO connects the two."""
        return self.converter.kind == "fifo"

    @property
    def bytes(self) -> int:
        """Bytes of the converter, both halves of each of its buffers."""
        return _bytes_of(self.converter)

    @property
    def vectors(self) -> int:
        """Vectors per tile in the FIFO."""
        if self.vector is None:
            return 1
        return self.target.token_cells // (self.vector[0] * self.vector[1])

    @property
    def fifo_bits(self) -> int:
        """Bits of a slot of the FIFO to the consumer."""
        return self.target.token_bits // self.vectors

    @property
    def fifo_depth(self) -> int:
        """Slots of the FIFO to the consumer; if unsized, enough for all tokens."""
        return self.target.tokens * self.vectors if self.depth is None else self.depth


@dataclass(frozen=True)
class Dma:
    """A load or a store of a tensor at the border of a group.

    Attributes
    ----------
    window : the part of the tensor that is moved.
    walk : its tiles in the order in which they are moved.
    converter : of a load, from there to the ports; ``kind`` ``"fifo"`` without reuse on chip.
    ports : kernels and numbers of the operands that a load feeds; empty for a store.
    packed : the tensor lies tile after tile in the order of the walk.
    burst : tiles that a load of a packed tensor requests at a time.
    word_bits : of a packed tile's words; 0: a tile is one row.
    depth : tokens of the FIFO to each port; None until sized, when it holds them all.
    memory : where the buffer of the converter lies; None until it is placed.
    """

    direction: Literal["load", "store"]
    tensor: str
    group: int
    window: Window
    walk: ITensor
    converter: Converter | None = None
    ports: tuple[tuple[str, int], ...] = ()
    packed: bool = False
    burst: int = 1
    word_bits: int = 0
    depth: int | None = None
    memory: str | None = None

    @property
    def name(self) -> str:
        if not self.ports:
            return f"{self.direction} {self.tensor}"
        return f"{self.direction} {self.tensor}->{self.ports[0][0]}.{self.ports[0][1]}"

    @property
    def traffic(self) -> int:
        """Bytes through off-chip memory."""
        return self.walk.bytes_of(self.walk.tokens * self.walk.token_cells)

    @property
    def rounds(self) -> int:
        """Repetitions of the walk: iterations of the outer revisit loops."""
        loops = self.walk.normal_form().loops
        return prod(loop.trip for loop in takewhile(lambda loop: loop.is_revisit, loops))

    @property
    def tiles(self) -> int:
        """Tiles of a round."""
        return self.walk.tokens // self.rounds

    @property
    def bytes(self) -> int:
        """Bytes of tile buffer (two bursts of tiles) and converter."""
        return self.walk.bytes_of(2 * self.burst * self.walk.token_cells) + self.converter_bytes

    @property
    def token_bits(self) -> int:
        """Bits of a token in the FIFOs to its ports."""
        return self.converter.dst.token_bits if self.converter else self.walk.token_bits

    @property
    def converter_bytes(self) -> int:
        """Bytes of the converter that keeps data that is read again; 0 without a converter."""
        return _bytes_of(self.converter) if self.converter is not None else 0


@dataclass(frozen=True)
class DataflowGraph:
    """Kernels in topological order and the streams between them.

    Attributes
    ----------
    operators : the operator graph that it was made from, with tiles.
    dmas : loads and stores at the borders of the groups.
    notes : decisions of the passes, in words, in order.
    """

    operators: OperatorGraph
    kernels: tuple[Kernel, ...]
    edges: tuple[Edge, ...]
    dmas: tuple[Dma, ...] = ()
    notes: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)

    if not TYPE_CHECKING:  # Type checkers know which attributes there are.

        def __getattr__(self, name: str) -> Any:
            """Report to passes over operators that these are already kernels."""
            if name in ("ops", "tensors", "with_role"):
                raise CompileError(
                    f"graph '{self.name}': expected a graph of operators, found one of kernels; "
                    "run this pass before kernels_of(graph)"
                )
            raise AttributeError(f"a DataflowGraph has no attribute '{name}'")

    @property
    def name(self) -> str:
        return self.operators.name

    @cached_property
    def _by_name(self) -> dict[str, Kernel]:
        return {kernel.name: kernel for kernel in self.kernels}

    @typed
    def kernel(self, name: str) -> Kernel:
        """The kernel of a name; CompileError if no kernel has it."""
        found = self._by_name.get(name)
        if found is None:
            near = did_you_mean(name, self._by_name)
            raise CompileError(f"{self.name} has no kernel {shown(name)}{near}")
        return found

    @typed
    def maker(self, tensor: str) -> Kernel:
        """The kernel that makes a tensor; CompileError when none does."""
        producers = self.operators.producers
        if tensor not in producers:
            near = did_you_mean(tensor, producers)
            raise CompileError(f"{self.name}: no kernel makes a tensor {shown(tensor)}{near}")
        return self._by_name[producers[tensor].name]

    @property
    def groups(self) -> tuple[tuple[Kernel, ...], ...]:
        """Kernels of every group, in the order in which groups run."""
        found: dict[int, list[Kernel]] = {}
        for kernel in self.kernels:
            found.setdefault(kernel.group, []).append(kernel)
        return tuple(tuple(found[group]) for group in sorted(found))

    @typed
    def on_chip(self, edge: Edge) -> bool:
        """Whether both ends are in one group."""
        return self.kernel(edge.producer).group == self.kernel(edge.consumer).group

    @property
    def inner_edges(self) -> tuple[Edge, ...]:
        """Edges within a group."""
        return tuple(edge for edge in self.edges if self.on_chip(edge))

    def edges_in(self, group: int) -> list[Edge]:
        """Edges within one group."""
        return [edge for edge in self.inner_edges if self.kernel(edge.producer).group == group]

    def dmas_of(self, group: int, direction: Literal["load", "store"]) -> list[Dma]:
        """Loads or stores of one group."""
        return [one for one in self.dmas if (one.group, one.direction) == (group, direction)]

    @property
    def converter_bytes(self) -> int:
        """Bytes of all converters between kernels; edges that share one count once."""
        return _once(self.inner_edges)

    def converter_bytes_of(self, group: int) -> int:
        """Bytes of the converters of one group."""
        return _once(self.edges_in(group))

    @property
    def traffic(self) -> int:
        """Bytes through off-chip memory: loads, stores, and the rows that gathers read."""
        return sum(dma.traffic for dma in self.dmas) + sum(
            kernel.gathered for kernel in self.kernels
        )

    @property
    def flops(self) -> int:
        return self.operators.flops

    def replaced(self, **changes: Any) -> Self:
        return replace(self, **changes)

    def text(self) -> str:
        """Kernels, edges and DMAs, group by group, to read."""
        return _text(self)

    def __str__(self) -> str:
        return f"<dataflow graph {self.name}: {len(self.kernels)} kernels>"


def _bytes_of(converter: Converter) -> int:
    return 0 if converter.kind == "fifo" else len(planned(converter).stages) * converter.bytes


def _once(edges: Iterable[Edge]) -> int:
    return sum({edge.buffer: edge.bytes for edge in edges}.values())


def _text(graph: DataflowGraph) -> str:
    """Head, then for each group its loads, kernels with the edges that feed them, and stores."""
    groups = graph.groups
    lines = [
        f"{graph.name}: {counted(len(graph.kernels), 'kernel')} in "
        f"{counted(len(groups), 'group')}, "
        f"{graph.converter_bytes:,} bytes of converters, {graph.traffic:,} bytes off chip"
    ]
    feeding: dict[tuple[str, int], Edge] = {(e.consumer, e.slot): e for e in graph.inner_edges}
    for kernels in groups:
        number = kernels[0].group
        lines.append(f"group {number}:")
        lines += map(_dma, graph.dmas_of(number, "load"))
        for kernel in kernels:
            lines.append(_kernel(kernel))
            for slot, port in enumerate(kernel.inputs):
                edge = feeding.get((kernel.name, slot))
                by = "off chip" if edge is None else _edge(edge)
                lines.append(f"    in {slot} {port.tensor}: {port.itensor}, {by}")
            lines.append(f"    out  {kernel.output.tensor}: {kernel.output.itensor}")
        lines += map(_dma, graph.dmas_of(number, "store"))
    return "\n".join(lines) + "\n"


def _kernel(kernel: Kernel) -> str:
    loops = ", ".join(map(str, kernel.loops)) or "one tile"
    die = "" if kernel.die is None else f", die {kernel.die}"
    return (
        f"  kernel {kernel.name}: loops {loops}; unroll {kernel.unroll}, II {kernel.ii}, "
        f"D {kernel.d}{die}"
    )


def _edge(edge: Edge) -> str:
    text = f"from {edge.producer} by {edge.converter}"
    if edge.shared is not None:
        text += f" (shared, {edge.shared})"
    if edge.depth is not None:
        text += f", depth {edge.depth}"
    if edge.vector is not None:
        text += f", vector {edge.vector[0]}x{edge.vector[1]}"
    if edge.folded:
        text += ", folded"
    return text + (f", in {edge.memory}" if edge.memory else "")


def _dma(dma: Dma) -> str:
    text = f"  {dma.direction} {dma.tensor}: {dma.walk}, {dma.traffic:,} bytes"
    if dma.converter is not None and dma.converter.kind != "fifo":
        text += f", kept on chip: {dma.converter}"
    if dma.packed:
        text += f", packed in bursts of {dma.burst}" * (dma.burst > 1) or ", packed"
        text += f" in words of {dma.word_bits} bits" if dma.word_bits else ""
    return text
