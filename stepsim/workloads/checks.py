"""Checks that several workloads share; each returns what is wrong as text, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["divides", "reserved_tokens", "sharing"]

_SHOWN = 3
_TINY = 8


def divides(name: str, value: int, whole: int, what: str) -> Iterator[tuple[str, str]]:
    """A problem unless ``value`` divides ``whole``, which ``what`` describes."""
    if whole % value:
        # Tiny divisors are never what was meant, unless there are no others.
        divisors = [n for n in range(min(_TINY, whole), whole + 1) if whole % n == 0]
        near = sorted(sorted(divisors, key=lambda n: abs(n - value))[:_SHOWN])
        nearest = "near ones are" if len(near) > 1 else "the nearest is"
        yield (
            name,
            f"expected a divisor of {what}, found {value}; {nearest} {', '.join(map(str, near))}",
        )


def sharing(name: str, strategy: str, regions: int, requests: int) -> Iterator[tuple[str, str]]:
    """A problem unless ``requests`` can be shared out to ``regions`` by the strategy."""
    if strategy == "interleaved":
        what = f"the {requests} requests that are assigned round-robin"
        yield from divides(name, regions, requests, what)
    elif strategy == "dynamic" and regions > requests:
        yield (
            name,
            f"dynamic starts one request in each region, expected at most the {requests} requests, "
            f"found {regions}",
        )


def reserved_tokens(
    max_length: int | None, lengths: np.ndarray[Any, Any], kv_tile: int
) -> Iterator[tuple[str, str]]:
    """A problem unless the cache of a request, a multiple of a tile, holds the longest request."""
    if max_length is None:
        return
    longest = int(lengths.max())
    if max_length % kv_tile or max_length < longest + 1:
        yield (
            "max_length",
            f"expected a multiple of the KV tile of {kv_tile} that holds the longest request of "
            f"{longest} tokens and the new one, found {max_length}; the smallest is "
            f"{-(-(longest + 1) // kv_tile) * kv_tile}",
        )
