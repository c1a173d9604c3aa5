"""Shape operators of the public simulator of 2026: repeat_ref and take_last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.errors import RankError
from stepsim.frozen import keyword_record
from stepsim.graph.handle import blurred
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.ops.routing.shares import share_of_type
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import RANK
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.sizes.sizes import Size, product

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


@keyword_record
class RepeatRef(Operator):
    """Repeats every element for each tensor of some rank in a reference."""

    name: ClassVar[str] = "repeat_ref"
    unit_kind: ClassVar[str] = "RepeatRef"
    rank: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        data, ref = self.inputs
        return {"rank": self.rank, "e": ref.rank - data.rank - self.rank}

    def memory(self, accounting: Accounting) -> Size:
        return accounting.type_bytes(self.outputs[0].type) * (2 if accounting.count_fifos else 1)


@keyword_record
class TakeLast(Operator):
    """Keeps the last element of every innermost vector."""

    name: ClassVar[str] = "take_last"
    unit_kind: ClassVar[str] = "TakeLast"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {}

    def memory(self, accounting: Accounting) -> Size:
        return 2 * accounting.type_bytes(self.inputs[0].type) if accounting.count_fifos else 0


def repeat_ref(x: Stream, ref: Stream, rank: int = 0, *, label: str | None = None) -> Stream:
    """Repeat every element in new inner dims, as often as given by a deeper reference.

    RepeatRef of the public simulator of 2026. Unlike ``x.unsqueeze(0).expand(ref)`` it needs no
    unit dims, can count tensors of the reference instead of elements, and frees the slot of the
    element before the first copy.

    Shape
    -----
    ``x`` of shape ``S`` and ``ref`` of shape ``S ++ [E_(e-1), .., E_0] ++ inner`` with ``rank``
    inner dims give ``S ++ [E_(e-1), .., E_0]``; ``e`` is at least 1.

    Parameters
    ----------
    x : the stream.
    ref : the reference; its values are ignored.
    rank : inner dims of the reference that count as one element.
    label : name in reports and messages.

    Fires
    -----
    Once for each element of the reference; the clock does not advance. A copy is sent with the last
    element of its tensor.

    Memory
    ------
    One element.

    Raises
    ------
    RankError : the reference does not have more than ``rank`` additional dims.
    DimError : the outer dims differ.

    Example
    -------
    >>> with st.Program("once for each row") as program:
    ...     x = st.linear_load(np.array([[7], [8]], "f4"), tile=(1, 1)).flatten(0, 1)  # [2]
    ...     again = st.repeat_ref(x, st.metadata(np.zeros((2, 3, 4), int)), rank=1)
    ...     out = st.linear_store(again, "out")
    >>> again
    Stream[2, 3] of Tile[1x1 f32] <- repeat_ref#3
    >>> print(run_functional(program).stored["out"])
    [[7. 7. 7.]
     [8. 8. 8.]]
    """
    site = Site("repeat_ref", (x, ref), label, ("in", "ref"))
    rank = site.number(RANK, "rank", rank)
    site.require(rank >= 0, RankError, f"rank is {rank}, expected 0 or more")
    new = ref.rank - x.rank - rank
    site.require(
        new >= 1,
        RankError,
        f"ref {format_dims(ref.shape)} has {ref.rank - x.rank} more dims than in "
        f"{format_dims(x.shape)}; with rank {rank} it needs at least {rank + 1}",
        "the reference has the dims of in, those to repeat over, and rank dims inside",
    )
    site.same_dims(x.shape, ref.shape[: len(x.shape)], "in", "ref", base=new + rank)
    shape = ref.shape[: len(x.shape) + new]
    grown = shape[len(x.shape) :]
    times = None if any(d.is_ragged for d in grown) else product(d.size for d in grown)
    return site.add(RepeatRef(rank=rank), [Output.repeated(x, shape, times)])[0]


def take_last(x: Stream, *, label: str | None = None) -> Stream:
    """Keep the last element of every innermost vector.

    TakeLast of the public simulator of 2026: for instance the final result of a :func:`scan`.

    Shape
    -----
    ``[D_N, .., D_1, D_0]`` gives ``[D_N, .., D_1, 1]``, of rank 1 or more.

    Parameters
    ----------
    x : the stream.
    label : name in reports and messages.

    Fires
    -----
    Once for each element; the clock does not advance, and nothing is sent for the others.

    Raises
    ------
    RankError : the stream has rank 0, so no element ends a vector.

    Example
    -------
    >>> with st.Program("totals", compute_bw=64) as program:
    ...     x = st.linear_load(np.arange(6, dtype="f4").reshape(2, 3), tile=(1, 1))
    ...     total = st.take_last(x.scan(st.fn.add, rank=1))
    ...     out = st.linear_store(total, "out")
    >>> total
    Stream[2, 1] of Tile[1x1 f32] <- take_last#2
    >>> print(run_functional(program).stored["out"].ravel())
    [ 3. 12.]
    """
    site = Site("take_last", (x,), label, ("in",))
    site.require(
        x.rank >= 1,
        RankError,
        f"in {format_dims(x.shape)} has rank 0, so that none of its elements carries a stop",
        "promote() the stream first",
    )
    shape = (*x.shape[:-1], Dim(1))
    element = share_of_type(site, x.type, 0, shape)
    return site.add(TakeLast(), [Output(shape, element, None, blurred(x.padding))])[0]
