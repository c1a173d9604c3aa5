"""QKV generation: the rows of queries, keys and values of all regions of a decoder layer.

The weights are read once, and every region multiplies its own rows of hidden states by them.

Grouped heads have one matrix, whose columns are, for each KV head, its queries, its key and its
value.

Latent attention has one KV head in decoding, which all query heads share. A hidden row times
``kv_down`` [D x (kv_lora_rank + rope)] is the key: the latent vector and the rotary part. The value
is the latent vector, the first columns of the same product. A hidden row times ``query_down``
[D x q_lora_rank], which some models omit, and ``query_up`` [q_lora_rank x (nope + rope)] of
each head is a query. It absorbs the up-projection of the keys: its first part is multiplied by
``key_up`` [nope x kv_lora_rank] of the head, its rotary part stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepsim.graph import Stream, fn, linear_load, map as map_stream, nn, partition, selector
from stepsim.workloads.decoder.weights import TILE_SIDE, Weights
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.models import AttentionShape, LatentHeads
from stepsim.workloads.tensors import tensor_of

Rows = tuple[Stream, Stream, Stream]
"""Queries, keys and values ``[tasks of the region]``."""


@dataclass(frozen=True)
class Generation:
    """QKV generation.

    Attributes
    ----------
    heads : dimensions of latent attention; None for grouped heads.
    weights : the loads of its matrices.
    compute_bw : FLOPs per cycle of each matrix product.
    rotary : queries and keys are rotated by the positions of the new tokens.
    """

    shape: AttentionShape
    heads: LatentHeads | None
    weights: Weights
    types: ElementTypes
    compute_bw: int
    rotary: bool

    def rows(self, hidden: Sequence[Stream], requests: Sequence[int]) -> list[Rows]:
        """Rows of every region from its hidden states, a tile ``[1]`` each.

        They wait in FIFOs as deep as there are tasks: attention in one region must not hold up the
        weights, which all regions share.
        """
        found = []
        for region, x in self._regions(hidden, requests):
            rows = region.rows(*region.blocks(x), self.shape.queries_per_kv_head)
            tasks = region.requests * self.shape.kv_heads
            query, key, value = (one.with_depth(max(tasks, 2)) for one in rows)
            found.append((query, key, value))
        return found

    def blocks(self, hidden: Sequence[Stream], rows: Sequence[int]) -> list[Rows]:
        """All rows of every region at once, ``[KV heads]`` tiles of queries, keys and values.

        A row of queries has those of the group of its KV head side by side.
        """
        return [region.blocks(x) for region, x in self._regions(hidden, rows)]

    def _regions(
        self, hidden: Sequence[Stream], rows: Sequence[int]
    ) -> Iterator[tuple[_Region, Stream]]:
        """Regions and their hidden states; each is built before the next is asked for."""
        matrices = self._grouped() if self.heads is None else self._latent(self.heads)
        for r, (x, count) in enumerate(zip(hidden, rows, strict=True)):
            yield _Region(self, matrices, r, count), x

    def _grouped(self) -> dict[str, Stream]:
        """A tile has columns of one head."""
        shape = self.shape
        width = math.gcd(shape.head_dim, TILE_SIDE)
        columns = shape.kv_heads * (shape.queries_per_kv_head + 2) * shape.head_dim
        return {"qkv": self._matrix("qkv", columns // width, (shape.model_dim, width))}

    def _latent(self, heads: LatentHeads) -> dict[str, Stream]:
        """A tile has columns of one part of a key or a query.

        So splitting and joining between the matrices happens at tile boundaries, and no weights are
        read that the model does not have.
        """
        nope, rope, d = heads.qk_nope_head_dim, heads.qk_rope_head_dim, self.shape.model_dim
        width, rank = math.gcd(heads.kv_lora_rank, nope, rope, TILE_SIDE), heads.q_lora_rank
        found = {"kv_down": self._matrix("kv_down", self.shape.head_dim // width, (d, width))}
        if rank is not None:
            step = math.gcd(rank, TILE_SIDE)
            found["query_down"] = self._matrix("query_down", rank // step, (d, step))
        columns = heads.heads * (nope + rope)
        found["query_up"] = self._matrix("query_up", columns // width, (rank or d, width))
        tiles = heads.heads * heads.kv_lora_rank // width
        return found | {"key_up": self._matrix("key_up", tiles, (nope, width))}

    def _matrix(self, what: str, count: int, tile: tuple[int, int]) -> Stream:
        return self.weights.tiles(f"{what}_weights", count, tile)


@dataclass(frozen=True)
class _Region:
    """QKV generation of one region.

    Attributes
    ----------
    matrices : tiles of the matrices by name.
    number : of the region.
    requests : rows of hidden states that it multiplies, one of each request of a decode step.
    """

    whole: Generation
    matrices: Mapping[str, Stream]
    number: int
    requests: int

    def blocks(self, hidden: Stream) -> Rows:
        """All rows at once, a tile of queries, keys and values for each KV head."""
        latent = self.whole.heads
        return self._grouped(hidden) if latent is None else self._latent(hidden, latent)

    def _grouped(self, hidden: Stream) -> Rows:
        """Of grouped heads: one column tile for a query, key or value of a head."""
        shape = self.whole.shape
        group, width = shape.queries_per_kv_head, shape.head_dim
        columns = self._packed(self._product(hidden, "qkv", "hidden"), width, "head")
        kinds = np.eye(3, dtype=int)[[0] * group + [1, 2]]
        which = selector(np.tile(kinds, (shape.kv_heads, 1)), label=self._label("is_qkv"))
        query, key, value = partition(columns, which, rank=0, label=self._label("split_qkv"))
        if self.whole.rotary:
            turns = self._turns(width)
            query = self._rotated(query, turns, "query")
            key = self._rotated(key, turns, "key")
        heads = query.reshape(group, label=self._label("query_heads"))
        return self._pack(heads, "query"), key, value

    def _latent(self, hidden: Stream, heads: LatentHeads) -> Rows:
        """Of latent attention."""
        rank, rope = heads.kv_lora_rank, heads.qk_rope_head_dim
        parts = self._product(hidden, "kv_down", "hidden_kv")
        latent, rotary = self._split(parts, "key", 1, rank, rope)
        turns = self._turns(rope) if self.whole.rotary else None
        value = self._packed(latent, rank, "latent")
        key = self._joined(value, self._packed(rotary, rope, "rotary_key"), turns, "key")
        return self._queries(hidden, heads, turns), key, value

    def _queries(
        self, hidden: Stream, heads: LatentHeads, turns: tuple[Stream, Stream] | None
    ) -> Stream:
        """Queries of all heads next to each other, ``[1]``."""
        count, nope, rope = heads.heads, heads.qk_nope_head_dim, heads.qk_rope_head_dim
        source, named, rank = hidden, "hidden_query", heads.kv_lora_rank
        if heads.q_lora_rank is not None:
            down = self._product(hidden, "query_down", named)
            source, named = self._packed(down, heads.q_lora_rank, "query_latent"), "query_latent"
        columns = self._product(source, "query_up", named)
        plain, rotary = self._split(columns, "query", count, nope, rope)
        absorbed = self._product(self._packed(plain, nope, "plain_query"), "key_up", "query")
        joined = self._joined(
            self._packed(absorbed, rank, "absorbed_query"),
            self._packed(rotary, rope, "rotary_query"), turns, "query",
        )  # fmt: skip
        return self._pack(joined.reshape(count, label=self._label("query_heads")), "query")

    def _product(self, x: Stream, what: str, named: str) -> Stream:
        """Each tile of ``x``, which is ``named``, times its share of the tiles of a matrix."""
        weights = self.matrices[what]
        times = int(weights.dim(0)) // int(x.dim(0))
        wide = x.repeat(times, label=self._label(f"repeat_{named}"))
        return map_stream(
            fn.matmul, wide.flatten(0, 1, label=self._label(f"wide_{named}")), weights,
            compute_bw=self.whole.compute_bw, label=self._label(f"matmul_{what}"),
        )  # fmt: skip

    def _split(self, x: Stream, what: str, times: int, first: int, second: int) -> list[Stream]:
        """Alternately ``first`` columns to one stream and ``second`` to another."""
        width = math.gcd(first, second, int(x.type.cols))  # type: ignore[union-attr]
        turns = np.eye(2, dtype=int)[[0] * (first // width) + [1] * (second // width)]
        which = selector(np.tile(turns, (times, 1)), label=self._label(f"is_rotary_{what}"))
        return partition(x, which, rank=0, label=self._label(f"split_{what}"))

    def _joined(
        self, plain: Stream, rotary: Stream, turns: tuple[Stream, Stream] | None, what: str
    ) -> Stream:
        """The two parts of a key or a query side by side, the second one rotated."""
        if turns is not None:
            rotary = self._rotated(rotary, turns, what)
        return map_stream(fn.concat_cols(2), plain, rotary, label=self._label(f"join_{what}"))

    def _turns(self, width: int) -> tuple[Stream, Stream]:
        """Cosines and sines of the positions of the new tokens, a tile ``[1]`` each."""
        size = (self.requests, width // 2)
        found = []
        for what in ("cos", "sin"):
            label = self._label(what)
            tensor = tensor_of(*size, dtype=self.whole.types.activations, name=label)
            found.append(linear_load(tensor, size, shape=(1,), stride=(1,), label=label))
        return found[0], found[1]

    def _rotated(self, x: Stream, turns: tuple[Stream, Stream], what: str) -> Stream:
        count = int(x.dim(0))
        cos, sin = (
            one.repeat(count, label=self._label(f"repeat_{name}_{what}")).flatten(
                0, 1, label=self._label(f"{name}_{what}")
            )
            for name, one in zip(("cos", "sin"), turns, strict=True)
        )
        return nn.rope(x, cos, sin, label=self._label(f"rope_{what}"))

    def _packed(self, x: Stream, width: int, what: str) -> Stream:
        """Tiles of ``width`` columns from narrower ones that are next to each other."""
        parts = width // int(x.type.cols)  # type: ignore[union-attr]
        if parts == 1:
            return x
        return self._pack(x.reshape(parts, label=self._label(f"{what}_parts")), what)

    def _pack(self, x: Stream, what: str) -> Stream:
        """The tiles of the innermost dim packed into one tile."""
        return x.accum(fn.pack_cols, 1, label=self._label(f"pack_{what}"))

    def rows(self, query: Stream, key: Stream, value: Stream, group: int) -> Rows:
        """Single rows ``[tasks]`` of blocks; those of a group of queries are one tile."""
        unpack, width = fn.unpack_rows(), self.whole.shape.head_dim
        side_by_side = query.flat_map(unpack, label=self._label("query_rows"))
        heads = side_by_side.flat_map(fn.unpack_cols(chunk=width), label=self._label("heads"))
        each = heads.reshape(group, label=self._label("head_rows"))
        return (
            each.accum(fn.pack_rows, 1, label=self._label("queries")),
            key.flat_map(unpack, label=self._label("keys")),
            value.flat_map(unpack, label=self._label("values")),
        )

    def _label(self, what: str) -> str:
        return f"{what}.{self.number}"
