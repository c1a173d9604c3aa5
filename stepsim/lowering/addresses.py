"""Where the tensors of a program lie off chip, and which bytes each access moves.

Every tensor named by loads and stores gets a *region*: a first byte, a size, and a layout. Loads
and stores of one tensor share its region; those of unnamed tensors have one each. In the layout
``stream`` every operator has its own region, with a copy of each tile that it moves more than
once. Each of several chips has a DRAM with regions of its own: of a tensor that loads on several
chips name, each has a copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Final

from stepsim.arguments import shown
from stepsim.errors import ArgError, LoweringError, did_you_mean
from stepsim.frozen import NamedTuple, frozen
from stepsim.graph import (
    LinearLoad,
    LinearStore,
    RandomLoad,
    RandomStore,
    TensorSpec,
    Tile,
    named_now,
)
from stepsim.kernels import DramTiming, PortAccess, dram_words, locate
from stepsim.machine import Addresses, Port

if TYPE_CHECKING:
    from stepsim.graph import WiredUnit, Wiring
    from stepsim.machine import Machine

LAYOUTS: Final = ("row_major", "tiled", "stream")

_MARK: Final = 44
"""First bit of an address that distinguishes tensors at the same place."""

_SAMPLES: Final = 4096


class Place(NamedTuple):
    """Where a user wants a tensor; fields that are None follow the machine."""

    base: int | None = None
    layout: str | None = None


@frozen
class Region:
    """A tensor off chip.

    Attributes
    ----------
    tensor : its name, or that of the operator where it has none.
    operators : names of those that move its tiles.
    base : address of its first byte. size : bytes that it takes, padding included.
    layout : order of its bytes.
    known : whether the size is known before the run; otherwise it is the remaining space, and tiles
        beyond it wrap around to the base.
    chip : the chip in whose memory it is.
    """

    tensor: str
    operators: tuple[str, ...]
    base: int
    size: int
    layout: str
    known: bool = True
    chip: int = 0


@frozen
class AddressMap:
    """Regions of a program in the order of its memory ports, and the accesses of every port there.

    Attributes
    ----------
    regions : the tensors, chip by chip. accesses : by the name of the unit.
    capacity : bytes of the DRAM of a chip.
    chips : chips in whose memory there are tensors.
    """

    regions: tuple[Region, ...]
    accesses: Mapping[str, PortAccess]
    capacity: int
    chips: tuple[int, ...] = (0,)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions about tensors that the program does not fully specify, one sentence
        each."""
        return tuple(
            f"{region.tensor}{self._on(region)}: the number of its tiles is not known before the "
            f"run; it gets {region.size:,} bytes, and tiles beyond them wrap around to its base"
            for region in self.regions
            if not region.known
        )

    def _on(self, region: Region) -> str:
        return f" on chip {region.chip}" if len(self.chips) > 1 else ""

    def rows(self, timing: DramTiming) -> list[dict[str, Any]]:
        """One row per region: tensor, operators, base, bytes, layout, and over how many channels
        its requests go, with the largest share of one of them; of a program on several chips, also
        its chip."""
        words = dram_words(timing.spec)
        found = []
        for region in self.regions:
            counts = _channel_counts(words, timing, region)
            found.append(
                {
                    "tensor": region.tensor,
                    **({"chip": region.chip} if len(self.chips) > 1 else {}),
                    "operators": list(region.operators),
                    "base": region.base, "bytes": region.size, "layout": region.layout,
                    "channels": len(counts), "of": timing.spec.channels,
                    "most_loaded": max(counts.values()) / sum(counts.values()),
                }
            )  # fmt: skip
        return found


def _channel_counts(words: Any, timing: DramTiming, region: Region) -> dict[int, int]:
    """Accesses of the DRAM by channel, of a region or an even sample of its requests."""
    size = timing.front.request_bytes
    requests = max(1, -(-region.size // size))
    counts: dict[int, int] = {}
    for i in range(min(requests, _SAMPLES)):
        # Consecutive requests first, whose channels differ most: one stretch from the base on.
        first = region.base // size * size + i * size
        for part in range(timing.front.parts):
            channel = int(locate(words, first + part * timing.spec.access_bytes))
            counts[channel] = counts.get(channel, 0) + 1
    return counts


def checked_places(places: object) -> dict[str, Place]:
    """The placement of tensors by the user: their base, their layout, or a mapping with both.

    Raises
    ------
    ArgError
        It is not such a mapping, a base is not an int from 0, or a layout does not exist.
    """
    if not isinstance(places, Mapping):
        raise ArgError(
            "addresses must be a mapping from names of tensors or operators to a base, a layout or "
            f"both, such as {{'weights': {{'base': 0, 'layout': 'tiled'}}}}, found {shown(places)}"
        )
    return {_name(name): _place(name, value) for name, value in places.items()}


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise ArgError(f"addresses: a key is the name of a tensor or operator, found {shown(name)}")
    return name


def _place(name: str, value: object) -> Place:
    where = f"addresses[{name!r}]"
    if isinstance(value, str):
        value = {"layout": value}
    elif isinstance(value, int) and not isinstance(value, bool):
        value = {"base": value}
    if isinstance(value, Place):
        value = value._asdict()
    if not isinstance(value, Mapping):
        raise ArgError(f"{where}: expected a base, a layout or both, found {shown(value)}")
    unknown = [key for key in value if key not in Place._fields]
    if unknown:
        raise ArgError(f"{where}: unknown key {shown(unknown[0])}; known are base and layout")
    base, layout = value.get("base"), value.get("layout")
    if base is not None and not (type(base) is int and 0 <= base < 1 << _MARK):
        raise ArgError(f"{where}: base must be an int from 0, in bytes, found {shown(base)}")
    if layout is not None and layout not in LAYOUTS:
        near = did_you_mean(layout, LAYOUTS) if isinstance(layout, str) else ""
        raise ArgError(
            f"{where}: layout must be one of {', '.join(LAYOUTS)}, found {shown(layout)}{near}"
        )
    return Place(base, layout)


@frozen
class _User:
    """A memory port before its tensor has a place.

    Attributes
    ----------
    tensor : key of the tensor it moves. tile_rows, row_bytes : of a tile.
    columns : tiles in a row of the tensor. tiles : of the tensor, None if not known.
    count : tiles that are moved in total, None if not known.
    pitch : bytes from a row of the tensor to the next.
    block : rows and columns of a block of tiles with consecutive numbers.
    """

    unit: WiredUnit
    tensor: str
    tile_rows: int
    row_bytes: int
    columns: int
    tiles: int | None
    count: int | None
    pitch: int
    block: tuple[int, int] = (1, 1)

    @property
    def tile_bytes(self) -> int:
        return self.tile_rows * self.row_bytes


def address_map(
    wiring: Wiring, machine: Machine, timing: DramTiming, places: Mapping[str, Place] | None = None
) -> AddressMap:
    """Place all tensors of a program.

    Raises
    ------
    ArgError
        ``places`` has a name that is neither a tensor nor a memory operator of the program.
    LoweringError
        A tensor does not fit the DRAM, or two tensors overlap.
    """
    where = f"program '{wiring.program.name}', addresses"
    rules, given = _rules(machine), named_now(where, wiring, "operator", places or {})
    users = [user for unit in wiring.units if (user := _user(unit)) is not None]
    _check_names(wiring, users, given)
    spec = timing.spec
    capacity = (
        spec.channels * spec.pseudo_channels * spec.bank_groups * spec.banks * spec.rows
        * spec.columns * spec.access_bytes
    )  # fmt: skip
    layouts = {user.unit.name: (_of(given, user).layout or rules.layout) for user in users}
    regions: list[Region] = []
    accesses = {}
    chips = tuple(sorted({user.unit.chip for user in users})) or (0,)
    for chip in chips:
        groups: dict[str, list[_User]] = {}
        for user in users:
            if user.unit.chip == chip:
                own = layouts[user.unit.name] == "stream"
                groups.setdefault(user.unit.name if own else user.tensor, []).append(user)
        placed = _placed(wiring, machine, groups, layouts, given, capacity)
        for mark, (key, members) in enumerate(groups.items()):
            region = replace(placed[key], chip=chip)
            regions.append(region)
            for user in members:
                access = _access(user, region, machine)
                aliased = rules.bases == "zero"
                accesses[user.unit.name] = access._replace(mark=mark << _MARK if aliased else 0)
    return AddressMap(tuple(regions), accesses, capacity, chips)


def _rules(machine: Machine) -> Addresses:
    return machine.hbm.addresses or Addresses()


def _of(given: Mapping[str, Place], user: _User) -> Place:
    """The placement given for a tensor, or for one of its operators, which takes precedence."""
    tensor, own = given.get(user.tensor, Place()), given.get(user.unit.name, Place())
    return Place(tensor.base if own.base is None else own.base, own.layout or tensor.layout)


def _check_names(wiring: Wiring, users: list[_User], given: Mapping[str, Place]) -> None:
    known = {name for user in users for name in (user.tensor, user.unit.name)}
    for name in given:
        if name not in known:
            raise ArgError(
                f"program '{wiring.program.name}', addresses: there is no tensor or memory "
                f"operator '{name}'{did_you_mean(name, sorted(known))} Known: "
                f"{', '.join(sorted(known))}"
            )


def _user(unit: WiredUnit) -> _User | None:
    operator = unit.operator
    if isinstance(operator, LinearLoad | RandomLoad | RandomStore):
        if "par" not in unit.params:
            return None  # a load that bypasses the memory
        return _of_tensor(unit, operator)
    if isinstance(operator, LinearStore):
        return _of_store(unit, operator)
    return None


def _tensor_key(unit: WiredUnit, tensor: TensorSpec) -> str:
    return tensor.name or unit.name


def _bytes(elements: int, bits: int) -> int:
    return -(-elements * bits // 8)


def _of_tensor(unit: WiredUnit, operator: LinearLoad | RandomLoad | RandomStore) -> _User:
    tensor, tile = operator.tensor, operator.tile
    rows, cols = int(tile.rows), int(tile.cols)
    width = tensor.shape[-1]
    tiles = prod(tensor.shape[:-2]) * (tensor.shape[-2] // rows) * (width // cols)
    count = operator.outputs[0].cardinality()
    return _User(
        unit, _tensor_key(unit, tensor), rows, _bytes(cols, tensor.dtype.bits), width // cols,
        tiles, count if isinstance(count, int) else None, _bytes(width, tensor.dtype.bits),
        (1, 1) if isinstance(operator, LinearLoad) else operator.block,
    )  # fmt: skip


def _of_store(unit: WiredUnit, operator: LinearStore) -> _User:
    stream = operator.inputs[0]
    tile = stream.type
    assert isinstance(tile, Tile)
    row_bytes = _bytes(int(tile.cols), tile.dtype.bits)
    count = stream.cardinality()
    shape, block = stream.shape, (1, 1)
    if operator.blocks:
        shape, block = shape[:-2], (int(shape[-2]), int(shape[-1]))
    inner = shape[-1] if len(shape) > 1 else None
    side = (int(inner) if inner is not None and inner.is_static else 1) * block[1]
    number = count if isinstance(count, int) else None
    return _User(
        unit, operator.tensor_name or unit.name, int(tile.rows), row_bytes, side, number, number,
        side * row_bytes, block,
    )  # fmt: skip


def _stream_tile(user: _User, machine: Machine) -> int:
    """Bytes of a tile with the padding of its entries."""
    rules = _rules(machine)
    entries = -(-user.tile_bytes // rules.entry_bytes)
    return user.tile_bytes + entries * rules.entry_padding_bytes


def _size(user: _User, layout: str, machine: Machine) -> int | None:
    """Bytes of the region of a port, None if not known."""
    if layout == "stream":
        return None if user.count is None else user.count * _stream_tile(user, machine)
    if user.tiles is None:
        return None
    if layout == "tiled":
        return user.tiles * user.tile_bytes
    return user.tiles // user.columns * user.tile_rows * user.pitch


def _placed(
    wiring: Wiring, machine: Machine, groups: Mapping[str, list[_User]],
    layouts: Mapping[str, str], given: Mapping[str, Place], capacity: int,
) -> dict[str, Region]:  # fmt: skip
    """The region of every group."""
    rules, where = _rules(machine), f"program '{wiring.program.name}'"
    regions: dict[str, Region] = {}
    for key, members in groups.items():
        chosen = {layouts[user.unit.name] for user in members}
        if len(chosen) > 1:
            raise LoweringError(
                f"{where}: tensor '{key}' would lie {' and '.join(sorted(chosen))} for different "
                "operators; give it one layout"
            )
        (layout,) = chosen
        sizes = [_size(user, layout, machine) for user in members]
        known = all(size is not None for size in sizes)
        size = max((size for size in sizes if size is not None), default=0)
        names = tuple(user.unit.name for user in members)
        bases = {base for user in members if (base := _of(given, user).base) is not None}
        if len(bases) > 1:
            raise LoweringError(
                f"{where}: tensor '{key}' would lie at {' and '.join(map(str, sorted(bases)))}; "
                "give it one base"
            )
        regions[key] = Region(key, names, bases.pop() if bases else -1, size, layout, known)
    align = rules.alignment if rules.bases == "packed" else 1
    regions = _with_bases(regions, rules.bases, align)
    regions = _with_rest(regions, groups, rules.bases, align, capacity)
    for region in regions.values():
        if region.base + region.size > capacity or region.size == 0:
            raise LoweringError(
                f"{where}: tensor '{region.tensor}' of {region.size:,} bytes from {region.base:,} "
                f"on does not fit the DRAM of machine '{machine.name}', which has {capacity:,} "
                "bytes; use a machine with more, or place it with addresses="
            )
    if rules.bases != "zero":
        _refuse_overlaps(where, list(regions.values()))
    return regions


def _with_bases(regions: dict[str, Region], rule: str | int, align: int) -> dict[str, Region]:
    """Bases of all regions whose size is known and whose base is not."""
    taken = sorted((r.base, r.base + r.size) for r in regions.values() if r.base >= 0)
    placed, end = {}, 0
    for number, (key, region) in enumerate(regions.items()):
        base = region.base
        if base < 0 and rule == "zero":
            base = 0
        elif base < 0 and rule == "packed" and region.known:
            for first, behind in taken:  # after those that were placed by hand
                if first < end + region.size and end < behind:
                    end = _aligned(behind, align)
            base, end = end, _aligned(end + region.size, align)
        elif base < 0 and isinstance(rule, int):
            base = number * rule
        placed[key] = replace(region, base=base)
    return placed


def _with_rest(
    regions: dict[str, Region], groups: Mapping[str, list[_User]], rule: str | int, align: int,
    capacity: int,
) -> dict[str, Region]:  # fmt: skip
    """Regions whose size is known only at run time: equal shares of the space after all others."""
    unknown = [key for key, region in regions.items() if not region.known]
    if not unknown:
        return regions
    end = max((r.base + r.size for r in regions.values() if r.known and r.base >= 0), default=0)
    if rule == "zero":
        share, end = capacity, 0
    elif isinstance(rule, int):
        share = rule
    else:
        end = _aligned(end, align)
        share = (capacity - end) // len(unknown) // align * align
    for key in unknown:
        region = regions[key]
        base = region.base if region.base >= 0 else end
        if region.base < 0 and rule == "packed":
            end += share
        tile = max(user.tile_bytes for user in groups[key])
        size = max(0, min(share, capacity - base) // tile * tile)
        regions[key] = replace(region, base=base, size=max(region.size, size))
    return regions


def _aligned(address: int, align: int) -> int:
    return -(-address // align) * align


def _refuse_overlaps(where: str, regions: list[Region]) -> None:
    ordered = sorted(regions, key=lambda region: region.base)
    for before, after in pairwise(ordered):
        if after.base < before.base + before.size:
            raise LoweringError(
                f"{where}: tensor '{after.tensor}' from {after.base:,} on overlaps '"
                f"{before.tensor}', which lies from {before.base:,} to "
                f"{before.base + before.size:,}; move one of them, or leave hbm.addresses.bases "
                "'packed'"
            )


def _access(user: _User, region: Region, machine: Machine) -> PortAccess:
    """The accesses of the port of a user in its region."""
    operator = user.unit.operator
    write = isinstance(operator, LinearStore | RandomStore)
    random = isinstance(operator, RandomLoad | RandomStore)
    if region.layout == "row_major":
        shape = PortAccess(region.base, user.tile_rows, user.columns, user.pitch, user.row_bytes)
        extent = region.size // (user.tile_rows * user.pitch) * user.columns
    else:
        stream = region.layout == "stream"
        size = _stream_tile(user, machine) if stream else user.tile_bytes
        shape = PortAccess(region.base, 1, 1, size, size, stream=stream)
        extent = region.size // size
    shape = shape._replace(write=write, random=random, extent=max(1, extent))
    if region.layout == "row_major" and user.block != (1, 1):
        shape = _by_blocks(shape, *user.block)
    if not isinstance(operator, LinearLoad):
        return shape
    view, ahead = tuple(operator.shape), 0
    if not operator.inputs:
        ahead = (machine.hbm.port or Port()).read_ahead
    if region.layout != "stream":
        shape = shape._replace(dims=view, strides=tuple(operator.stride))
    return shape._replace(ahead=ahead, total=prod(view))


def _by_blocks(access: PortAccess, rows: int, cols: int) -> PortAccess:
    """The access for tiles that are numbered block by block and lie row by row in the tensor."""
    across = access.columns
    down = max(1, access.extent // (across * rows))
    return access._replace(
        dims=(down, across // cols, rows, cols), strides=(rows * across, cols, across, 1)
    )
