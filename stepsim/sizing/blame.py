"""Which FIFOs a run with bounded depths is late, or stuck, for."""

from __future__ import annotations

from typing import NamedTuple

from stepsim.sizing.network import NetworkRun

__all__ = ["blamed"]


class _Cause(NamedTuple):
    """Why a step was no earlier: another take or completion, and the full FIFO if it was one."""

    kernel: int
    step: int
    is_take: bool
    fifo: int | None = None


def blamed(run: NetworkRun) -> frozenset[int]:
    """FIFOs of which one at least must be deeper for an earlier end, or for an end at all.

    The full FIFOs on the critical path to the last completion, or of one circular wait.
    With the same depths of all of them the same path or wait is there, whatever the others
    are. Empty if no depth helps.
    """
    if run.deadlock:
        return _circular_wait(run)
    last = run.makespan
    kernel = next(v for v, done in enumerate(run.dones) if done[-1] == last)
    cause: _Cause | None = _Cause(kernel, len(run.dones[kernel]) - 1, is_take=False)
    found = set()
    while cause is not None:
        if cause.fifo is not None:
            found.add(cause.fifo)
        cause = _cause_of(run, cause)
    return frozenset(found)


def _cause_of(run: NetworkRun, event: _Cause) -> _Cause | None:
    """What an event waited for last; a full FIFO only if nothing else was as late."""
    kernel, at, slack = event.kernel, _time(run, event), _lags(run, event)
    causes = [
        (other.fifo is not None, other) for other, lag in slack if _time(run, other) + lag == at
    ]
    if event.is_take and at == 0:
        return None
    assert causes, f"a step of kernel {kernel} has no cause"
    return min(causes, key=lambda pair: pair[0])[1]


def _time(run: NetworkRun, event: _Cause) -> int:
    return (run.takes if event.is_take else run.dones)[event.kernel][event.step]


def _lags(run: NetworkRun, event: _Cause) -> list[tuple[_Cause, int]]:
    """Everything that an event waits for, and for how long after it."""
    v, s = event.kernel, event.step
    kernel, network = run.network.kernels[v], run.network
    found: list[tuple[_Cause, int]] = []
    if s:
        found.append((_Cause(v, s - 1, event.is_take), kernel.interval))
    if event.is_take:
        flight = max(1, -(-kernel.latency // kernel.interval))
        if s >= flight:
            found.append((_Cause(v, s - flight, is_take=False), 0))
        for e in network.inputs[v]:
            fifo = network.fifos[e]
            if s % fifo.in_period == 0:
                step = (s // fifo.in_period + 1) * fifo.out_period - 1
                found.append((_Cause(fifo.producer, step, is_take=False), network.hop))
        return found
    found.append((_Cause(v, s, is_take=True), kernel.latency))
    for e in network.outputs[v]:
        fifo, depth = network.fifos[e], run.depths[e]
        if depth is not None and (s + 1) % fifo.out_period == 0:
            before = (s + 1) // fifo.out_period - 1 - depth
            if before >= 0:
                step = before * fifo.in_period
                found.append((_Cause(fifo.consumer, step, is_take=True, fifo=e), 0))
    return found


def _circular_wait(run: NetworkRun) -> frozenset[int]:
    """Full FIFOs of one circular wait."""
    kernels = run.network.kernels
    stuck = next(v for v, done in enumerate(run.dones) if len(done) < kernels[v].steps)
    event = _Cause(stuck, len(run.dones[stuck]), is_take=False)
    seen: dict[tuple[int, int, bool], int] = {}
    path: list[_Cause] = []
    while event[:3] not in seen:
        seen[event[:3]] = len(path)
        path.append(event)
        event = next(other for other, _ in _lags(run, event) if not _is_known(run, other))
    path.append(event)
    wait = path[seen[event[:3]] + 1 :]
    return frozenset(cause.fifo for cause in wait if cause.fifo is not None)


def _is_known(run: NetworkRun, event: _Cause) -> bool:
    return event.step < len((run.takes if event.is_take else run.dones)[event.kernel])
