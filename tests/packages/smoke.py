"""What shows that an installation and each of its extras work; run in its environment."""

from __future__ import annotations

from typing import Final

DEMO: Final = """
import subprocess, sys
done = subprocess.run([sys.executable, "-m", "stepsim", "demo", "--out", "demo"],
                      capture_output=True, text=True)
assert done.returncode == 0, done.stderr
assert "981,744" in done.stdout, done.stdout
said = done.stderr.splitlines()[-1]
for extra in ABSENT:
    assert f"{extra} (" in said, (extra, said)
"""
"""The demo, with the cycles that it has everywhere, says what the extras of ``ABSENT`` are for."""

_SWEEP: Final = """
import stepsim as st
spec = {
    "name": "small", "workload": "moe", "model": "qwen3-30b-a3b", "parameters": {"compute_bw": 64},
    "traces": {"synthetic": {"tokens": 16, "layers": 1, "steps": 2, "seed": 1}},
    "grid": {"tile": [8, 16]},
}
"""

_PROGRAM: Final = """
import numpy as np
import stepsim as st
with st.Program("silu", compute_bw=64) as program:
    x = st.linear_load(st.spec(16, 16, name="x", dtype="bf16"), tile=(16, 16))
    st.linear_store(x.map(st.fn.silu), "y")
"""

EXTRAS: Final = {
    "plot": """
import subprocess, sys
from pathlib import Path
done = subprocess.run([sys.executable, "-m", "stepsim", "demo", "--out", "demo"],
                      capture_output=True, text=True)
assert done.returncode == 0, done.stderr
assert Path("demo/cycles-against-memory.png").read_bytes()[1:4] == b"PNG"
""",
    "dask": _SWEEP
    + """
if __name__ == "__main__":
    assert st.sweep.run_sweep(spec, "swept", backend="dask", jobs=1).failures == 0
    assert len(st.sweep.read_runs("swept", ["cycles"])) == 4
""",
    "ray": _SWEEP
    + """
if __name__ == "__main__":
    assert st.sweep.run_sweep(spec, "swept", backend="ray", jobs=1).failures == 0
    assert len(st.sweep.read_runs("swept", ["cycles"])) == 4
""",
    "query": _SWEEP
    + """
if __name__ == "__main__":
    st.sweep.run_sweep(spec, "swept")
    found = st.sweep.query("swept", "SELECT count(*) AS runs FROM runs")
    assert found.to_pylist() == [{"runs": 4}], found
""",
    "polars": _SWEEP
    + """
import polars
if __name__ == "__main__":
    st.sweep.run_sweep(spec, "swept")
    lazy = polars.scan_parquet("swept/runs/**/*.parquet", hive_partitioning=True)
    assert lazy.collect()["cycles"].min() > 0
""",
    "report": _PROGRAM
    + """
import subprocess, sys
from pathlib import Path
st.simulate(program).to_parquet("run.parquet")
done = subprocess.run([sys.executable, "-m", "stepsim", "report", "run.parquet", "--out",
                       "run.html"], capture_output=True, text=True)
assert done.returncode == 0, done.stderr
assert "plotly" in Path("run.html").read_text("utf-8")
""",
    "perfetto": _PROGRAM
    + """
from pathlib import Path
st.report.write_perfetto(st.simulate(program, record=True), "run.pftrace")
assert Path("run.pftrace").stat().st_size > 100
""",
    "search": _SWEEP
    + """
if __name__ == "__main__":
    search = {"objectives": ["cycles", "onchip_bytes"], "trials": 2, "sampler": "tpe", "seed": 0}
    tuned = st.sweep.tune({**spec, "search": search}, "tuned")
    assert len(st.sweep.read_runs("tuned", ["cycles"])) > 0
""",
    "graph": _PROGRAM
    + """
again = st.load_graph(program.to_graph(mock_bf16=True), mock_bf16=True)
assert st.simulate(again).cycles == st.simulate(program).cycles
""",
    "values": _PROGRAM
    + """
values = st.run_functional(program, {"x": np.ones((16, 16))})
assert abs(float(np.asarray(values.stored["y"], dtype=np.float64)[0, 0]) - 0.7311) < 4e-3
""",
    "onnx": """
import onnx
from stepsim.design.operators.importers import from_onnx
from onnx import TensorProto, helper
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 16])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, 16])
w = helper.make_tensor("w", TensorProto.FLOAT, [16, 16], [0.0] * 256)
made = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "product", [x], [y], [w])
model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
model.ir_version = 8
onnx.save(model, "model.onnx")
graph = from_onnx("model.onnx")
assert len(graph.ops) == 1
""",
    "torch": """
import torch
from stepsim.design.operators.importers import from_torch
graph = from_torch(torch.nn.Linear(16, 16), (torch.zeros(16, 16),))
assert len(graph.ops) >= 1
""",
}
"""What uses an extra; it fails without it."""
