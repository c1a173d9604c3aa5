"""``python -m tests.equal_numbers.digest``: numbers of every engine, as digests by group.

They are compared with those of ``digests.json``: exit code 1, and the names of the groups, if any
differ. ``--write`` writes the file; do so when simulated times change on purpose. Names of groups
choose some of them. It needs what a run needs and no more, so that it runs beside the oldest
libraries that are supported.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import stepsim as st
from stepsim.explain import critical_path
from stepsim.kernels import execute
from stepsim.lowering import build_image
from stepsim.machine import load_machine
from stepsim.simulation import prepare
from stepsim.workloads import Attention, Data, Decoder, Moe
from tests.oracle.cases import load_case

__all__ = ["COMMON", "GROUPS", "STORED", "differing", "digest"]

STORED: Final = Path(__file__).with_name("digests.json")
_CASES: Final = Path(__file__).parents[1] / "data" / "random_cases"


def _cases() -> Iterator[object]:
    for path in sorted(_CASES.glob("*.json")):
        network = load_case(path).network
        done = execute(build_image(network))
        yield path.stem
        for name in ("clk", "h", "fires", "busy", "requests"):
            yield done.units[name].tolist()


def _data(experts: int, chosen: int, tokens: int) -> Data:
    """Routing and lengths from arithmetic alone: generators may differ between versions."""
    routing = [
        [(7 * i * i + k * (1 + i % 3)) % experts for k in range(chosen)] for i in range(tokens)
    ]
    lengths = [1 + (37 * i * i + 11 * i) % 900 for i in range(tokens)]
    return Data.of(routing=np.array(routing), kv_lengths=lengths)


def _workloads() -> Iterator[tuple[str, Any, Data]]:
    mixtral, qwen = _data(8, 2, 32), _data(128, 8, 16)
    for tile in (8, "dynamic"):
        layer = Moe.of(model="mixtral-8x7b", tile=tile, data=mixtral)
        yield f"moe {tile}", layer, mixtral
    yield "moe qwen", Moe.of(model="qwen3-30b-a3b", tile=8, regions=16, data=qwen), qwen
    for strategy in ("coarse", "interleaved", "dynamic"):
        made = Attention.of(model="qwen3-30b-a3b", strategy=strategy, data=qwen)
        yield f"attention {strategy}", made, qwen
    yield (
        "decoder",
        Decoder.of(model="mixtral-8x7b", tile="dynamic", strategy="dynamic", data=mixtral),
        mixtral,
    )


def _reported(result: Any) -> Iterator[object]:
    """All that a result says in whole numbers; names of operators and files are no numbers."""
    yield from (result.status, result.cycles, result.offchip_bytes, result.flops)
    yield from (result.memory_requests, result.onchip_peak_bytes, result.engine_steps)
    for table in (result.units, result.fifos):
        yield from _numbers(table)


def _numbers(table: Any) -> Iterator[object]:
    for name, column in zip(table.column_names, table.columns, strict=True):
        if str(column.type).startswith(("int", "bool")):
            yield name
            yield column.to_pylist()


def _runs(machines: Sequence[str], changes: Mapping[str, Any], record: bool) -> Iterator[object]:
    for name, workload, data in _workloads():
        built = workload.build(data)
        for machine in machines:
            ready = prepare(built.program, load_machine(machine, changes))
            result = ready.result(built.bindings(data), record=record)
            yield name
            yield from _reported(result)
            if record:
                path = critical_path(ready, bindings=built.bindings(data))
                yield from _numbers(path.segments)


def _small() -> st.Program:
    with st.Program("small", compute_bw=64) as program:
        x = st.linear_load(st.spec(64, 64, dtype="f32"), tile=(16, 16))
        st.linear_store(x.map(st.fn.exp), "out")
    return program


def _dram(record: bool) -> Iterator[object]:
    for machine in ("hdl-dram", "hdl-read-ahead", "hdl-arbiter", "u55c"):
        yield from _reported(st.simulate(_small(), machine, record=record))
        if record:
            yield from _numbers(critical_path(_small(), machine).segments)


def _requests() -> Iterator[object]:
    addresses = [64 * (17 * i * i % 4096) for i in range(2000)]
    for spec in ("hbm2-hdl", "hbm3", "ddr4-3200", "lpddr5"):
        run = st.dram.simulate(addresses, [i % 3 == 0 for i in range(2000)], spec=spec)
        yield from (spec, run.cycles)


def _noc() -> Iterator[object]:
    count = 300
    columns = {
        "time": [7 * i % 90 for i in range(count)],
        "source": [(5 * i * i + i) % 64 for i in range(count)],
        "destination": [(11 * i + 3) % 64 for i in range(count)],
        "bytes": [64 + 32 * (i % 40) for i in range(count)],
    }
    for network, model in (
        ("mesh", "link"), ("wormhole", "link"), ("blackhole", "flow"), ("wormhole", "npe"),
    ):  # fmt: skip
        yield network, model
        yield from st.noc.simulate(columns, network, model=model).arrival.tolist()


def _hardware() -> Iterator[object]:
    yield from _reported(st.hardware.simulate(_small()))


GROUPS: Final[dict[str, Callable[[], Iterator[object]]]] = {
    "cases": _cases,
    "runs": lambda: _runs(("sda-1024", "sda-hdl"), {}, False),
    "interleaved": lambda: _runs(("sda-1024",), {"hbm.model": "interleaved"}, False),
    "uncontended": lambda: _runs(("sda-1024",), {"hbm.model": "uncontended"}, False),
    "recorded": lambda: _runs(("sda-1024",), {}, True),
    "dram": lambda: _dram(False),
    "recorded-dram": lambda: _dram(True),
    "requests": _requests,
    "hardware": _hardware,
    "noc": _noc,
}
"""What is counted, by name."""

COMMON: Final = ["cases", "runs", "interleaved", "uncontended"]
"""Groups of the engine that most tests use; each of the others has one of its own."""


def digest(group: str) -> str:
    """SHA-256 of all numbers of a group."""
    found = hashlib.sha256()
    for part in GROUPS[group]():
        found.update(repr(_plain(part)).encode() + b"\n")
    return found.hexdigest()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def differing(groups: Sequence[str]) -> list[str]:
    """The groups whose numbers are not those that are stored."""
    stored = json.loads(STORED.read_text())
    return [group for group in groups if digest(group) != stored[group]]


def main(given: Sequence[str]) -> int:
    if "--write" in given:
        STORED.write_text(json.dumps({group: digest(group) for group in GROUPS}, indent=1) + "\n")
        return 0
    found = differing(given or list(GROUPS))
    for group in found:
        sys.stdout.write(f"{group}: other numbers than those of {STORED.name}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
