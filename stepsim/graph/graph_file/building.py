"""One operator of a graph file under construction, with the queries of its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import GraphFileError
from stepsim.graph.graph_file.element_types import DTYPES
from stepsim.graph.graph_file.messages import chosen
from stepsim.graph.graph_file.nodes import Node
from stepsim.graph.graph_file.side_arrays import (
    MissingSelectors,
    MissingValues,
    SideArrays,
    as_array,
    flags_of,
    is_spec,
)
from stepsim.graph.handle import Counts
from stepsim.graph.operator import Output, Site
from stepsim.graph.ops.sources import metadata, selector
from stepsim.graph.programs.program import Program
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.stream import Stream
from stepsim.graph.types import DType, IndexSelector, MultiHot, TensorSpec, Tile


class Settings:
    """The user's settings for an entire graph.

    Attributes
    ----------
    arrays, routing : sources of selectors and integers.
    routes_nothing : a routing was given, of which no selectors were made.
    mock_bf16 : whether f32 represents 2 bytes.
    counts : numbers of elements routed by the selectors of one path, by path and width.
    nodes : all operators of the graph.
    """

    def __init__(
        self, arrays: SideArrays, routing: Any, mock_bf16: bool, nodes: Sequence[Node]
    ) -> None:
        self.arrays = arrays
        self.routing = routing
        self.routes_nothing = routing is not None
        self.mock_bf16 = mock_bf16
        self.counts: dict[tuple[str, int], Counts] = {}
        self.nodes = nodes

    def missing(self) -> str:
        """Names of all operators without arrays."""
        sources = [n for n in self.nodes if n.kind in ("SelectGen", "MetadataGen")]
        return ", ".join(
            f"{n.name} ({n.message.npy_path or 'no path'})"
            for n in sources
            if self.arrays.find(n.message.npy_path, n.name, n.id, n.where) is None
        )


class Building:
    """The operator under construction."""

    def __init__(
        self,
        program: Program,
        node: Node,
        settings: Settings,
        width: int | None,
        dims: Sequence[Dim] | None,
    ) -> None:
        self.program = program
        self.node = node
        self.settings = settings
        self.where = node.where
        self.label = node.name or None
        self._width = width
        self._dims = dims

    def fail(self, what: str) -> NoReturn:
        raise GraphFileError(f"{self.where}: {what}")

    def require(self, ok: bool, what: str) -> None:
        if not ok:
            self.fail(what)

    def refuse_set(self, message: Any, name: str) -> None:
        """Refuse a field that no operator of stepsim supports, unless it has its default."""
        value = getattr(message, name, 0)
        self.require(not value, f"{name} is {shown(value)}; no operator of stepsim supports it")

    # types

    def mocked(self, dtype: DType) -> DType:
        """The type, or bf16 in place of f32 if the run mocks bf16."""
        return DType.bf16 if self.settings.mock_bf16 and dtype is DType.f32 else dtype

    def stored_type(self, message: Any, n_byte: int) -> DType:
        """Scalar type of a stored tensor, checked against its bytes."""
        name = chosen(message)
        if name is None:
            usual = {4: DType.f32, 2: DType.bf16}.get(n_byte)
            if usual is None:
                self.fail(f"dtype is not stated, and n_byte is {n_byte}; expected 2 or 4")
            return self.mocked(usual)
        if name not in DTYPES:
            self.fail(f"dtype is {name}; loads read tiles of numbers")
        dtype = self.mocked(DTYPES[name])
        self.check_bytes(dtype, n_byte)
        return dtype

    def check_bytes(self, dtype: DType, n_byte: int) -> None:
        if dtype.bits == n_byte * 8 or (self.settings.mock_bf16 and n_byte == 4):
            return
        hint = "; a run that mocks 2-byte floats is read with mock_bf16=True" if n_byte == 2 else ""
        self.fail(
            f"n_byte is {n_byte}, but elements of {dtype} have {dtype.bits / 8:g} bytes{hint}"
        )

    def check_tile(self, x: Stream, tile: tuple[int, int]) -> None:
        kind = x.type
        fits = isinstance(kind, Tile) and (kind.rows, kind.cols) == (Dim(tile[0]), Dim(tile[1]))
        self.require(fits, f"states tiles of {tile[0]}x{tile[1]}, but the stream is {x!r}")

    def dispatch(self, message: Any) -> int:
        """Requests of a bundle; 0, the default of the format, means one."""
        return message.par_dispatch or 1

    def tensor(self, shape: Sequence[int], dtype: DType, path: str) -> TensorSpec:
        """A stored tensor, with values if given by the user."""
        node, arrays = self.node, self.settings.arrays
        name = path.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".npy") or None
        data = arrays.named(path, node.name, node.id)
        if data is None:
            return TensorSpec(tuple(shape), dtype, name)
        array = np.asarray(data)
        self.require(
            array.shape == tuple(shape),
            f"its array has shape {list(array.shape)}, expected {list(shape)}",
        )
        return TensorSpec(tuple(shape), dtype, name, array)

    # shapes

    def leads(self, dims: int) -> bool:
        """Whether the stream of a source has an outer dim of 1 before the ``dims`` of its data.

        It does, unless the file states a shape without it.
        """
        stated = self.node.shape
        if stated is None or len(stated) == dims + 1:
            return True
        self.require(
            len(stated) == dims,
            f"stream_shape {list(stated)} has {len(stated)} dims, expected {dims} or {dims + 1}",
        )
        return False

    def agree(self, left: Sequence[Dim], right: Sequence[Dim]) -> None:
        """The file implies that two shapes are equal: record it as an assumption if not proved."""
        if len(left) != len(right):
            return
        unknown = [(a, b) for a, b in zip(left, right, strict=True)
                   if a != b and self.program.compare(a, b) is None]  # fmt: skip
        for a, b in unknown:
            self.program.record_assumption(f"{a} == {b} ({self.where})", (a,), (b,))

    def agree_inner(self, xs: Sequence[Stream]) -> None:
        """Require equal inner dims of merged streams, where they are regular."""
        for x in xs[1:]:
            for a, b in zip(xs[0].shape[1:], x.shape[1:], strict=False):
                if not (a.is_ragged or b.is_ragged):
                    self.agree((a,), (b,))

    def agree_counts(self, a: Stream, b: Stream) -> None:
        """Require equal numbers of elements in two streams."""
        left, right = Dim(a.cardinality()), Dim(b.cardinality())
        self.agree((left,), (right,))

    # sources

    def selector(self, path: str, is_multihot: bool, stated: Sequence[int]) -> Stream:
        """The selectors of a SelectGen."""
        node, settings = self.node, self.settings
        found = settings.arrays.find(path, node.name, node.id, self.where)
        if found is None and settings.routing is not None:
            if self._width is None:
                self.fail(
                    "the width of its selectors does not follow from its readers; pass arrays="
                )
            dims = self._fixed_dims(stated)
            settings.routes_nothing = False
            flags = flags_of(settings.routing, self._width, dims, self.where)
            return selector(flags, as_indices=not is_multihot, label=self.label)
        if found is None or is_spec(found):
            return self._missing_selectors(path, is_multihot, stated, found)
        flags = as_array(found, self.where)
        self.require(flags.ndim >= 1, "its array has no dims")
        if flags.ndim == 1 and not stated:
            flags = flags[np.newaxis]  # one selector, which ends a dim as any last one does
        dims = list(flags.shape[:-1])
        if stated and dims != list(stated) and list(flags.shape) != list(stated):
            self.fail(f"its array has shape {list(flags.shape)}, the file states {list(stated)}")
        if self._width is not None and flags.shape[-1] != self._width:
            self.fail(
                f"its array has shape {list(flags.shape)}, expected selectors {self._width} wide"
            )
        if self.leads(len(dims)):
            flags = flags[np.newaxis]
        return selector(flags, as_indices=not is_multihot, label=self.label)

    def _fixed_dims(self, stated: Sequence[int]) -> list[int] | None:
        if self._dims is not None and all(d.is_static for d in self._dims):
            return [int(d) for d in self._dims]
        shape = self._stated_dims(stated)
        return None if shape is None else [int(d) for d in shape]

    def _stated_dims(self, stated: Sequence[int]) -> list[Dim] | None:
        """Dims of the stream as stated in the file."""
        if not stated:
            return None
        dims = [Dim(d) for d in stated]
        return [Dim(1), *dims] if self.leads(len(dims)) else dims

    def _missing_selectors(
        self, path: str, is_multihot: bool, stated: Sequence[int], spec: TensorSpec | None
    ) -> Stream:
        settings = self.settings
        dims = list(self._dims) if self._dims is not None else self._stated_dims(stated)
        width = self._width
        if spec is not None:
            width = spec.shape[-1]
            own = [Dim(d) for d in spec.shape[:-1]]
            if not own and not stated:
                own = [Dim(1)]
            dims = [Dim(1), *own] if self.leads(len(own)) else own
        if dims is None or width is None:
            self.fail(
                "its array is missing, and its shape does not follow from its readers. Put the "
                f"file next to the graph, or pass arrays={{'{self.node.name}': array [..., width] "
                "of 0 and 1}, or st.spec(shape) to measure without running, or routing=indices; on "
                "the command line --arrays or --indices. Operators without arrays: "
                f"{settings.missing()}"
            )
        site = Site("selector", (), self.label)
        kind = MultiHot(width) if is_multihot else IndexSelector(width, width)
        key = (path or self.node.name, width)
        counts = settings.counts.setdefault(
            key, Counts(self.program, "c", f"elements selected by {key[0]}")
        )
        op = MissingSelectors(path=path or "no path", node=self.node.name)
        return site.add(op, [Output(tuple(dims), kind, counts)])[0]

    def metadata(self, path: str, stated: Sequence[int]) -> Stream:
        """The integers of a MetadataGen."""
        node = self.node
        found = self.settings.arrays.find(path, node.name, node.id, self.where)
        if found is None or is_spec(found):
            dims = self._stated_dims(stated if found is None else found.shape)
            if dims is None:
                self.fail(
                    "its array is missing. Put the file next to the graph, or pass arrays="
                    f"{{'{node.name}': array}}, or --arrays on the command line. "
                    f"Operators without arrays: {self.settings.missing()}"
                )
            site = Site("metadata", (), self.label)
            op = MissingValues(path=path or "no path", node=node.name)
            return site.add(op, [Output(tuple(dims), Tile(DType.u64, Dim(1), Dim(1)))])[0]
        values = as_array(found, self.where)
        if stated and list(values.shape) != list(stated):
            self.fail(f"its array has shape {list(values.shape)}, the file states {list(stated)}")
        if self.leads(values.ndim):
            values = values[np.newaxis]
        return metadata(values, label=self.label)
