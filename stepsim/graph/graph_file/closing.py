"""Last tokens: where the public simulator ends one level more than the program does.

The format has no shape of a source but that of its array or walk, and the public simulator ends all
dims of these with the last token. A source without an outer dim of 1 is written as one that has it,
so its last token carries a stop that the program does not have. Most operators pass it on
unnoticed. Some lose it, and some give up: those that compare the levels of two streams, and those
that take no stop above the rank of their input. A few others then run, but no longer at the same
time, since a stop marks what in the program only the end of the stream marks.

Where only a run can decide, operators are refused: those that depend on levels behind a
Reassemble, which puts the stop anywhere in its output; filters by masks that other operators make;
and what waits for the end of a stream whose producer may go on after its last token.

The rules are those of the timing rules, operator by operator. Operators that are not named below
read one stream, and their outputs end as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from stepsim.errors import GraphFileError
from stepsim.graph.ops.sources import SelectorSource
from stepsim.graph.rewrites.wiring import WiredFifo, WiredUnit, Wiring
from stepsim.graph.types import MultiHot

_OWN_STOPS: Final = ("Partition", "Parallelize", "EagerMerge", "StaticReassemble", "ExpertAddrGen")
"""Units whose outputs end as in the program, however their inputs do."""

_OF_LAST_INPUT: Final = ("Reassemble", "ExpandRef", "DynStreamify", "RepeatRef")
"""Units whose outputs end like their last input; others follow the first."""

_SAME_STOPS: Final = ("UnaryMap", "BinaryMap", "Broadcast", "RandomOffChipLoad")
"""Units whose every token carries the stop of the token it is made from."""

_ANY_STOPS: Final = (
    "UnaryMap", "Broadcast", "RandomOffChipLoad", "RandomOffChipStore", "OffChipStore", "Consumer",
    "Printer", "RetileStreamify", "Flatten", "Promote", "PromoteOuter", "RepeatStatic",
    "DynCounter", "FlatmapCounter", "FilterLastTile",
)  # fmt: skip
"""Units that do the same at the same time whatever the stops of their inputs."""

_LATE: Final = ("Partition", "Parallelize", "EagerMerge", "FlatmapFilterRowStreamify")
"""Units that may go on reading after their last token, so that their outputs end late."""


@dataclass(frozen=True, slots=True)
class Raised:
    """Stops of a stream that are higher in the public simulator than in the program.

    Attributes
    ----------
    source : the unit whose array or walk has no outer dim of 1.
    inside : None if only the last token is concerned, by one level; otherwise the FIFO from which
        any of the tokens may be.
    """

    source: WiredUnit = field(compare=False)
    inside: int | None = None


class _Reading:
    """A unit, and how the streams that it reads end in the public simulator."""

    def __init__(
        self,
        unit: WiredUnit,
        wiring: Wiring,
        found: Mapping[int, Raised],
        late: Collection[int] = (),
    ) -> None:
        self.unit = unit
        self.fifos: list[WiredFifo] = [wiring.fifos[fifo] for fifo in unit.inputs]
        self.raised = [found.get(fifo) for fifo in unit.inputs]
        known = [one for one in self.raised if one is not None]
        self.first = next((one for one in known if one.inside is not None), None)
        self.first = self.first or (known[0] if known else None)
        self.late = bool(unit.inputs) and unit.inputs[0] in late

    def rank(self, number: int) -> int:
        return self.fifos[number].stream.rank

    def shown(self, number: int) -> str:
        """An input and the level at which it ends."""
        fifo = self.fifos[number]
        dims = ", ".join(map(str, fifo.stream.shape))
        level = self.rank(number)
        if self.raised[number] is not None:
            return f"{fifo.name} [{dims}] ends level {level + 1}, in the program level {level}"
        return f"{fifo.name} [{dims}] ends level {level}"

    def decides(self) -> int:
        """The input that the outputs end like."""
        if self.unit.kind == "RandomOffChipStore":
            return 0 if self.unit.params["ack_addr"] else 1
        return len(self.raised) - 1 if self.unit.kind in _OF_LAST_INPUT else 0

    def takes_any_stops(self) -> bool:
        """Whether the stops of no input matter, except for those that it passes on."""
        kind, params = self.unit.kind, self.unit.params
        if kind == "DynOffChipLoad":
            return not params.get("trigger_rank", 0)
        if kind == "FlatmapFilterRowStreamify":
            return len(self.raised) == 1
        if kind == "BinaryMap":
            return self.raised[0] == self.raised[1]
        return kind in _ANY_STOPS

    def after(self) -> Raised | None:
        """How the outputs end."""
        kind = self.unit.kind
        if not self.unit.outputs or kind in _OWN_STOPS:
            return None
        if kind == "Reshape" and self.unit.params["outer"]:
            return None  # it ends its outer dim at the end of the stream as well
        end = self.raised[self.decides()]
        if kind == "Reassemble" and any(self.raised[:-1]):
            end = self.first
            return None if end is None else replace(end, inside=self.unit.outputs[0])
        if end is None or end.inside is None or kind in _SAME_STOPS:
            return end
        return replace(end, inside=self.unit.outputs[0])


def check_ends(wiring: Wiring) -> None:
    """Refuse operators on which the public simulator gives up for the level of a last token.

    Raises
    ------
    GraphFileError : the first such operator, its streams and their levels, and how to change the
        source.
    """
    found = raised_stops(wiring)
    late = _late_ends(wiring) if found else set()
    for unit in wiring.units:
        if unit.kind != "ExpandRef" and not any(fifo in found for fifo in unit.inputs):
            continue
        reading = _Reading(unit, wiring, found, late)
        complaint = _complaint(reading)
        if complaint is None:
            continue
        fix = _OUTER if reading.first is None else _fix(reading.first.source)
        raise GraphFileError(
            f"to_graph: {unit.name} ({unit.source}): in the public simulator {complaint}; {fix}"
        )


def raised_stops(wiring: Wiring) -> dict[int, Raised]:
    """How FIFOs end that do not end as in the program."""
    readers = {fifo: unit for unit in wiring.units for fifo in unit.inputs}
    found: dict[int, Raised] = {}
    todo = []

    def put(unit: WiredUnit, end: Raised) -> None:
        for fifo in unit.outputs:
            known = found.get(fifo)
            if known is None or (known.inside is None and end.inside is not None):
                found[fifo] = end
                if fifo in readers:
                    todo.append(readers[fifo])

    for unit in wiring.units:
        if not unit.inputs and _lacks_outer_dim(unit, wiring):
            put(unit, Raised(unit))
    while todo:
        unit = todo.pop()
        end = _Reading(unit, wiring, found).after()
        if end is not None:
            put(unit, end)
    return found


def _late_ends(wiring: Wiring) -> set[int]:
    """FIFOs that may be closed later than their last token arrives."""
    readers = {fifo: unit for unit in wiring.units for fifo in unit.inputs}
    todo = [fifo for unit in wiring.units if unit.kind in _LATE for fifo in unit.outputs]
    found = set(todo)
    while todo:
        fifo = todo.pop()
        unit = readers.get(fifo)
        if unit is None or (unit.kind == "Reassemble" and fifo != unit.inputs[-1]):
            continue
        todo += [output for output in unit.outputs if output not in found]
        found.update(unit.outputs)
    return found


def _lacks_outer_dim(source: WiredUnit, wiring: Wiring) -> bool:
    shape = wiring.fifos[source.outputs[0]].stream.shape
    return (len(shape) == 1 or shape[0] != 1) and not any(d == 0 for d in shape)


def _complaint(reading: _Reading) -> str | None:
    """Why the public simulator gives up on a unit; None if it does not."""
    first = reading.first
    if first is not None and first.inside is not None and not reading.takes_any_stops():
        name = reading.fifos[reading.raised.index(first)].name
        return (
            f"{name} has higher stops than in the program, which come from the end of "
            f"{first.source.name} and on which this operator depends"
        )
    check = _CHECKS.get(reading.unit.kind)
    return None if check is None else check(reading)


def _no_more_than_rank(reading: _Reading) -> str | None:
    for number, end in enumerate(reading.raised):
        if end is not None:
            return f"{reading.shown(number)}, and no stop above that is taken here"
    return None


def _alike(reading: _Reading) -> str | None:
    first, second = reading.raised
    return None if first == second else _unlike(reading)


def _unlike(reading: _Reading) -> str:
    return f"{reading.shown(0)}, but {reading.shown(1)}; both or neither must end a level more"


def _partition(reading: _Reading) -> str | None:
    """Tokens without a stop are compared with nothing, all others with a selector that has one."""
    data, control = reading.raised
    if data != control:
        return None if data is None and reading.rank(0) == 0 else _unlike(reading)
    rank = reading.unit.params["rank"]
    vectors = reading.fifos[0].stream.shape[-rank:-1] if rank else ()
    if control is not None and reading.rank(1) == 0 and not all(d.is_one() for d in vectors):
        return (
            f"{reading.shown(1)}, and the last chunk of {reading.fifos[0].name} would then have to "
            "be a single vector"
        )
    return None


def _expand(reading: _Reading) -> str | None:
    """With an outer dim that is not expanded, only the reference is asked for its stops."""
    rank = reading.rank(0)
    if reading.unit.params["e"] <= rank:
        return None
    if rank == 0 and reading.raised[0] != reading.raised[1]:
        return _unlike(reading)
    if reading.raised[1] is not None:
        return _ends_with_data(reading)
    if rank > 0:
        return (
            f"{reading.shown(1)}, but all dims of {reading.fifos[0].name} are expanded, which "
            f"takes a stop of level {rank + 1} at the end"
        )
    return None


def _ends_with_data(reading: _Reading) -> str | None:
    """The program ends such an operator with its reference."""
    if not reading.late:
        return None
    return f"it waits for the end of {reading.fifos[0].name}, in the program it does not"


def _reshape(reading: _Reading) -> str | None:
    """A stop marks the end of the last chunk; in the program, the end of the stream does."""
    params = reading.unit.params
    waits = params["ri"] == 0 and (params["outer"] or "pad" in params)
    if reading.raised[0] is None or not waits or not reading.late:
        return None
    return (
        f"{reading.shown(0)}, so that it does not wait for the end of the stream, as the program "
        "does"
    )


def _dyn_streamify(reading: _Reading) -> str | None:
    """A single buffer without a stop is read until the reference ends, which has none either."""
    buffers, reference = reading.raised
    if reading.rank(0) > 0:
        return None
    if buffers is None:
        return None if reference is None else _unlike(reading)
    return _ends_with_data(reading)


def _filter_rows(reading: _Reading) -> str | None:
    """The last tile must have a row left to carry the stop. A mask is known where it is made."""
    if len(reading.raised) == 1:
        return None
    if reading.raised[0] != reading.raised[1]:
        return _unlike(reading)
    if reading.raised[0] is not None and reading.rank(0) == 0 and not _ends_set(reading.fifos[1]):
        return f"{reading.shown(0)}, which is lost if the last tile has no row left"
    return None


def _ends_set(fifo: WiredFifo) -> bool:
    """Whether the last selector of a stream is known to select something."""
    kind, source = fifo.stream.type, fifo.stream.producer
    if isinstance(source, SelectorSource):
        return bool(source.flags.reshape(-1, source.flags.shape[-1])[-1].any())
    return isinstance(kind, MultiHot) and bool(kind.hot)


_CHECKS: Final[Mapping[str, Callable[[_Reading], str | None]]] = {
    **dict.fromkeys(
        ("Parallelize", "EagerMerge", "StaticReassemble", "ExpertAddrGen"), _no_more_than_rank
    ),
    **dict.fromkeys(
        ("BinaryMap", "BinaryMapAccum", "CacheReadAddrGen", "RepeatRef", "Shuffle"), _alike
    ),
    "Partition": _partition,
    "ExpandRef": _expand,
    "DynStreamify": _dyn_streamify,
    "Reshape": _reshape,
    "ReshapePadStream": _reshape,
    "FlatmapFilterRowStreamify": _filter_rows,
}

_OUTER: Final = (
    "give both streams an outer dim of 1 by .unsqueeze(), and flatten it away afterwards"
)


def _fix(source: WiredUnit) -> str:
    """How to make a source that ends as in the program."""
    assert source.operator is not None
    shape = source.operator.outputs[0].shape
    dims = [1, *map(int, shape)]
    what = f"an outer dim of 1, shape {dims}"
    if source.kind == "SelectGen":
        dims.append(source.params["width"])
        what = f"an outer dim of 1, selectors {dims}"
    remove = f"and remove it by .flatten({len(shape) - 1}, {len(shape)})"
    ended = f"the format ends {_ITS[source.kind]} of {source.name} by a level more; "
    if source.operator.name in _REPLACED:
        made = _REPLACED[source.operator.name]
        return f"{ended}use {made} with {what.replace('shape', 'array')}, in its place, {remove}"
    return f"{ended}give it {what}, {remove}"


_ITS: Final = {
    "OffChipLoad": "the walk", "SelectGen": "the array", "MetadataGen": "the array",
    "Counter": "the integers",
}  # fmt: skip

_REPLACED: Final = {"counter": "metadata()", "routing": "selector()"}
"""What makes the same stream with any shape."""
