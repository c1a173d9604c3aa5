"""Traffic: who sends what to whom, when, and after what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import shown
from stepsim.dram import whole_array
from stepsim.errors import ArgError

Whole = NDArray[np.int64]

_MOST_CYCLES: Final = 1 << 40
_MOST_BYTES: Final = 1 << 40
_MOST_TRANSFERS: Final = 1 << 26


@dataclass(frozen=True)
class Traffic:
    """Transfers in the order in which they were given; every array has a number for each.

    Attributes
    ----------
    time : first cycle in which a transfer may start.
    source, destination : places, numbered row by row.
    last : the last place of a multicast's rectangle, of which ``destination`` is the first; the
        destination itself elsewhere.
    network : on which a transfer goes.
    nbytes : of the whole transfer; 0 where flits are given.
    packets : packets that the bytes are cut into.
    flits : 0 where bytes are given.
    delay : cycles from the end of the last transfer that a transfer waits for to its start.
    after_begin, after : transfers that each waits for, and first of each in ``after``.
    grid : places and columns of the network that the places are numbered in.
    """

    time: Whole
    source: Whole
    destination: Whole
    last: Whole
    network: Whole
    nbytes: Whole
    packets: Whole
    flits: Whole
    delay: Whole
    after_begin: Whole
    after: Whole
    grid: tuple[int, int]

    def __len__(self) -> int:
        return len(self.time)

    @property
    def waits(self) -> NDArray[np.bool_]:
        """Whether transfers wait for others. [transfers]"""
        return np.diff(self.after_begin) > 0

    def taken(self, chosen: NDArray[Any]) -> Traffic:
        """Some of the transfers, none of which waits for another."""
        arrays = {one.name: getattr(self, one.name)[chosen] for one in fields(self)[:-3]}
        count = len(arrays["time"])
        nothing = np.zeros(0, np.int64)
        begin = np.zeros(count + 1, np.int64)
        return Traffic(**arrays, after_begin=begin, after=nothing, grid=self.grid)


_NAMES: Final = (
    "time", "source", "destination", "last", "bytes", "packets", "flits", "network", "after",
    "delay",
)  # fmt: skip
_NEEDED: Final = ("source", "destination")


def traffic_of(given: Any, places: int, cols: int, networks: int) -> Traffic:
    """Traffic from a table or a mapping of columns, checked against a network.

    Raises
    ------
    ArgError : a column that is missing, unknown or of another length; a value out of range; a place
        outside the grid; a network that there is not; transfers that wait for each other.
    """
    if isinstance(given, Traffic):
        if given.grid != (places, cols):
            made, here = (_grid(*one) for one in (given.grid, (places, cols)))
            raise ArgError(
                f"traffic: was made for a network of {made}, and this one has {here}; make it for "
                "this network, as traffic(network) of a trace does"
            )
        _check_places(given, places, cols, networks)
        return given
    columns = _columns(given)
    count = len(_of_rows("source", columns["source"]))
    if count > _MOST_TRANSFERS:
        raise ArgError(f"traffic: expected at most {_MOST_TRANSFERS} transfers, found {count}")

    def numbers(name: str, default: int, most: int, least: int = 0) -> Whole:
        if name not in columns:
            return np.full(count, default, np.int64)
        return _numbers(name, columns[name], count, least, most)

    if "flits" in columns and ("bytes" in columns or "packets" in columns):
        raise ArgError("traffic: has flits and bytes; give one of them")
    if "flits" not in columns and "bytes" not in columns:
        raise ArgError("traffic: has neither a column 'bytes' nor 'flits'; give one of them")
    for name in ("packets", "bytes", "flits"):
        if name in columns:
            columns[name] = _of_rows(name, columns[name])
    destination = _places("destination", columns["destination"], count, cols)
    after_begin, after = _after(columns.get("after"), count)
    if "delay" in columns and not len(after):
        raise ArgError(
            "delay: has an effect only on transfers with 'after'; none waits for another"
        )
    traffic = Traffic(
        time=numbers("time", 0, _MOST_CYCLES),
        source=_places("source", columns["source"], count, cols),
        destination=destination,
        last=_places("last", columns["last"], count, cols) if "last" in columns else destination,
        network=numbers("network", 0, 1 << 30),
        nbytes=numbers("bytes", 0, _MOST_BYTES, 1),
        packets=numbers("packets", 1, 1 << 31, 1),
        flits=numbers("flits", 0, 1 << 31, 1),
        delay=numbers("delay", 0, _MOST_CYCLES),
        after_begin=after_begin,
        after=after,
        grid=(places, cols),
    )
    alone = np.flatnonzero((traffic.delay > 0) & ~traffic.waits)
    if len(alone):
        raise ArgError(
            f"delay[{alone[0]}]: has an effect only on transfers with 'after', and this one waits "
            "for none; give its start as its 'time', or a delay of 0"
        )
    _check_places(traffic, places, cols, networks)
    _check_packets(traffic)
    return traffic


def _columns(given: Any) -> dict[str, Any]:
    if hasattr(given, "column_names"):
        columns = {name: given[name] for name in given.column_names}
    elif isinstance(given, Mapping):
        columns = dict(given)
    else:
        raise ArgError(
            f"traffic: expected a table or a mapping with the columns {', '.join(_NAMES)}, found "
            f"{shown(given)}"
        )
    for name in columns:
        if name not in _NAMES:
            raise ArgError(
                f"traffic: unknown column {shown(name)}; expected some of {', '.join(_NAMES)}"
            )
    for name in _NEEDED:
        if name not in columns:
            raise ArgError(f"traffic: has no column {name!r}; give one")
    for name, values in columns.items():
        if hasattr(values, "to_pylist") and name not in ("after", *_GRID):
            if getattr(values, "null_count", 0):
                raise ArgError(f"{name}: expected a number for each transfer, found nulls")
            columns[name] = values.to_numpy()
        elif hasattr(values, "to_pylist"):
            columns[name] = values.to_pylist()
    return columns


_GRID: Final = ("source", "destination", "last")


def _of_rows(name: str, values: Any) -> Any:
    if not hasattr(values, "__len__") or isinstance(values, str | bytes | Mapping):
        raise ArgError(f"{name}: expected one value for each transfer, found {shown(values)}")
    return values


def _numbers(name: str, values: Any, count: int, least: int, most: int) -> Whole:
    array: Any = whole_array(name, _of_rows(name, values))
    if array.ndim != 1 or len(array) != count:
        raise ArgError(
            f"{name}: expected one number for each of {count} transfers, found an array of "
            f"{' x '.join(map(str, array.shape)) or 'no dims'}"
        )
    wrong = np.flatnonzero((array < least) | (array > most))
    if len(wrong):
        raise ArgError(
            f"{name}[{wrong[0]}]: expected a number from {least} to {most}, found "
            f"{int(array[wrong[0]])}"
        )
    return np.ascontiguousarray(array.astype(np.int64))


def _places(name: str, values: Any, count: int, cols: int) -> Whole:
    """Numbers of places, from numbers or pairs of row and column; -1 for one outside the grid."""
    array: Any = whole_array(name, _of_rows(name, values))
    if array.ndim == 2 and array.shape[1] == 2 and len(array) == count:
        array = array.astype(np.int64)
        outside = (array[:, 1] < 0) | (array[:, 1] >= cols) | (array[:, 0] < 0)
        if outside.any():
            at = int(np.flatnonzero(outside)[0])
            row, col = (int(one) for one in array[at])
            raise ArgError(
                f"{name}[{at}]: the place ({row}, {col}) is outside the grid, which has {cols} "
                "columns, counted from 0"
            )
        array = array[:, 0] * cols + array[:, 1]
    if array.ndim != 1 or len(array) != count:
        raise ArgError(
            f"{name}: expected a place, or its row and column, for each of {count} transfers, "
            f"found an array of {' x '.join(map(str, array.shape)) or 'no dims'}"
        )
    return np.ascontiguousarray(array.astype(np.int64))


def _after(values: Any, count: int) -> tuple[Whole, Whole]:
    """Transfers that each transfer waits for: none, a number, or a list of numbers."""
    if values is None:
        return np.zeros(count + 1, np.int64), np.zeros(0, np.int64)
    rows = _of_rows("after", values)
    if len(rows) != count:
        raise ArgError(f"after: expected an entry for each of {count} transfers, found {len(rows)}")
    lists: list[Sequence[Any]] = []
    for at, row in enumerate(rows):
        if row is None or (not hasattr(row, "__len__") and row == -1):
            lists.append(())
        elif isinstance(row, str | bytes | Mapping):
            raise ArgError(f"after[{at}]: expected numbers of transfers, found {shown(row)}")
        else:
            lists.append(row if hasattr(row, "__len__") else (row,))
    begin = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    flat = [one for row in lists for one in row]
    after: Any = whole_array("after", flat)
    owner = np.repeat(np.arange(count), np.diff(begin))
    if after.ndim != 1:
        raise ArgError("after: expected for each transfer None, a number, or a list of numbers")
    wrong = np.flatnonzero((after < 0) | (after >= count) | (after == owner))
    if len(wrong):
        at = int(wrong[0])
        raise ArgError(
            f"after[{int(owner[at])}]: expected the number of another transfer, from 0 to "
            f"{count - 1}, found {int(after[at])}"
        )
    return begin, after.astype(np.int64)


def _check_places(traffic: Traffic, places: int, cols: int, networks: int) -> None:
    for name in _GRID:
        values = getattr(traffic, name)
        wrong = np.flatnonzero((values < 0) | (values >= places))
        if len(wrong):
            at, value = int(wrong[0]), int(values[wrong[0]])
            raise ArgError(
                f"{name}[{at}]: place {value} (row {value // cols}, column {value % cols}) is "
                f"outside the grid of {_grid(places, cols)}, numbered row by row from 0"
            )
    wrong = np.flatnonzero(traffic.network >= networks)
    if len(wrong):
        raise ArgError(
            f"network[{int(wrong[0])}]: there is no network {int(traffic.network[wrong[0]])}; "
            f"expected {'0' if networks == 1 else f'0 to {networks - 1}'}"
        )
    upper, left = np.divmod(traffic.destination, cols)
    lower, right = np.divmod(traffic.last, cols)
    wrong = np.flatnonzero((lower < upper) | (right < left))
    if len(wrong):
        raise ArgError(
            f"last[{int(wrong[0])}]: expected a place below or right of destination, so that they "
            f"span a rectangle, found {int(traffic.last[wrong[0]])} for "
            f"{int(traffic.destination[wrong[0]])}"
        )


def _grid(places: int, cols: int) -> str:
    return f"{places // cols} x {cols} places" if places > cols else f"{places} places"


def _check_packets(traffic: Traffic) -> None:
    given = traffic.nbytes > 0
    wrong = np.flatnonzero(given & (traffic.nbytes % traffic.packets != 0))
    if len(wrong):
        at = int(wrong[0])
        raise ArgError(
            f"packets[{at}]: expected packets of equal size, found {int(traffic.packets[at])} for "
            f"{int(traffic.nbytes[at])} bytes"
        )
