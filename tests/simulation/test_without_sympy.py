"""Programs are built, simulated and totalled without sympy, which is slow to import."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.samples import sampled

STATIC = """
import numpy as np
import stepsim as st

with st.Program("silu", compute_bw=1024) as program:
    x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
    out = st.linear_store(x.map(st.fn.silu), "out")
assert st.simulate(program, machine="sda-1024").cycles == 288
bound = program.metrics().bind()
assert (bound.off_chip_traffic, bound.on_chip_memory) == (16384, 8192)
assert st.prepare(program, machine="sda-1024").run().cycles == 288
program.fingerprint(), str(program), repr(program.metrics())
"""

ROUTED = """
import numpy as np
import stepsim as st

with st.Program("two experts", compute_bw=64) as program:
    table = st.routing(st.spec(4, 1), experts=2)
    x = st.linear_load(st.spec(4, 8), tile=(1, 8)).flatten(0, 1)
    for part in st.partition(x, table.multihot()):
        part.promote().accum(st.fn.pack_rows, rank=1).map(st.fn.silu).consume()
indices = np.array([[0], [1], [0], [0]])
assert st.simulate(program, bindings={table: indices}).flops == 256
assert program.metrics().bind({table: indices}).flops == 256
program.fingerprint(), [repr(s) for op in program.operators for s in op.outputs]
"""

COSTS = """
import numpy as np
import stepsim as st

scaled = st.function("scaled", "m n, m 1 -> m n", lambda m, n: 2 * m * (n + 1) + 3 * m**2,
                     cycles=4, values=lambda x, s: 2 * x * s)
constant = st.function("constant", "same", lambda m: 7)
with st.Program(compute_bw=16) as program:
    x = st.linear_load(np.ones((8, 4), np.float32), (8, 4))
    s = st.linear_load(np.ones((8, 1), np.float32), (8, 1))
    st.map(scaled, x, s).map(constant).consume()
run = st.simulate(program)
assert run.flops == program.metrics().bind().flops == 2 * 8 * 5 + 3 * 64 + 7
"""

CASES = """
import numpy as np
import stepsim as st

rng = np.random.default_rng(0)
routing = np.argsort(rng.random((64, 128)), axis=1)[:, :8]
lengths = rng.integers(1, 300, 16)
layer = dict(model="qwen3-30b-a3b", machine="sda-1024")


def run(name, data, **given):
    case = st.simulation.make_case(name, data, **given)
    found = case.measures(case.run(data), data)
    assert found["cycles"] > 0 and found["flops"] > 0, (name, found)
    case.built.program.fingerprint()
"""

KINDS = {
    "moe": """
for tile in (32, "dynamic"):
    run("moe", st.workloads.Data.of(routing=routing), tile=tile, **layer)
run("moe", st.workloads.Data.of(routing=routing), tile=16, regions=4, **layer)
run("moe", st.workloads.Data.of(routing=routing), tile=32, counting="published", **layer)
""",
    "attention": """
for strategy in ("coarse", "interleaved", "dynamic"):
    run("attention", st.workloads.Data.of(kv_lengths=lengths), strategy=strategy, **layer)
""",
    "decoder": """
data = st.workloads.Data.of(routing=routing[:16], kv_lengths=lengths)
run("decoder", data, tile="dynamic", strategy="dynamic", **layer)
""",
    "swiglu": """
sizes = dict(tile=16, tile_inter=32, batch=64, hidden=128, intermediate=256)
run("swiglu", st.workloads.Data.of(), machine="sda-1024", **sizes)
""",
}

PROGRAMS = {"static": STATIC, "routed": ROUTED, "costs": COSTS}
PROGRAMS |= {name: CASES + lines for name, lines in KINDS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("program", sampled(PROGRAMS, "static", "routed", "moe"))
def test_sympy_is_not_imported(program: str) -> None:
    end = "\nimport sys\nassert 'sympy' not in sys.modules, 'sympy was imported'\n"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS[program] + end],
        capture_output=True, text=True, env=dict(os.environ), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_formula_that_is_asked_for_is_one_of_sympy() -> None:
    code = ROUTED + "import sys; program.metrics().flops; assert 'sympy' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
