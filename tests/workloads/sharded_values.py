"""The tensors of a step on several chips: the parts that each chip has of those of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.graph import Program
from stepsim.workloads.parallel.split import Split
from stepsim.workloads.step.layer import blocks_of
from tests.workloads.step_values import Numbers

Array = np.ndarray[Any, Any]


def tensors_of_chips(
    program: Program, *stages: Numbers, also: tuple[str, ...] = ()
) -> dict[str, Array]:
    """All tensors of a program with one load for each matrix, by name; of every stage its own.

    Those that begin with words of ``also`` are left out.
    """
    found: dict[str, Array] = {}
    split = stages[0].workload.split
    for stage, numbers in enumerate(stages):
        for d in range(split.dp):
            for t in range(split.tp):
                number = split.chip(stage, d, t)
                own = _of_chip(numbers, split, d, t)
                found |= {f"{name}@{number}" if number else name: x for name, x in own.items()}
    names = {op.tensor.name for op in program.operators if hasattr(op, "tensor")}
    missing = names - found.keys()
    written = {name for name in missing if name.startswith(("output", "logits", *also))}
    assert missing == written, missing - written
    return {name: array for name, array in found.items() if name in names}


def _of_chip(numbers: Numbers, split: Split, d: int, t: int) -> dict[str, Array]:
    model, tp = numbers.workload.layer_model, split.tp
    shape, ffn = model.attention, model.feed_forward
    own = np.arange(shape.heads // tp) + t * (shape.heads // tp)
    found = {"attention_norm": numbers.norms[0:1], "experts_norm": numbers.norms[1:2]}
    found |= {"head_norm": numbers.norms[2:3], "router_weights.0": numbers.router}
    found["head_weights.0"] = (
        np.split(numbers.head, tp, axis=1)[t] if numbers.head.shape[1] % tp == 0 else numbers.head
    )
    matrices = numbers.matrices
    kv = np.arange(max(shape.kv_heads // tp, 1)) + t * shape.kv_heads // tp
    if numbers.workload.latent is None:
        group, width = shape.queries_per_kv_head, shape.head_dim
        qkv = matrices["qkv"].reshape(-1, shape.kv_heads, group + 2, width)
        queries = qkv[:, :, :group].reshape(len(qkv), shape.heads, width)[:, own]
        queries = queries.reshape(len(qkv), len(kv), -1, width)
        parts = [queries, qkv[:, kv, group:]]
        found["qkv_weights.0"] = np.concatenate(parts, axis=2).reshape(len(qkv), -1)
    else:
        for name, matrix in matrices.items():
            whole = name in ("kv_down", "query_down")
            found[f"{name}_weights.0"] = matrix if whole else np.split(matrix, tp, axis=1)[t]
    found["output_weights.0"] = np.split(matrices["output"], tp)[t]
    inner = np.array_split(np.arange(ffn.inner_dim), split.sharing)[t % split.sharing]
    held = (
        range(ffn.experts // split.ep)
        if model.experts is None
        else (np.split(np.arange(ffn.experts), split.ep)[split.block(d, t)])
    )
    if model.experts is None:
        inner = np.split(np.arange(ffn.inner_dim), tp)[t]
    for e, name, columns in [
        *((e, str(e), inner) for e in held),
        *([(-1, "shared", np.split(np.arange(ffn.shared_inner), tp)[t])] * bool(ffn.shared_inner)),
    ]:
        found |= {f"up.{name}": numbers.up[:, e, columns]}
        found |= {f"gate.{name}": numbers.gate[:, e, columns]}
        found[f"down.{name}"] = numbers.down[columns, e]
    data = split.data(numbers.data, d)
    blocks, tokens = blocks_of(numbers.workload, data), split.tokens(numbers.data, d)
    for r in range(len(blocks.shares)):
        rows = tokens[blocks.region_of_rows == r]
        found |= {f"hidden.{r}": numbers.hidden[rows], f"cos.{r}": numbers.cos[rows]}
        found[f"sin.{r}"] = numbers.sin[rows]
    for name, cached in (("cache_key", numbers.keys), ("cache_value", numbers.values)):
        whole = laid_out(cached[split.requests(numbers.data.rows, d)][:, kv], blocks.reserved)
        # Every region of a decoder layer names its own.
        found |= {name: whole, **{f"{name}.{r}": whole for r in range(4)}}
    return found


def laid_out(cached: Array, reserved: int) -> Array:
    """Caches as they lie off chip: by KV head, request and position, in whole tiles."""
    requests, heads, longest, width = cached.shape
    laid = np.zeros((heads, requests, max(reserved, longest), width), np.float32)
    laid[:, :, :longest] = cached.transpose(1, 0, 2, 3)
    return laid[:, :, :reserved].reshape(-1, width)
