"""What a run of a layer does, call by call: prints the CPU seconds of every stage as JSON.

Usage: python -m bench.stage_calls MODEL TILE ROUTING
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time

# As `_prepare_process` of the command line does for a command; numpy reads the first when imported.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
gc.set_threshold(200_000, 20, 20)

import numpy as np  # noqa: E402

# The seconds that a result reports of its engine become CPU seconds, as all others here.
time.perf_counter = time.process_time


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main(model: str, tile: str, routing: str) -> None:
    times = [_cpu()]
    # Imported here, because that is one of the stages.
    from stepsim.simulation import prepare
    from stepsim.workloads import Data, Moe

    times.append(_cpu())
    data = Data.of(routing=np.load(routing))
    layer = Moe.of(model=model, tile=int(tile), config="published", data=data)
    built = layer.build(data)
    times.append(_cpu())
    ready = prepare(built.program)
    times.append(_cpu())
    bindings = built.bindings(data)
    ready.run(bindings)
    first = _cpu() - times[-1]
    again, engine = float("inf"), float("inf")
    for _ in range(5):
        begin = _cpu()
        result = ready.run(bindings)
        again = min(again, _cpu() - begin)
        engine = min(engine, result.wall_seconds)
    spans = [after - before for before, after in zip([0.0, *times], times, strict=False)]
    print(json.dumps([*spans, max(first - again, 0.0), engine, again - engine]))


if __name__ == "__main__":
    main(*sys.argv[1:])
