"""Flat expert ids whose logical shape [tokens, layers, k] is not recorded with them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.formats.job import ImportJob

_CHANCE = 1e-12
"""Probability below which a pattern is not taken for a coincidence."""


def shaped_ids(
    job: ImportJob, ids: npt.NDArray[np.int32], where: str, field: str, tokens: int | None, k: int
) -> npt.NDArray[np.int32]:
    """The ids of a sequence as [tokens, layers, k].

    The number of layers is given, or follows from ``tokens``, the number of tokens counted. It
    must then be the same in all sequences: a sequence with fewer tokens than counted looks the
    same as one with fewer layers.

    Raises:
        TraceError: the number of layers is not known, or the ids do not fit it or k.
    """
    layers = job.layers
    if layers is None:
        layers = _layers(job, ids, where, field, tokens, k)
    if ids.size % (layers * k):
        raise TraceError(
            f"{where}: `{field}` has {ids.size} ids, expected a multiple of {layers} layers x "
            f"k = {k}; check --layers and --k"
        )
    shaped = ids.reshape(-1, layers, k)
    if tokens is not None and len(shaped) > tokens:
        raise TraceError(
            f"{where}: `{field}` has {len(shaped)} tokens of {layers} layers x k = {k}, expected "
            f"at most {tokens} (prompt + completion - 1); check --layers and --k"
        )
    if job.layers is None:
        _check_k(job, shaped, where, field)
    return shaped


def _layers(
    job: ImportJob, ids: npt.NDArray[np.int32], where: str, field: str, tokens: int | None, k: int
) -> int:
    known = job.first_sequence
    if tokens is None or tokens < 1:
        if known is not None:
            return known.layers
        raise TraceError(
            f"{where}: `{field}` has {ids.size} ids and the response does not report the number of "
            "its tokens, so the number of layers is not known; give --layers"
        )
    if ids.size % (tokens * k):
        raise TraceError(
            f"{where}: `{field}` has {ids.size} ids, expected a multiple of {tokens} tokens "
            f"x k = {k}; check --k, and give --layers if only a part of the tokens was asked "
            "for"
        )
    layers = int(ids.size // (tokens * k))
    if known is not None and layers != known.layers:
        raise TraceError(
            f"{where}: `{field}` has {ids.size} ids, which are {layers} layers x k = {k} of "
            f"{tokens} tokens, expected {known.layers} layers as in {known.where}; give --layers "
            "if only a part of the tokens was asked for (routed_experts_start_len)"
        )
    return layers


def _check_k(job: ImportJob, ids: npt.NDArray[np.int32], where: str, field: str) -> None:
    """Refuse ids whose layers were split because the real k is larger than the given one.

    The ids of a token in a layer are all distinct. If those of neighboring layers are also distinct
    throughout the sequence, they are the ids of one layer.
    """
    tokens, layers, k = ids.shape
    experts = int(ids.max()) + 1 if job.experts is None else job.experts
    for factor in range(min(layers, experts // k), 1, -1):
        if layers % factor:
            continue
        joined = np.sort(ids.reshape(-1, factor * k), axis=1)
        if (joined[:, 1:] == joined[:, :-1]).any():
            continue
        # Equal tokens have equal experts, so they count as one piece of evidence.
        samples = len(np.unique(joined, axis=0))
        if samples * _log_chance(experts, k, factor) < math.log(_CHANCE):
            raise TraceError(
                f"{where}: `{field}` has {ids.size} ids, {layers} layers x k = {k} of {tokens} "
                f"tokens, but no token has an expert twice in {factor} adjacent layers, "
                f"expected of {layers // factor} layers x k = {factor * k}; check --k, or give "
                f"--layers {layers} if it is right"
            )


def _log_chance(experts: int, k: int, factor: int) -> float:
    """Logarithm of the chance that ``factor`` choices of k experts have no expert in common."""
    return sum(
        math.log((experts - part * k - i) / (experts - i))
        for part in range(1, factor)
        for i in range(k)
    )
