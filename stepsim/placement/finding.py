"""``st.place``: a placement of a program on the network of a machine, found by a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepsim.arguments import Range, scalar
from stepsim.errors import ArgError
from stepsim.graph import Program
from stepsim.machine import Machine, Network, load_machine
from stepsim.noc import Placement, Topology, Whole, memory_places, worker_places
from stepsim.placement.flows import Flows, flows_of
from stepsim.placement.found import FoundPlacement, places_of
from stepsim.placement.regions import regions_of
from stepsim.placement.search import row_major, searched
from stepsim.placement.spans import by_nearest, checked_tiles, searched_in_turn, spread
from stepsim.simulation import Prepared, prepare

_SEED: Final = Range((1 << 63) - 1, "a seed", low=0)
_MOST_EFFORT: Final = 1000.0


def place(
    program: Program,
    machine: Machine | str,
    *,
    bindings: Mapping[Any, Any] | None = None,
    per_tile: int = 1,
    seed: int = 0,
    effort: float = 1.0,
    regions: Mapping[str, int] | None = None,
    tiles: Mapping[str, int] | None = None,
) -> FoundPlacement:
    """Find places of operators and memory ports with little traffic on the busiest link.

    The program is simulated once, without a placement, for the bytes of its streams. The search
    minimizes the bytes over the busiest link, then bytes times hops; it is never worse than the
    row-major placement. Simulated annealing starts from that one, from one constructed by the
    streams, and from random ones.

    Parameters
    ----------
    program : closed ``with`` block of operators.
    machine : one with a network (``noc``), or the name or file of one.
    bindings : index arrays ``[rows, k]`` by routing, as for ``st.simulate``.
    per_tile : operators that a tile may hold.
    seed : of the search; the same seed finds the same placement.
    effort : number of moves as a multiple of the usual one, above 0 to 1000. That is, from each of
        eight starts, 2,000 for every operator and memory port, but 200,000 at least and 1,000,000
        at most. The time grows in proportion to the moves, and that of a move with the links of the
        network and the streams of what it moves; memory does not grow with the effort.
    regions : numbers of regions from 0 by the name of an operator, which must be in it: the columns
        of the network are cut into as many strips as there are regions. Others may be anywhere.
    tiles : numbers of tiles by the name of an operator that is on several; its streams take the
        nearest of them, and it computes as fast as on one. Not together with ``per_tile``. The
        search is then made up to eight times, and followed by 2,000 exchanges of tiles, times
        ``effort``.

    Raises
    ------
    ArgError : the machine has no network, the program is larger than the network or does not end,
        or an argument is out of range.
    MachineError : no such machine.

    Example
    -------
    >>> with st.Program("silu", compute_bw=64) as program:
    ...     x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
    ...     st.linear_store(x.map(st.fn.silu), "out")
    >>> machine = st.load_machine("sda-1024", {"noc": "mesh"})
    >>> found = st.place(program, machine)
    >>> found.metrics()["busiest_link_bytes"]
    8192
    """
    prepared = prepare(program, machine=check_machine(machine))
    return placed(
        prepared, bindings,
        per_tile=per_tile, seed=seed, effort=effort, regions=regions, tiles=tiles,
    )  # fmt: skip


def placed(
    prepared: Prepared,
    bindings: Mapping[Any, Any] | None = None,
    *,
    per_tile: int = 1,
    seed: int = 0,
    effort: float = 1.0,
    flows: Flows | None = None,
    regions: Mapping[str, int] | None = None,
    region_count: int | None = None,
    tiles: Mapping[str, int] | None = None,
) -> FoundPlacement:
    """As `place`, for a program that is laid out for its machine, whose ``flows`` may be known.

    ``region_count`` says how many regions there are, if not all need have an operator.
    """
    seed = checked_seed("place: seed", seed)
    effort = checked_effort("place: effort", effort)
    network = check_machine(prepared.machine).noc
    assert network is not None
    program = prepared.program
    before = Placement.row_major(program, network, per_tile)
    spans = checked_tiles(program.name, tiles, before.tiles, before.per_tile)
    _check_tiles(program, spans, network)
    bound = regions_of(prepared, network, regions, region_count, per_tile, spans)
    flows = spread(flows or flows_of(prepared, bindings), spans)
    topology, workers = Topology(network), worker_places(network)
    if regions is not None or flows.part:
        by_rows = row_major(flows, topology, workers, per_tile, bound)
        ports = [before.ports[name] for name in flows.ports]
        before = _placement(program, before, flows, [*by_rows.tolist(), *ports])
    first = places_of(before, flows)
    memory = memory_places(network)

    def search(flows: Flows, first: Whole) -> Whole:
        return searched(
            flows, topology, workers, memory, first,
            per_tile=per_tile, seed=seed, effort=effort, regions=bound,
        )  # fmt: skip

    if flows.part:
        places = searched_in_turn(flows, topology, workers, first, bound, search, effort)
        flows = by_nearest(flows, topology, places)
    else:
        places = search(flows, first)
    after = _placement(program, before, flows, places.tolist())
    return FoundPlacement(after, before, flows, seed, effort)


def checked_seed(what: str, seed: Any) -> int:
    """A seed of a search; ArgError for anything else."""
    return _SEED.checked(what, seed)


def checked_effort(what: str, effort: Any) -> float:
    """The length of a search as a multiple of the usual one; ArgError for anything else."""
    number = scalar(what, effort)
    if not 0 < number <= _MOST_EFFORT:
        raise ArgError(f"{what} must be above 0 to {_MOST_EFFORT:g}, found {number:g}")
    return number


def _check_tiles(program: Program, spans: Mapping[str, int], network: Network) -> None:
    """Refuse more tiles of operators than there are; `per_tile` is no way out."""
    needed, tiles = sum(spans.values()), len(worker_places(network))
    if max(spans.values(), default=1) > 1 and needed > tiles:
        raise ArgError(
            f"place: program '{program.name}' is larger than the machine: it has {len(spans)} "
            f"operators on {needed} tiles, and network '{network.name}' {tiles} tiles; use a "
            "larger network or fewer tiles"
        )


def _placement(program: Program, like: Placement, flows: Flows, places: list[int]) -> Placement:
    count = len(flows.operators)
    operators: dict[str, list[tuple[int, int]]] = {}
    for name, place in zip(flows.operators, places[:count], strict=True):
        operators.setdefault(name, []).append(divmod(place, like.network.cols))
    ports = dict(zip(flows.ports, places[count:], strict=True))
    return Placement(program, like.network, operators, ports, per_tile=like.per_tile)


def check_machine(machine: Machine | str) -> Machine:
    """The machine, which must have a network."""
    found = load_machine(machine)
    if found.noc is None:
        raise ArgError(
            f"place: machine '{found.name}' has no network on chip; state its section noc, as in "
            "load_machine(machine, {'noc': 'mesh'}) or --set noc=mesh"
        )
    return found
