"""Arrow tables of a run at the hardware level; every column carries its unit and definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepsim.deferred import deferred
from stepsim.hardware.image import PlacedFifo
from stepsim.kernels import (
    EVENT_WORDS,
    Event,
    reference_number,
    reference_release,
    reference_stop,
    request_address,
    request_port,
    request_write,
)
from stepsim.results import field, schema

if TYPE_CHECKING:
    from stepsim.hardware.result import HardwareResult

pa: Any = deferred("pyarrow")
pc: Any = deferred("pyarrow.compute")


def units_table(result: HardwareResult) -> pa.Table:
    """Units of a run, one per row."""
    columns = schema(
        "hardware_units",
        [
            "name",
            field("kind", "string", "", "kind of the unit"),
            field("function", "string", "", "what a map computes"),
            "firings",
            field("first", "int64", "cycles", "cycle of the first firing; null without one"),
            field("last", "int64", "cycles", "cycle of the last firing; null without one"),
        ],
        ["name", "kind", "function", "firings"],
    )
    rows = result.units.values()
    return pa.table(
        {name: [getattr(row, name) for row in rows] for name in columns.names}, schema=columns
    )


def fifos_table(result: HardwareResult) -> pa.Table:
    """FIFOs of a run, one per row."""
    columns = schema(
        "hardware_fifos",
        [
            "name", "depth", "sent", "received",
            field("first", "int64", "cycles", "cycle of the first put; null without one"),
            field("peak", "int64", "tokens", "most messages at the start of a cycle"),
            field("mean", "float64", "tokens", "mean number of messages over the run"),
        ],
        ["name", "depth", "sent", "received", "peak", "mean"],
    )  # fmt: skip
    rows = result.fifos.values()
    return pa.table(
        {name: [getattr(row, name) for row in rows] for name in columns.names}, schema=columns
    )


def events_table(words: Sequence[NDArray[np.int64]], fifos: Sequence[PlacedFifo]) -> pa.Table:
    """Events of a traced run in the order of their cycles, from the words that kernels wrote."""
    columns = schema(
        "hardware_events",
        [
            field("cycle", "int64", "cycles", "cycle in which it happened"),
            field("event", pa.dictionary(pa.int8(), pa.string()), "", "put, get, send, ..."),
            field("place", pa.dictionary(pa.int32(), pa.string()), "", "FIFO, dram or arbiter"),
            field("value", "string", "", "the message, by its kind"),
        ],
        ["cycle", "event", "place", "value"],
    )
    table = np.concatenate([*words, np.zeros(0, np.int64)]).reshape(-1, EVENT_WORDS)
    events, places = table[:, 1] >> 32, table[:, 1] & 0xFFFFFFFF
    names = [fifo.name for fifo in fifos]
    of_fifo = events <= Event.GET
    forms = np.array([_FORMS.index(fifo.holds) for fifo in fifos])
    form = np.where(of_fifo, forms[np.where(of_fifo, places, 0)], 0)
    form[events == Event.SEND] = _FORMS.index("request")
    form[events == Event.RETURN] = _FORMS.index("response")
    place = np.where(of_fifo, places, np.where(events == Event.REFUSED, len(names) + 1, len(names)))
    message = np.where(events == Event.REFUSED, places, table[:, 2])
    shown = np.array([fifo.shown for fifo in fifos] + [True, True])[place]
    made = pa.table(
        [
            table[:, 0],
            pa.DictionaryArray.from_arrays(events.astype(np.int8), [e.name.lower() for e in Event]),
            pa.DictionaryArray.from_arrays(place.astype(np.int32), [*names, "dram", "arbiter"]),
            _texts(message, form),
        ],
        schema=columns,
    )
    return made.filter(pa.array(shown))


_FORMS = ("tile", "reference", "request", "response", "block")
"""What messages are, as `PlacedFifo.holds` says."""


def _texts(message: NDArray[np.int64], form: NDArray[Any]) -> pa.Array:
    """Messages as text."""
    parts = {
        "tile": (message,),
        "reference": (
            reference_number(message), reference_release(message), reference_stop(message)
        ),
        "request": (request_port(message), request_address(message), request_write(message)),
        "response": (request_port(message), request_address(message)),
        "block": (request_address(message),),
    }  # fmt: skip
    made = []
    for name in _FORMS:
        columns = [pc.cast(pa.array(part), pa.string()) for part in parts[name]]
        made.append(pc.binary_join_element_wise(*columns, ":"))
    return pc.choose(pa.array(form), *made)
