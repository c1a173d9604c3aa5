"""QKV generation: the rows of queries, keys and values of one region of a decoder layer.

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
from dataclasses import dataclass

import numpy as np

from stepsim.graph import (
    Stream,
    fn,
    linear_load,
    map as map_stream,
    partition,
    reassemble,
    selector,
    spec,
)
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.models import AttentionShape, LatentHeads

Rows = tuple[Stream, Stream, Stream]
"""Queries, keys and values ``[tasks of the region]``."""


@dataclass(frozen=True)
class Generation:
    """QKV generation of one region.

    Attributes
    ----------
    region : its number.
    requests : rows of hidden states that it multiplies.
    compute_bw : FLOPs per cycle of each matrix product.
    """

    region: int
    requests: int
    types: ElementTypes
    compute_bw: int

    def grouped(self, shape: AttentionShape) -> Rows:
        """Rows of grouped heads: one column tile for a query, key or value of a head."""
        group, d, width = shape.queries_per_kv_head, shape.model_dim, shape.head_dim
        tiles = shape.kv_heads * (group + 2)
        product = self._product(self._hidden(d), "qkv", (d, tiles * width), (d, width), "hidden")
        kinds = np.eye(3, dtype=int)[[0] * group + [1, 2]]
        which = selector(np.tile(kinds, (shape.kv_heads, 1)), label=self._label("is_qkv"))
        columns = product.flatten(0, 1, label=self._label("qkv_columns"))
        query, key, value = partition(columns, which, rank=0, label=self._label("split_qkv"))
        heads = query.reshape(group, label=self._label("query_heads"))
        return self._rows(self._pack(heads, "query"), group, width, key, value)

    def latent(self, shape: AttentionShape, heads: LatentHeads) -> Rows:
        """Rows of latent attention.

        A column tile is as wide as the greatest common divisor of the parts of a key and a query,
        so splitting and joining between the matrices happens at tile boundaries, and no weights are
        read that the model does not have.
        """
        d, nope, rope = shape.model_dim, heads.qk_nope_head_dim, heads.qk_rope_head_dim
        width = math.gcd(heads.kv_lora_rank, nope, rope)
        hidden = self._hidden(d)
        both = self._product(hidden, "kv_down", (d, shape.head_dim), (d, width), "hidden_kv")
        parts = both.flatten(0, 1, label=self._label("key_parts"))
        latent, rotary = self._split(parts, "value", 1, heads.kv_lora_rank // width, rope // width)
        rotary.consume(label=self._label("key_rotary"))
        value = latent.reshape(heads.kv_lora_rank // width, label=self._label("value_parts"))
        return self._rows(
            self._queries(hidden, d, heads, width), heads.heads, shape.head_dim,
            self._pack(both, "key"), self._pack(value, "value"),
        )  # fmt: skip

    def _queries(self, hidden: Stream, d: int, heads: LatentHeads, width: int) -> Stream:
        """Queries of all heads next to each other, ``[1]``."""
        count, nope, rope = heads.heads, heads.qk_nope_head_dim, heads.qk_rope_head_dim
        source, depth, named, rank = hidden, d, "hidden_query", heads.q_lora_rank
        if rank is not None:
            step = math.gcd(rank, heads.kv_lora_rank)
            down = self._product(hidden, "query_down", (d, rank), (d, step), named)
            source, depth, named = self._pack(down, "query_latent"), rank, "query_latent"
        size = (depth, count * (nope + rope))
        up = self._product(source, "query_up", size, (depth, width), named)
        columns = up.flatten(0, 1, label=self._label("query_parts"))
        plain, rotary = self._split(columns, "query", count, nope // width, rope // width)
        plain = plain.reshape(nope // width, label=self._label("query_heads"))
        absorbed = self._product(
            self._pack(plain, "plain_query"), "key_up", (count * nope, heads.kv_lora_rank),
            (nope, width), "query",
        ).flatten(0, 1, label=self._label("absorbed_query"))  # fmt: skip
        turns = _turns(count, heads.kv_lora_rank // width, rope // width)[np.newaxis]
        order = selector(turns, label=self._label("is_rotary_key"))
        joined = reassemble([absorbed, rotary], order, rank=0, label=self._label("join_query"))
        return self._pack(joined.flatten(0, 1, label=self._label("joined_query")), "query")

    def _hidden(self, d: int) -> Stream:
        """The hidden rows as one tile, ``[1]``; those of a region are contiguous."""
        label, rows = self._label("hidden"), self.requests
        tensor = spec(rows, d, dtype=self.types.activations, name=label)
        loaded = linear_load(tensor, (rows, d), label=label)
        return loaded.flatten(0, 1, label=self._label("hidden_block"))

    def _product(
        self, x: Stream, what: str, size: tuple[int, int], tile: tuple[int, int], named: str
    ) -> Stream:
        """Each tile of ``x``, which is ``named``, times a row of tiles of a matrix of ``size``."""
        label = self._label(f"{what}_weights")
        weights = linear_load(spec(*size, dtype=self.types.weights, name=label), tile, label=label)
        wide = x.repeat(size[1] // tile[1], label=self._label(f"repeat_{named}"))
        return map_stream(
            fn.matmul,
            wide,
            weights,
            compute_bw=self.compute_bw,
            label=self._label(f"matmul_{what}"),
        )

    def _split(self, x: Stream, what: str, times: int, first: int, second: int) -> list[Stream]:
        """Alternately ``first`` tiles to one stream and ``second`` to another."""
        which = selector(_turns(times, first, second), label=self._label(f"is_rotary_{what}"))
        return partition(x, which, rank=0, label=self._label(f"split_{what}"))

    def _pack(self, x: Stream, what: str) -> Stream:
        """The tiles of the innermost dim packed into one tile."""
        return x.accum(fn.pack_cols, 1, label=self._label(f"pack_{what}"))

    def _rows(self, query: Stream, group: int, width: int, key: Stream, value: Stream) -> Rows:
        unpack = fn.unpack_rows()
        side_by_side = query.flat_map(unpack, label=self._label("query_rows"))
        heads = side_by_side.flat_map(fn.unpack_cols(chunk=width), label=self._label("heads"))
        each = heads.reshape(group, label=self._label("head_rows"))
        return (
            each.accum(fn.pack_rows, 1, label=self._label("queries")),
            key.flat_map(unpack, label=self._label("keys")),
            value.flat_map(unpack, label=self._label("values")),
        )

    def _label(self, what: str) -> str:
        return f"{what}.{self.region}"


def _turns(times: int, first: int, second: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """One-hot selectors: ``first`` of output 0, then ``second`` of output 1, ``times`` times."""
    return np.tile(np.eye(2, dtype=np.int64)[[0] * first + [1] * second], (times, 1))
