"""The input data of workloads: traces, and the number of rows of those without one.

Nothing here imports the graph, so that options and help start fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.frozen import frozen
from stepsim.typed import typed

if TYPE_CHECKING:
    import numpy as np

    from stepsim.workloads import arrays
else:
    np = deferred("numpy")
    arrays = deferred("stepsim.workloads.arrays")

DEFAULT_ROWS = 64
"""Tokens or requests of a workload without a trace."""


@frozen
class Input:
    """A trace that a workload needs; ``name`` is its attribute in `Data`.

    Attributes
    ----------
    optional : it may be left out, and `Data` says what holds then.
    """

    name: str
    what: str
    optional: bool = False


ROUTING = Input("routing", "expert ids [tokens, k]")
"""The input of a workload that takes a routing table, ``data.routing``."""


KV_LENGTHS = Input("kv_lengths", "cached tokens of each request [requests]")
"""The input of a workload that takes the lengths of KV caches, ``data.kv_lengths``."""


NEW_TOKENS = Input("new_tokens", "new tokens of each request [requests]", optional=True)
"""The input of a workload whose requests may have several new tokens, ``data.new_tokens``."""


@frozen(slots=False, eq=False)
class Data:
    """The traces of a workload, which reads those that its parameters need.

    Attributes
    ----------
    routing : expert ids ``[tokens, k]``, those of the first request first; None if not given.
    kv_lengths : cached tokens ``[requests]``; None if not given.
    rows : tokens or requests.
    whole : tokens or requests of the full batch, of which these are the first.
    new_tokens : new tokens ``[requests]``; None for one of each.

    Raises
    ------
    ArgError : as in `of`.
    """

    routing: np.ndarray[Any, Any] | None = None
    kv_lengths: np.ndarray[Any, Any] | None = None
    rows: int = DEFAULT_ROWS
    whole: int = 0
    new_tokens: np.ndarray[Any, Any] | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        if self.routing is not None:
            put(self, "routing", arrays.routing_of(self.routing))
        if self.kv_lengths is not None:
            put(self, "kv_lengths", arrays.lengths_of(self.kv_lengths))
        if self.new_tokens is not None:
            put(self, "new_tokens", arrays.new_tokens_of(self.new_tokens))
        put(self, "rows", arrays.rows_of("rows", self.rows, 0))
        put(self, "whole", arrays.rows_of("whole", self.whole, 0))
        for name, rows in (
            ("kv_lengths", self.rows), ("new_tokens", self.rows), ("routing", self.tokens),
        ):  # fmt: skip
            array = getattr(self, name)
            if array is not None and len(array) != rows:
                raise ArgError(
                    f"{name}: expected a row for each of the {rows} rows, found {len(array)}; "
                    "make data with Data.of, which counts them"
                )

    @classmethod
    def of(
        cls,
        *,
        routing: Any = None,
        kv_lengths: Any = None,
        new_tokens: Any = None,
        rows: int | None = None,
        whole: int | None = None,
    ) -> Data:
        """Data of the given arrays; without arrays, ``rows`` gives the number of rows, 64 by
        default.

        Raises
        ------
        ArgError : an array has a wrong shape, is not of whole numbers from 0, or does not have one
            row for each row of the others.
        """
        ids = None if routing is None else arrays.routing_of(routing)
        lengths = None if kv_lengths is None else arrays.lengths_of(kv_lengths)
        new = None if new_tokens is None else arrays.new_tokens_of(new_tokens)
        if new is not None:
            return cls._of_new(new, ids, lengths, rows, whole)
        counts = [len(array) for array in (ids, lengths) if array is not None]
        if len(set(counts)) > 1:
            raise ArgError(
                f"routing: expected one token for each of the {counts[1]} requests of kv_lengths, "
                f"found {counts[0]}; take as many of both"
            )
        said = None if rows is None else arrays.rows_of("rows", rows, 1)
        if counts and said is not None and said != counts[0]:
            raise ArgError(
                f"rows: expected the {counts[0]} of the arrays, found {said}; leave it out"
            )
        found = counts[0] if counts else DEFAULT_ROWS if said is None else said
        return cls(
            ids, lengths, found, found if whole is None else arrays.rows_of("whole", whole, found)
        )

    @classmethod
    def _of_new(cls, new: Any, ids: Any, lengths: Any, rows: int | None, whole: int | None) -> Data:
        """Data of requests with these new tokens."""
        count, tokens = len(new), int(new.sum())
        if lengths is not None and len(lengths) != count:
            raise ArgError(
                f"new_tokens: expected one number for each of the {len(lengths)} requests of "
                f"kv_lengths, found {count}; take as many of both"
            )
        if ids is not None and len(ids) != tokens:
            raise ArgError(
                f"routing: expected a row for each of the {tokens} new tokens of {count} requests, "
                f"found {len(ids)}; take as many of both"
            )
        if rows is not None and arrays.rows_of("rows", rows, 1) != count:
            raise ArgError(
                f"rows: expected the {count} requests of new_tokens, found {rows}; leave it out"
            )
        whole = count if whole is None else arrays.rows_of("whole", whole, count)
        return cls(ids, lengths, count, whole, new)

    @typed
    def missing(self, inputs: Iterable[Input]) -> list[Input]:
        """The inputs that are not given and may not be left out."""
        return [one for one in inputs if not one.optional and getattr(self, one.name) is None]

    @property
    def new(self) -> np.ndarray[Any, Any]:
        """The new tokens of each request, one where none are given."""
        return np.ones(self.rows, dtype=np.int64) if self.new_tokens is None else self.new_tokens

    @property
    def tokens(self) -> int:
        """New tokens of all requests together."""
        return self.rows if self.new_tokens is None else int(self.new_tokens.sum())

    @property
    def lengths(self) -> np.ndarray[Any, Any]:
        """The cached tokens, all 0 where none are given."""
        return np.zeros(self.rows, dtype=np.int64) if self.kv_lengths is None else self.kv_lengths
