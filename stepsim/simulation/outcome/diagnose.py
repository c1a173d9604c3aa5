"""Find out why a run did not succeed, from the state the engine left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from stepsim.graph import Function
from stepsim.kernels import INFINITY, Status
from stepsim.lowering import CARRIERS, Image
from stepsim.results import Diagnosis, Failure, Wait
from stepsim.simulation.outcome.abort_reasons import abort_reason
from stepsim.simulation.outcome.open_waits import awaited_inputs


class _State:
    """The engine's records, read by name."""

    def __init__(self, image: Image, execution: Any, source: Callable[[int], str]) -> None:
        self.image = image
        self.units = execution.units
        self.channels = execution.channels
        self.params = execution.params
        self.source = source

    def wait(self, unit: int, channel: int, reason: str) -> tuple[int, Wait]:
        record = self.channels[channel]
        peer = int(record["producer"] if reason == "token" else record["consumer"])
        depth = int(record["cap"])
        return peer, Wait(
            unit=self.image.unit_names[unit],
            operator=self.image.unit_ops[unit],
            peer=self.image.unit_names[peer],
            fifo=self.image.channel_names[channel],
            reason=reason,
            held=int(record["sent"] - record["removed"]),
            depth=None if depth >= INFINITY else depth,
            source=self.source(unit),
        )

    def waits(self, unit: int) -> Iterator[tuple[int, Wait]]:
        """The units that a blocked unit waits for; a merge without tokens waits for all open
        inputs."""
        record = self.units[unit]
        if record["state"] == Status.WAIT_OUTPUT:
            yield self.wait(unit, int(record["wait_channel"]), "slot")
        elif record["state"] == Status.WAIT_INPUT:
            for channel in awaited_inputs(record, self.channels, self.params):
                yield self.wait(unit, channel, "token")


def _circular_wait(edges: dict[int, list[tuple[int, Wait]]]) -> list[Wait]:
    """Waits that form a cycle, in order, by depth-first search; empty when there is none."""
    done: set[int] = set()
    for root in edges:
        if root in done:
            continue
        path: list[tuple[int, Wait]] = []
        on_path = {root: 0}
        stack = [iter(edges[root])]
        nodes = [root]
        while stack:
            step = next(stack[-1], None)
            if step is None:
                done.add(nodes.pop())
                stack.pop()
                on_path = {node: i for i, node in enumerate(nodes)}
                if path:
                    path.pop()
                continue
            peer, _ = step
            if peer in on_path:
                return [wait for _, wait in [*path, step][on_path[peer] :]]
            if peer in done or peer not in edges:
                continue
            path.append(step)
            nodes.append(peer)
            on_path[peer] = len(nodes) - 1
            stack.append(iter(edges[peer]))
    return []


def diagnose(
    image: Image,
    execution: Any,
    status: str,
    limit: str,
    source: Callable[[int], str],
    function: Callable[[int], Function | None],
) -> Diagnosis:
    """Find which units wait for which, and what failed.

    ``limit`` names the limit that ended the run; ``source`` gives the user's line for a unit
    number, ``function`` its function of tiles.
    """
    state = _State(image, execution, source)
    count, states = len(image.unit_names), execution.units["state"]
    failures = [
        Failure(
            unit=image.unit_names[u],
            operator=image.unit_ops[u],
            cycle=int(state.units[u]["clk"]),
            reason=abort_reason(
                int(state.units[u]["error"]),
                int(state.units[u]["detail0"]),
                int(state.units[u]["detail1"]),
                image.channel_names,
                function(u),
            ),
            source=source(u),
        )
        for u in np.flatnonzero(states == Status.FAILED).tolist()
    ]
    failures.sort(key=lambda failure: failure.cycle)
    if status == "limit":
        ended = np.count_nonzero((states == Status.DONE) | (states == Status.FAILED))
        summary = f"stopped by the limit {limit}: {ended} of {count} units have ended"
        return Diagnosis(status, summary, failures, [], [], [])
    blocked = (states == Status.WAIT_INPUT) | (states == Status.WAIT_OUTPUT)
    edges = {u: list(state.waits(u)) for u in np.flatnonzero(blocked).tolist()}
    edges = {u: waits for u, waits in edges.items() if waits}
    waits = [found[0][1] for found in edges.values()]
    cycle = _circular_wait(edges)
    if failures:
        summary = f"{len(failures)} of {count} units failed, {len(waits)} are blocked"
    else:
        summary = f"deadlock: {len(waits)} of {count} units are blocked and nothing can run"
    # Depths are of the FIFOs of the program: those of what is under way are the network's.
    ops = dict(zip(image.unit_names, image.unit_ops, strict=True))
    slots = [wait for wait in cycle if wait.reason == "slot" and ops[wait.peer] not in CARRIERS]
    full = list(dict.fromkeys(wait.fifo for wait in slots))
    return Diagnosis(status, summary, failures, cycle, waits, full)
