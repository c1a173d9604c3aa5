"""The reference interpreter: every unit a coroutine, the memory node one cycle at a time.

Slow on purpose. It runs each unit as far as it can go, in an arbitrary (permutable) order. When
nothing can run, the earliest of {decision of a waiting EagerMerge, next cycle of the memory node}
happens. A decision at pace ``t`` comes before memory cycle ``t + 1`` and after cycle ``t``.

Rules for what the timing model leaves open
-------------------------------------------
* A consumer that has returned frees no more slots. A producer aborts when it needs a slot that will
  never be free; tokens that still fit are sent. (The alternative, aborting at the first EMIT after
  the return, would depend on the host order.)
* A Reassemble whose selected input has ended aborts without moving its clocks.
* The closure slack ``k`` also applies to what an EagerMerge sees as closed (pace ``H + 1 - k``).
* Decisions at equal pace are taken one at a time, lowest unit first, running in between.
* ``memory_node_end`` is F + 3 over the memory operators that returned normally, else 0.
* Overall status: "failed" if a unit failed, else "deadlock" if a unit is blocked, else "ok".

Accounts
--------
Each advance of a unit's clock is charged once; the sum is ``max(cycles, final clock)``:

* ``busy``: add(n), the jumps of At and Paced, the up of Reassemble to arrival + switch + load;
* ``memory``: Access, from issue to last response;
* ``wait_out[channel]``: waiting for a slot (EMIT, RESERVE);
* ``wait_in[channel]``: waits of HEAD and TAKE, the up of Reassemble to the latest publication
  (input with the largest pub, lowest index on ties), the up of EagerMerge (chosen input), and the
  advance at a CLOSED after which the unit goes on;
* ``before``: the same waits, up to and including the one that completes the inputs of the first
  firing. That is: until every input has delivered its first token to a HEAD or TAKE; for EagerMerge
  and the two Reassembles: until the first TAKE of a data token. (A wait that only then finds CLOSED
  and lets the unit go on is also ``before``.)
* ``after``: advances at CLOSED not followed by any other primitive than CLOSED returns before the
  unit returns (add, EMIT, RESERVE, a delivered HEAD or TAKE, even if free of cost, count as
  "followed"), and the time from the final clock to the end of the run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stepsim.lowering.network import Network
from tests.oracle.carriers import CARRIERS, Crossing, Mesh
from tests.oracle.dram_node import DramNode
from tests.oracle.fabric import Abort, Account, Channel, Predicate, Steps, Token, TooLong, Unit
from tests.oracle.memory import MEMORY, READERS, WRITERS, ChipMemories, MemoryNode
from tests.oracle.units_2026 import SINCE_2026
from tests.oracle.units_affine import AFFINE
from tests.oracle.units_basic import BASIC
from tests.oracle.units_route import ROUTE, decision, decision_pace
from tests.oracle.units_scan import SCAN
from tests.oracle.units_shape import SHAPE

__all__ = ["OPS", "Body", "OracleResult", "TooLong", "UnitStatus", "interpret"]

Body = Callable[[Unit], Steps]

OPS: dict[str, Body] = {
    **BASIC, **SHAPE, **ROUTE, **AFFINE, **MEMORY, **SINCE_2026, **SCAN,
}  # fmt: skip


@dataclass(frozen=True)
class UnitStatus:
    """How a unit ended: "done", "failed" (with the reason) or "blocked"."""

    state: str
    message: str = ""


@dataclass(frozen=True)
class OracleResult:
    """Everything observable about a run; see the module docstring for the accounts.

    ``tokens[channel]`` are (stamp, level, payload, pub); ``taken[channel]`` are the consumer clocks
    at the TAKEs.
    """

    cycles: int
    memory_node_end: int
    final_clock: dict[str, int]
    final_pace: dict[str, int]
    tokens: dict[str, list[Token]]
    removed: dict[str, int]
    unit_status: dict[str, UnitStatus]
    status: str
    accounts: dict[str, Account]
    taken: dict[str, list[int]]


def _build(
    network: Network, mesh: Mesh | Crossing | None
) -> tuple[list[Unit], list[Channel], MemoryNode | DramNode | ChipMemories]:
    channels = [Channel(spec.name, spec.capacity) for spec in network.channels]
    dram = network.timing.dram
    node: MemoryNode | DramNode | ChipMemories
    node = MemoryNode(network.timing) if dram is None else DramNode(dram)
    if network.between is not None:
        node = ChipMemories(network.timing, network.between.chips)
    units = []
    for number, spec in enumerate(network.units):
        unit = Unit(
            spec.name,
            spec.op,
            [channels[i] for i in spec.inputs],
            [channels[i] for i in spec.outputs],
            dict(spec.params),
            network.timing,
        )
        if spec.op in ("EagerMerge", "Reassemble", "StaticReassemble"):
            unit.awaited = {"first data token"}
        else:
            unit.awaited = {channel.name for channel in unit.ins}
        if spec.op in READERS | WRITERS:
            own = node
            if isinstance(node, ChipMemories):
                assert network.between is not None
                own = node.nodes[network.between.units[number]]
            if isinstance(own, DramNode):
                unit.port = own.attach(network.accesses[spec.name], spec.params["par"])
            else:
                assert isinstance(own, MemoryNode)
                unit.port = own.attach(spec.op)
        if spec.op in CARRIERS:
            unit.carries = mesh
        units.append(unit)
        for channel in unit.ins:
            channel.consumer = unit
    return units, channels, node


class _Coroutine:
    """A unit body and the predicate it waits for."""

    def __init__(self, unit: Unit, body: Body) -> None:
        self.unit = unit
        self.body = body(unit)
        self.ready: Predicate = lambda: True

    def run(self) -> None:
        """Run until the body waits for something that is not there, returns or aborts."""
        try:
            while self.ready():
                self.ready = next(self.body)
        except StopIteration:
            self.unit.finish("done")
        except Abort as error:
            self.unit.finish("failed", str(error))


def _run_all(coroutines: list[_Coroutine], order: random.Random | None, limit: int) -> None:
    """Run every unit as far as it can go, over and over, until nothing moves."""
    moved = True
    for _ in range(limit):
        if not moved:
            return
        moved = False
        if order is not None:
            order.shuffle(coroutines)
        for coroutine in coroutines:
            if coroutine.unit.status == "running" and coroutine.ready():
                coroutine.run()
                moved = True
    raise RuntimeError(f"no end after {limit} rounds over all units: tokens go round for ever")


def interpret(
    network: Network,
    *,
    host_order_seed: int | None = None,
    max_rounds: int = 100_000,
    bodies: Mapping[str, Body] | None = None,
) -> OracleResult:
    """Simulate a network; ``host_order_seed`` permutes the order in which units are run.

    ``max_rounds`` bounds the number of memory cycles and decisions, and of rounds over the units
    between two of them (RuntimeError beyond).
    ``bodies`` replaces the behaviour of whole operator kinds, for scripted scenarios.
    """
    mesh: Mesh | Crossing | None = None
    if network.carriage is not None:
        mesh = Mesh(network.carriage)
    if network.between is not None:
        mesh = Crossing(network.between)
    units, channels, node = _build(network, mesh)
    known = {**OPS, **CARRIERS, **(bodies or {})}
    coroutines = [_Coroutine(unit, known[unit.op]) for unit in units]
    order = None if host_order_seed is None else random.Random(host_order_seed)
    for _ in range(max_rounds):
        _run_all(coroutines, order, max_rounds)
        # Of one pace, those that are parked come first, then the network, then decisions.
        waiting = [
            (pace, True, index)
            for index, unit in enumerate(units)
            if unit.deciding and (pace := decision_pace(unit)) is not None
        ]
        waiting += [
            (unit.parked_until, False, index)
            for index, unit in enumerate(units)
            if unit.parked_until is not None
        ]
        pace, decides, index = min(waiting, default=(None, True, 0))
        # What a unit that decides at pace t sends is created after t, but what one that was parked
        # sends may be created at t. A memory cycle t ends no access by t.
        crossing = None if mesh is None else mesh.next_time
        if (
            mesh is not None
            and crossing is not None
            and (pace is None or crossing < pace + decides)
            and (not node.pending or crossing <= node.clk)
        ):
            mesh.event()
            continue
        if pace is not None and (pace < node.clk or not node.pending):
            merge = units[index]
            if merge.parked_until is not None:
                merge.released = True
                continue
            merge.chosen = decision(merge, pace)
            merge.up_input(pace, merge.ins[merge.chosen])
        elif node.pending:
            node.cycle()
        else:
            break
    else:
        raise TooLong(f"no end after {max_rounds} memory cycles and merge decisions")
    return _collect(units, channels)


def _collect(units: list[Unit], channels: list[Channel]) -> OracleResult:
    for unit in units:
        if unit.status == "running":
            unit.leave_blocked()
    done = [unit for unit in units if unit.status == "done"]
    memory_ends = [unit.clk for unit in done if unit.port is not None]
    memory_node_end = max(memory_ends) + 3 if memory_ends else 0
    cycles = max([memory_node_end] + [unit.clk for unit in done])
    for unit in units:
        unit.account.after += max(cycles, unit.clk) - unit.clk
    states = {unit.status for unit in units}
    unfinished = "deadlock" if "blocked" in states else "ok"
    status = "failed" if "failed" in states else unfinished
    return OracleResult(
        cycles=cycles,
        memory_node_end=memory_node_end,
        final_clock={unit.name: unit.clk for unit in units},
        final_pace={unit.name: unit.h for unit in units},
        tokens={channel.name: channel.tokens for channel in channels},
        removed={channel.name: channel.removed for channel in channels},
        unit_status={unit.name: UnitStatus(unit.status, unit.message) for unit in units},
        status=status,
        accounts={unit.name: unit.account for unit in units},
        taken={channel.name: channel.taken for channel in channels},
    )
