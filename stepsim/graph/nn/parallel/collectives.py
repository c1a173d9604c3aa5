"""Collectives: what streams on several chips have in common, by the steps of an algorithm."""

from __future__ import annotations

from collections.abc import Sequence

from stepsim.errors import ArgError
from stepsim.graph.nn.parallel.steps import Group
from stepsim.graph.stream import Stream


def all_reduce(
    xs: Sequence[Stream],
    *,
    algorithm: str = "ring",
    chips: Sequence[int] | None = None,
    compute_bw: int | None = None,
    label: str | None = None,
) -> list[Stream]:
    """Sum of the tiles of streams on several chips, which every chip gets.

    A reduce-scatter and an all-gather of its parts. What is behind it begins with the first tile
    that has arrived, and the next tiles follow while that is at work.

    Shape
    -----
    ``n`` streams of one shape and tile ``[m, k]`` give ``n`` streams like them.

    Parameters
    ----------
    xs : one stream for each chip.
    algorithm : ``"ring"``, to the next chip in every step; ``"direct"``, to all others at once; or
        ``"halving-doubling"``, with partners at distances of powers of two.
    chips : the chip of each stream; by default the one on which it was made.
    compute_bw : FLOPs per cycle of the sums; None is the program's.

    FLOPs
    -----
    ``m k (n - 1) / n`` on every chip, for each tile.

    Messages
    --------
    Of every chip, for each tile of ``S`` bytes: ``2 (n - 1)`` of ``S / n``; halving-doubling
    ``2 log2 n``, of ``S / 2`` to ``S / n`` and back.

    Raises
    ------
    ArgError : streams do not fit each other or the algorithm, their columns cannot be divided among
        the chips, or two are on one chip.

    Example
    -------
    >>> with st.Program("sum", compute_bw=64) as p:
    ...     parts = []
    ...     for i in range(4):
    ...         with st.chip(i):
    ...             parts.append(st.linear_load(np.full((2, 8), i, "f4"), (2, 8)).flatten(0, 1))
    ...     for i, y in enumerate(st.nn.all_reduce(parts)):
    ...         with st.chip(i):
    ...             out = st.linear_store(y, f"sum.{i}")
    >>> print(st.run_functional(p).stored["sum.3"][0])
    [6. 6. 6. 6. 6. 6. 6. 6.]
    """
    group = Group("all_reduce", xs, chips, algorithm, compute_bw, label)
    if group.count == 1:
        return list(group.xs)
    if algorithm == "halving-doubling":
        return group.doubled(group.halved(), group.width)
    return group.joined(group.gathered(group.scattered()))


def all_gather(
    xs: Sequence[Stream],
    *,
    algorithm: str = "ring",
    chips: Sequence[int] | None = None,
    label: str | None = None,
) -> list[Stream]:
    """The tiles of streams on several chips side by side, which every chip gets.

    Shape
    -----
    ``n`` streams of one shape and tile ``[m, k]`` give ``n`` streams of tiles ``[m, n k]``, with
    the columns of the first stream first.

    Parameters
    ----------
    xs : one stream for each chip.
    algorithm : ``"ring"``, ``"direct"`` or ``"halving-doubling"``, as of :func:`all_reduce`.
    chips : the chip of each stream; by default the one on which it was made.

    Messages
    --------
    Of every chip, for each tile of ``S`` bytes: ``n - 1`` of ``S``; halving-doubling ``log2 n``, of
    ``S`` to ``S n / 2``.

    Raises
    ------
    ArgError : streams do not fit each other or the algorithm, or two are on one chip.

    Example
    -------
    >>> with st.Program("side by side") as p:
    ...     with st.chip(0):
    ...         a = st.linear_load(np.zeros((1, 2), "f4"), (1, 2)).flatten(0, 1)
    ...     with st.chip(1):
    ...         b = st.linear_load(np.ones((1, 2), "f4"), (1, 2)).flatten(0, 1)
    ...     first, second = st.nn.all_gather([a, b])
    ...     with st.chip(1):
    ...         out = st.linear_store(second, "both")
    ...     first.consume()
    >>> print(st.run_functional(p).stored["both"])
    [[0. 0. 1. 1.]]
    """
    group = Group("all_gather", xs, chips, algorithm, None, label, divided=False)
    if group.count == 1:
        return list(group.xs)
    if algorithm == "halving-doubling":
        return group.doubled(list(group.xs), group.columns)
    return group.joined(group.gathered(list(group.xs)))


def reduce_scatter(
    xs: Sequence[Stream],
    *,
    algorithm: str = "ring",
    chips: Sequence[int] | None = None,
    compute_bw: int | None = None,
    label: str | None = None,
) -> list[Stream]:
    """Sum of the tiles of streams on several chips, of which every chip gets its columns.

    Shape
    -----
    ``n`` streams of one shape and tile ``[m, k]`` give ``n`` streams of tiles ``[m, k / n]``: the
    first columns on the first chip, and so on.

    Parameters
    ----------
    xs : one stream for each chip.
    algorithm : ``"ring"``, ``"direct"`` or ``"halving-doubling"``, as of :func:`all_reduce`.
    chips : the chip of each stream; by default the one on which it was made.
    compute_bw : FLOPs per cycle of the sums; None is the program's.

    FLOPs
    -----
    ``m k (n - 1) / n`` on every chip, for each tile.

    Messages
    --------
    Of every chip, for each tile of ``S`` bytes: ``n - 1`` of ``S / n``; halving-doubling
    ``log2 n``, of ``S / 2`` to ``S / n``.

    Raises
    ------
    ArgError : as of :func:`all_reduce`.

    Example
    -------
    >>> with st.Program("parts of a sum", compute_bw=64) as p:
    ...     with st.chip(0):
    ...         a = st.linear_load(np.array([[1, 2]], "f4"), (1, 2)).flatten(0, 1)
    ...     with st.chip(1):
    ...         b = st.linear_load(np.array([[3, 4]], "f4"), (1, 2)).flatten(0, 1)
    ...     first, second = st.nn.reduce_scatter([a, b])
    ...     with st.chip(1):
    ...         out = st.linear_store(second, "second")
    ...     first.consume()
    >>> print(st.run_functional(p).stored["second"])
    [[6.]]
    """
    group = Group("reduce_scatter", xs, chips, algorithm, compute_bw, label)
    if group.count == 1:
        return list(group.xs)
    return group.halved() if algorithm == "halving-doubling" else group.scattered()


def all_to_all(
    xs: Sequence[Stream],
    *,
    algorithm: str = "ring",
    chips: Sequence[int] | None = None,
    label: str | None = None,
) -> list[Stream]:
    """Columns of the tiles of streams on several chips, exchanged: chip j gets part j of every
    stream.

    Shape
    -----
    ``n`` streams of one shape and tile ``[m, k]`` give ``n`` streams like them: the parts ``k / n``
    wide that a chip gets are side by side, that of the first stream first.

    Parameters
    ----------
    xs : one stream for each chip.
    algorithm : ``"ring"``, where every part goes from chip to chip; or ``"direct"``.
    chips : the chip of each stream; by default the one on which it was made.

    Messages
    --------
    Of every chip, for each tile of ``S`` bytes: ``n (n - 1) / 2`` of ``S / n`` with ``"ring"``,
    ``n - 1`` of ``S / n`` with ``"direct"``.

    Raises
    ------
    ArgError : as of :func:`all_reduce`; or the algorithm is ``"halving-doubling"``, which has no
        steps for it.

    Example
    -------
    >>> with st.Program("exchange") as p:
    ...     with st.chip(0):
    ...         a = st.linear_load(np.array([[1, 2]], "f4"), (1, 2)).flatten(0, 1)
    ...     with st.chip(1):
    ...         b = st.linear_load(np.array([[3, 4]], "f4"), (1, 2)).flatten(0, 1)
    ...     first, second = st.nn.all_to_all([a, b], algorithm="direct")
    ...     with st.chip(1):
    ...         out = st.linear_store(second, "second")
    ...     first.consume()
    >>> print(st.run_functional(p).stored["second"])
    [[2. 4.]]
    """
    group = Group("all_to_all", xs, chips, algorithm, None, label)
    if algorithm == "halving-doubling":
        group.layer.fail(
            ArgError, "algorithm 'halving-doubling' has no steps for all_to_all",
            "use 'ring' or 'direct'",
        )  # fmt: skip
    if group.count == 1:
        return list(group.xs)
    return group.joined(group.exchanged())
