"""Placements: which tile of a network an operator is on, and which place its memory port."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

import stepsim.documents
from stepsim.arguments import Range, is_whole, shown
from stepsim.atomic import replacing
from stepsim.deferred import deferred
from stepsim.errors import ArgError, did_you_mean
from stepsim.frozen import frozen
from stepsim.graph import Program, Wiring
from stepsim.machine import CORES, Network
from stepsim.noc.places import check_size, default_ports, placed_operators, worker_places
from stepsim.noc.topology import Topology, Whole
from stepsim.typed import typed

if TYPE_CHECKING:
    import yaml
else:
    yaml = deferred("yaml")

PER_TILE: Final = Range(1 << 20, "operators of a tile")

FORMAT: Final = "stepsim placement 1"
"""Form and version of the file; raised when a reader of the present one would misread it."""

_GRID: Final = ("topology", "rows", "cols")
_KEYS: Final = ("format", *_GRID, "per_tile", "operators", "ports")

_ADVICE: Final = "`stepsim place --out` writes such files."

_HEAD: Final = """\
# Where the operators of a program are on a network, as row and column, and where their ports to
# off-chip memory are. An operator of `operators` that accesses memory may be left out of `ports`.
"""


class Placement:
    """Where the operators of a program and their off-chip memory ports are on a network.

    A place is a number, counted row by row, or a pair of row and column. Operators have the names
    under which results show them, such as ``silu#2``. A broadcast is on the tile of the operator
    whose stream it copies. Operators are on worker cores, which all places of a network without a
    map of cores are.

    Parameters
    ----------
    program : a finished program.
    network : that it is placed on.
    operators : place of every operator by its name, or a list of pairs for one on several tiles.
    ports : place where the requests of an operator leave the network for off-chip memory, by the
        name of the operator; those not named have the places of `default_ports`. Several ports may
        share a place, also with operators.
    per_tile : operators that a tile may hold.

    Raises
    ------
    ArgError : a place outside the grid or on another core than a worker, more operators on a tile
        than it may hold, a program larger than the machine, an operator left out, or a name that
        the program does not have.

    Example
    -------
    >>> with st.Program("silu", compute_bw=64) as program:
    ...     x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
    ...     st.linear_store(x.map(st.fn.silu), "out")
    >>> network = st.noc.load_network("mesh", {"rows": 2, "cols": 2})
    >>> placement = st.noc.Placement.row_major(program, network)
    >>> placement.place_of("silu#2")
    (1, 0)
    """

    def __init__(
        self,
        program: Program,
        network: Network,
        operators: Mapping[str, Any],
        ports: Mapping[str, Any] | None = None,
        *,
        per_tile: int = 1,
    ) -> None:
        self._fill(program, network, operators, ports, per_tile, "placement", {})

    def _fill(
        self, program: Program, network: Network, operators: Any, ports: Any, per_tile: Any,
        where: str, lines: Mapping[str, int],
    ) -> None:  # fmt: skip
        if not isinstance(network, Network):
            raise ArgError(f"{where}: expected a stepsim.machine.Network, found {shown(network)}")
        self.network = network
        self.per_tile = PER_TILE.checked(f"{where}: per_tile", per_tile)
        self._topology = Topology(network)
        self._where, self._lines = where, lines
        known = placed_operators(program)
        check_size(where, program, len(known), network, self.per_tile)
        memory = {name for name, offchip in known.items() if offchip}
        given = self._places("operators", operators, set(known))
        missing = [name for name in known if name not in given]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise ArgError(
                f"{where}: operator '{missing[0]}'{more} of program '{program.name}' has no "
                "place; state one for every operator"
            )
        self._check_tiles(given)
        stated = self._places("ports", {} if ports is None else ports, memory, set(known))
        default = default_ports(program, network)
        self._tiles = {name: given[name] for name in known}
        self._operators = {name: tiles[0] for name, tiles in self._tiles.items()}
        self._ports = {
            name: stated[name][0] if name in stated else default[name]
            for name in known
            if name in memory
        }

    @typed
    def on(self, program: Program, network: Network) -> Placement:
        """The same places of the program on another network.

        Raises
        ------
        ArgError : a place is outside the grid, or on another core than a worker.
        """
        its = self.to_dict()
        return Placement(program, network, its["operators"], its["ports"], per_tile=self.per_tile)

    @property
    def operators(self) -> Mapping[str, int]:
        """Number of the place of every operator; the first of those that are on several tiles."""
        return MappingProxyType(self._operators)

    @property
    def tiles(self) -> Mapping[str, tuple[int, ...]]:
        """Numbers of the tiles of every operator."""
        return MappingProxyType(self._tiles)

    @property
    def ports(self) -> Mapping[str, int]:
        """Number of the place of the memory port of every operator that has one."""
        return MappingProxyType(self._ports)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Placement) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        places = (*self._tiles.items(), *self._ports.items())
        return hash((self.network, self.per_tile, places))

    def __getstate__(self) -> dict[str, Any]:
        # Texts have other hashes in another process.
        return {name: value for name, value in vars(self).items() if name != "_hash"}

    def __repr__(self) -> str:
        net = self.network
        return (
            f"Placement({len(self._operators)} operators on {net.rows} x {net.cols} places of "
            f"'{net.name}')"
        )

    @classmethod
    @typed
    def row_major(cls, program: Program, network: Network, per_tile: int = 1) -> Placement:
        """Operators in the order of the program, on one worker core after another, row by row.

        Raises
        ------
        ArgError : the program is larger than the machine, or ``per_tile`` is out of range.
        """
        per_tile = PER_TILE.checked("placement: per_tile", per_tile)
        names = placed_operators(program)
        check_size("placement", program, len(names), network, per_tile)
        tiles = worker_places(network)
        places = {name: int(tiles[i // per_tile]) for i, name in enumerate(names)}
        return cls(program, network, places, per_tile=per_tile)

    @classmethod
    @typed
    def from_yaml(
        cls, path: str | os.PathLike[str], program: Program, network: Network
    ) -> Placement:
        """Read a file that `save` wrote, or one written by hand with its key ``operators``.

        Raises
        ------
        ArgError : the file cannot be read, is of another grid, or is not a placement of the
            program; the message has the line.
        """
        return PlacementFile.read(path).placed(program, network)

    @typed
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a YAML file that `from_yaml` reads as an equal placement.

        Raises
        ------
        OutputError : the file cannot be written.
        """
        with replacing(Path(path)) as (part,):
            part.write_text(self.to_yaml(), encoding="utf-8")

    def to_yaml(self) -> str:
        """The text of the file that `save` writes."""
        return _HEAD + yaml.safe_dump(
            self.to_dict(), sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
        )

    def to_dict(self) -> dict[str, Any]:
        """What the file has, as plain values."""
        cols = self.network.cols
        places: dict[str, Any] = {"operators": {}, "ports": {}}
        for name, tiles in self._tiles.items():
            pairs = [list(divmod(tile, cols)) for tile in tiles]
            places["operators"][name] = pairs[0] if len(pairs) == 1 else pairs
        for name, place in self._ports.items():
            places["ports"][name] = list(divmod(place, cols))
        grid = {key: getattr(self.network, key) for key in _GRID}
        return {"format": FORMAT, **grid, "per_tile": self.per_tile, **places}

    @typed
    def place_of(self, operator: str) -> tuple[int, int]:
        """Row and column of an operator.

        Raises
        ------
        ArgError : the program has no such operator.
        """
        if operator not in self._operators:
            near = did_you_mean(operator, self._operators)
            raise ArgError(f"placement: there is no operator '{operator}'{near}")
        return divmod(self._operators[operator], self.network.cols)

    @typed
    def of_units(self, wiring: Wiring) -> tuple[Whole, Whole]:
        """Places of all units of the wired program, and of their memory ports; -1 without one.

        A broadcast is where the operator is whose stream it copies. Operators on several tiles have
        the first of them.

        Raises
        ------
        ArgError : the wiring is of a program with other operators.
        """
        places = np.array([tiles[0] for tiles in self.tiles_of_units(wiring)], np.int64)
        ports = [self._ports.get(unit.name, -1) for unit in wiring.units]
        return places, np.array(ports, np.int64)

    @typed
    def tiles_of_units(self, wiring: Wiring) -> list[tuple[int, ...]]:
        """Tiles of all units of the wired program; raises as `of_units`."""
        names = [
            wiring.fifos[unit.inputs[0]].stream.producer.title()
            if unit.operator is None
            else unit.name
            for unit in wiring.units
        ]
        missing = [name for name in names if name not in self._operators]
        if missing:
            raise ArgError(
                f"placement: operator '{missing[0]}' of program '{wiring.program.name}' has no "
                "place; the placement is of another program"
            )
        return [self._tiles[name] for name in names]

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.network, self.per_tile, self._tiles, self._ports

    def _places(
        self, kind: str, given: Any, known: Set[str], others: Set[str] = frozenset()
    ) -> dict[str, tuple[int, ...]]:
        if not isinstance(given, Mapping):
            raise ArgError(
                f"{self._where}: {kind}: expected a mapping from names of operators to places, "
                f"found {shown(given)}"
            )
        found: dict[str, tuple[int, ...]] = {}
        for name, place in given.items():
            at = f"{kind}.{shown(name, str)}"
            if name in others and name not in known:
                self._refuse(at, f"operator '{name}' has no memory port; leave it out")
            if name not in known:
                near = did_you_mean(name, sorted(known))
                self._refuse(at, f"the program has no operator {shown(name)}{near}")
            several = kind == "operators" and isinstance(place, list | tuple) and len(place) > 0
            if not several or not all(isinstance(one, list | tuple) for one in place):
                found[name] = (self._number(at, kind, name, place),)
                continue
            found[name] = tuple(self._number(at, kind, name, one) for one in place)
            if len(set(found[name])) < len(found[name]):
                twice = next(one for one in found[name] if found[name].count(one) > 1)
                told = self._topology.place_name(twice)
                self._refuse(at, f"operator '{name}' names tile {told} twice; name it once")
        return found

    def _number(self, at: str, kind: str, name: str, place: Any) -> int:
        net = self.network
        what = f"operator '{name}'" if kind == "operators" else f"the memory port of '{name}'"
        pair = isinstance(place, list | tuple)
        if not (pair and len(place) == 2 and all(map(is_whole, place))) and not is_whole(place):
            self._refuse(
                at,
                f"{what}: expected a place as [row, column] or a number, found {shown(place)}",
            )
        row, col = (int(one) for one in place) if pair else divmod(int(place), net.cols)
        if not (0 <= row < net.rows and 0 <= col < net.cols):
            told = f"({shown(row)}, {shown(col)})" if pair else shown(place)
            self._refuse(
                at,
                f"{what}: the place {told} is outside the grid of {net.rows} x {net.cols} places, "
                "counted from 0",
            )
        number = row * net.cols + col
        letter = net.core_letters[number]
        if kind == "operators" and letter != "W":
            self._refuse(
                at,
                f"{what}: the place {self._topology.place_name(number)} is a core of kind "
                f"'{CORES[letter]}'; operators are on worker cores, of which "
                f"{self._topology.place_name(int(worker_places(net)[0]))} is the first",
            )
        return number

    def _check_tiles(self, given: Mapping[str, tuple[int, ...]]) -> None:
        on: dict[int, list[str]] = {}
        for name, place in ((name, tile) for name, tiles in given.items() for tile in tiles):
            on.setdefault(place, []).append(name)
            if len(on[place]) > self.per_tile:
                listed = ", ".join(f"'{one}'" for one in on[place])
                self._refuse(
                    f"operators.{name}",
                    f"{len(on[place])} operators are on tile {self._topology.place_name(place)} "
                    f"({listed}), which may hold {self.per_tile}; move one, or state per_tile",
                )

    def _refuse(self, at: str, sentence: str) -> NoReturn:
        line = f", line {self._lines[at]}" if at in self._lines else ""
        raise ArgError(f"{self._where}{line}: {sentence}")


@frozen
class PlacementFile:
    """A file of a placement, as it was read; whether it fits a program is not known yet.

    Attributes
    ----------
    where : the file, for messages.
    data : its keys.
    lines : the line of every value by its path.
    """

    where: str
    data: Mapping[str, Any]
    lines: Mapping[str, int]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> PlacementFile:
        """Read a file and check its keys.

        Raises
        ------
        ArgError : the file cannot be read, or a key is unknown or missing.
        """
        where = f"placement {os.fspath(path)}"
        document = stepsim.documents.load_yaml(Path(path), "placement", ArgError, _ADVICE)
        return cls.of(where, document.data, document.lines)

    @classmethod
    def of(cls, where: str, data: Any, lines: Mapping[str, int]) -> PlacementFile:
        """The content of such a file, or of a part of another one, with its keys checked.

        Raises
        ------
        ArgError : a key is unknown or missing.
        """
        if not isinstance(data, Mapping) or "operators" not in data:
            raise ArgError(f"{where}: expected a mapping with the key operators. {_ADVICE}")
        stepsim.documents.check_format(data, lines, FORMAT, where, ArgError)
        for key in data:
            if key not in _KEYS:
                raise ArgError(
                    f"{where}, line {lines[str(key)]}: unknown key '{key}'"
                    f"{did_you_mean(key, _KEYS)} Known: {', '.join(_KEYS)}"
                )
        return cls(where, data, lines)

    def placed(self, program: Program, network: Network) -> Placement:
        """The placement of a program on a network.

        Raises
        ------
        ArgError : it is of another grid, or is not a placement of the program; the message has the
            line.
        """
        data = self.data
        for key in _GRID:
            if key in data and data[key] != getattr(network, key):
                raise ArgError(
                    f"{self.where}, line {self.lines[key]}: it is for a network with {key} "
                    f"{shown(data[key])}, found {getattr(network, key)!r}; place the program on "
                    "this network"
                )
        made = Placement.__new__(Placement)
        made._fill(
            program, network, data["operators"], data.get("ports"), data.get("per_tile", 1),
            self.where, self.lines,
        )  # fmt: skip
        return made
