"""flat_map: functions that return a stream for every element (STeP paper, table 6).

Their constructors (``unpack_rows(...)``, ``expert_addresses(...)``, ...) are in ``st.fn``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.arguments import counted, shown, text_of
from stepsim.errors import ArgError, did_you_mean
from stepsim.frozen import frozen, keyword_record
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.ops.flat_map.emitted import takes_lengths
from stepsim.graph.ops.flat_map.stream_rules import STREAM_UNITS

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream


@frozen(slots=False)
class StreamFunction:
    """A rule that turns each element into a stream; made by functions of ``st.fn``.

    Attributes
    ----------
    unit_kind : unit of the engine, which determines the type rule (``infer``) and the number of
        streams that the function takes (``arity``).
    params : names and values of the unit's parameters.
    kernel : computes the values of a general function, see :func:`emit`.

    Raises
    ------
    ArgError : there is no such unit, or parameters or their values do not fit it.
    """

    name: str
    unit_kind: str
    params: tuple[tuple[str, Any], ...] = ()
    kernel: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        text_of("StreamFunction: name", self.name)
        kind = self.unit_kind
        if not isinstance(kind, str) or kind not in STREAM_UNITS:
            raise ArgError(
                f"StreamFunction {self.name!r}: unit_kind is {shown(kind)}, expected one of "
                f"{', '.join(STREAM_UNITS)}{did_you_mean(shown(kind, str), STREAM_UNITS)}"
            )
        wanted = STREAM_UNITS[kind].params
        needed = len(wanted) - STREAM_UNITS[kind].last_optional
        given = self.params if isinstance(self.params, tuple) else ()
        pairs = [p for p in given if isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str)]
        keys = [p[0] for p in pairs]
        fits = keys == list(wanted)[: max(len(keys), needed)]
        if given is not self.params or not fits or pairs != [*given]:
            raise ArgError(
                f"StreamFunction {self.name!r}: params of unit '{kind}' are pairs of "
                f"({', '.join(wanted) or 'none'}) and a value, found {shown(self.params)}"
            )
        checked = tuple(
            (key, check(f"{self.name}: {label}", value))
            for (key, value), (label, check) in zip(pairs, wanted.values(), strict=False)
        )
        object.__setattr__(self, "params", checked)
        found = dict(checked)
        if found.get("filter") and not found["split_row"]:
            raise ArgError(f"{self.name}: padding can be dropped from rows, not from columns")
        if self.kernel is not None and (kind != "FlatMap" or not callable(self.kernel)):
            what = "must be a function or None" if kind == "FlatMap" else "has no effect"
            raise ArgError(f"{self.name}: kernel {what}, found {shown(self.kernel)}")

    @property
    def arity(self) -> int:
        """Streams that the function takes."""
        if self.unit_kind == "FlatMap":
            return 2 if takes_lengths(dict(self.params)["dims"]) else 1
        return STREAM_UNITS[self.unit_kind].arity

    def infer(self, site: Site, xs: Sequence[Stream]) -> Output:
        """The output for the streams ``xs``, by the rule of the unit."""
        return STREAM_UNITS[self.unit_kind].rule(site, xs, dict(self.params))

    def __str__(self) -> str:
        inside = ", ".join(f"{k}={v}" for k, v in self.params)
        return f"{self.name}({inside})"


@keyword_record
class FlatMap(Operator):
    """Concatenates the streams that a function returns for each element."""

    name: ClassVar[str] = "flat_map"
    fn: StreamFunction

    @property
    def unit_kind(self) -> str:  # type: ignore[override]
        return self.fn.unit_kind

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in self.fn.params}


def flat_map(x: Stream, fn: StreamFunction, *others: Stream, label: str | None = None) -> Stream:
    """Replace every element by a stream, and concatenate these streams.

    FlatMap of the STeP paper (table 6). The function determines the number and size of the
    pieces.

    Shape
    -----
    ``x.shape`` without dim 0 ``++ [D] ++`` the inner dims of the pieces. ``D`` is dim 0 times the
    pieces of an element if both are regular, otherwise ragged.

    Parameters
    ----------
    x : the stream.
    fn : a stream function: ``fn.unpack_rows()``, ``fn.emit(...)``,
        ``fn.cache_read_addresses(...)``, ...
    *others : further streams of the shape of ``x``, for functions of several.
    label : name in reports and messages.

    Fires
    -----
    Once for each element; the function determines the cost of the pieces.

    Raises
    ------
    ArgError : ``fn`` is not a stream function, or takes another number of streams.
    DTypeError : an input has the wrong type for it.
    RankError : an input has the wrong rank for it.
    DimError : the shapes of several inputs are not known to be equal.

    Example
    -------
    >>> with st.Program("rows") as program:
    ...     x = st.linear_load(np.arange(4, dtype="f4").reshape(4, 1), tile=(2, 1)).flatten(0, 1)
    ...     rows = st.flat_map(x, st.fn.unpack_rows())
    ...     out = st.linear_store(rows, "out")
    >>> rows
    Stream[4] of Tile[1x1 f32] <- unpack_rows#2
    >>> print(run_functional(program).stored["out"].ravel())
    [0. 1. 2. 3.]
    """
    site = Site("flat_map", (x, *others), label, fn=fn)
    if not isinstance(fn, StreamFunction):  # the text of one takes longer than its operator
        site.fail(
            ArgError,
            f"flat_map needs a stream function, found {shown(fn)}",
            "use fn.unpack_rows(), fn.emit(), fn.expert_addresses(), ...",
        )
    if 1 + len(others) != fn.arity:
        takes = f"takes {counted(fn.arity, 'stream')}, found {1 + len(others)}"
        site.fail(ArgError, f"'{fn.name}' {takes}")
    return site.add(FlatMap(fn=fn), [fn.infer(site, (x, *others))])[0]


def expert_addresses(tiles: int, base: int = 0) -> StreamFunction:
    """For each one-hot selector of expert e: the tile indices of the weights of that expert.

    The expert address generator of the paper's simulator. The values are ``base + e * tiles + j``
    for j below ``tiles``, addresses of :func:`random_load`.

    Shape
    -----
    ``[D_0]`` of one-hot selectors becomes ``[D_0, tiles, 1]`` of ``Tile[1x1 u64]``.

    Parameters
    ----------
    tiles : tiles of each expert.
    base : index of the first tile of expert 0.

    Fires
    -----
    Once for each selector: all addresses in one cycle, if there is room.

    Raises
    ------
    DTypeError : the elements are not one-hot selectors.
    RankError : the stream is not of rank 0; flatten it first.
    ArgError : the indices exceed 63 bits.

    Example
    -------
    >>> with st.Program("weights") as program:
    ...     weights = np.repeat(np.arange(6, dtype="f4"), 2).reshape(6, 2)  # 2 rows an expert
    ...     which = st.routing([[2], [0]], experts=3).multihot()
    ...     addr = which.flat_map(st.fn.expert_addresses(2))
    ...     rows = st.random_load(addr.flatten(0, 2), weights, tile=(1, 2))
    ...     out = st.linear_store(rows, "out")
    >>> addr
    Stream[2, 2, 1] of Tile[1x1 u64] <- expert_addresses#1
    >>> print(run_functional(program).stored["out"][:, 0])
    [4. 5. 0. 1.]
    """
    return StreamFunction("expert_addresses", "ExpertAddrGen", (("n", tiles), ("base", base)))


def cache_read_addresses(stride: int) -> StreamFunction:
    """For each request with an index and a length: the tile indices of its cached tiles.

    The cache read address generator of the paper's simulator. Request ``index`` has ``stride``
    tiles reserved, of which it uses ``length``: the values are ``index * stride + 0 .. length -
    1``, addresses of :func:`random_load`. It takes two streams, ``index.flat_map(fn, length)``.

    Shape
    -----
    Two streams ``[..., D_0]`` of integers become ``[..., D_0, ~len]`` of ``Tile[1x1 u64]``, where
    the ragged dim has the lengths as its sizes. All streams made from one stream of lengths share
    it.

    Parameters
    ----------
    stride : tiles reserved for each request.

    Fires
    -----
    Once for each request: one address a cycle, without delaying the next request of the unit.

    Raises
    ------
    DTypeError : an input does not carry 1x1 tiles of ``u32`` or ``u64``.
    DimError : the shapes of index and length are not known to be equal.

    A length of 0 fails at run time: an empty inner dim cannot be written.

    Example
    -------
    >>> with st.Program("paged cache") as program:
    ...     cache = np.arange(8, dtype="f4").reshape(8, 1)  # two requests of four tiles each
    ...     index, length = st.metadata([0, 1]), st.metadata([2, 3])
    ...     addr = index.flat_map(st.fn.cache_read_addresses(4), length)
    ...     keys = st.random_load(addr, cache, tile=(1, 1))
    ...     out = st.linear_store(keys.flatten(0, 1), "out")
    >>> addr
    Stream[2, ~len] of Tile[1x1 u64] <- cache_read_addresses#2
    >>> print(run_functional(program).stored["out"].ravel())
    [0. 1. 4. 5. 6.]
    """
    return StreamFunction("cache_read_addresses", "CacheReadAddrGen", (("stride", stride),))


def last_tile_filter() -> StreamFunction:
    """For each length: selectors that separate the last of that many elements from the others.

    The filter of the last tile in the paper's simulator: the selector is output 0 for the last
    element and output 1 for those before it.

    Shape
    -----
    ``[..., D_0]`` of integers becomes ``[..., D_0, ~len]`` of ``MultiHot[2]``, with the ragged dim
    of ``fn.cache_read_addresses`` of the same lengths. A partition by it has known counts.

    Fires
    -----
    Once for each length: all selectors in one cycle, if there is room.

    Raises
    ------
    DTypeError : the input does not carry 1x1 tiles of ``u32`` or ``u64``.

    Example
    -------
    >>> with st.Program("last tiles") as program:
    ...     length = st.metadata([2, 3])
    ...     which = length.flat_map(st.fn.last_tile_filter())
    ...     addr = st.metadata([0, 1]).flat_map(st.fn.cache_read_addresses(4), length)
    ...     last, before = st.partition(addr, which)
    ...     last.consume()
    ...     before.consume()
    >>> [last, before]
    [Stream[2] of Tile[1x1 u64] <- partition#4.0,
     Stream[len_total - 2] of Tile[1x1 u64] <- partition#4.1]
    """
    return StreamFunction("last_tile_filter", "FilterLastTile")
