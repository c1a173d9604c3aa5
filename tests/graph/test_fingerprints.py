"""The hash of a program is that of a text; here it is written the plain way."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.graph.functions.function import Function
from stepsim.graph.types import TensorSpec
from stepsim.workloads import Attention, Data, Decoder, Moe

_LENGTHS = np.array([5, 40, 70, 33])


def _plain(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(value.tolist())
    if isinstance(value, Function):
        return value.identity()
    if isinstance(value, TensorSpec):
        return f"{list(value.shape)}{value.dtype}"
    return str(value)


def _expected(program: st.Program) -> str:
    lines = [f"{program.compute_bw} {program.par_dispatch} {program.fifo_depth}"]
    if program.flop_weights:
        lines.append(f"flops {sorted(program.flop_weights.items())}")
    for op in program.operators:
        inputs = " ".join(f"{i}.{p}" for i, p in (s.key for s in op.inputs))
        attributes = " ".join(f"{k}={_plain(v)}" for k, v in sorted(op.attributes().items()))
        lines.append(f"{op.id} {op.name} {op.unit_kind} <- {inputs} | {attributes}")
        lines += [f"  {out.describe()} depth={out.depth}" for out in op.outputs]
    if program.order is not None:
        lines.append(f"order {list(program.order)}")
    lines += [f"assume {a.left} == {a.right}" for a in program.assumptions]
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def _own() -> st.Program:
    leaky = st.function("leaky", "m n -> m n", flops=lambda m, n: 3 * m * n)
    with st.Program("own", compute_bw=8, flop_weights={"silu": 2}) as program:
        table = st.routing(st.spec(6, 1), experts=2)
        x = st.linear_load(st.spec(6, 8), tile=(1, 8)).flatten(0, 1).with_depth(5)
        first, second = st.partition(x, table.multihot())
        same = st.map(leaky, first.assume_shape(3))
        st.zip(same, same).consume()
        second.promote().accum(st.fn.pack_rows, 1).consume()
    program.place([op.id for op in program.operators])
    return program


@pytest.mark.parametrize(
    "program",
    [
        Moe(model="mixtral-8x7b", tile=16).build(Data(rows=64)).program,
        Moe(model="mixtral-8x7b", tile="dynamic").build(Data(rows=64)).program,
        Attention(model="mixtral-8x7b", strategy="dynamic")
        .build(Data.of(kv_lengths=_LENGTHS))
        .program,
        Decoder(model="mixtral-8x7b", tile=16, strategy="interleaved")
        .build(Data.of(kv_lengths=_LENGTHS))
        .program,
        _own(),
    ],
    ids=["static", "dynamic", "attention", "decoder", "own"],
)
def test_the_hash_is_of_the_whole_text(program: st.Program) -> None:
    assert program.fingerprint() == _expected(program)
