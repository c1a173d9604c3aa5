"""Import of traces: a recorded request trace, and a routing trace far larger than memory allows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from stepsim.trace_io import import_trace
from tests.shared import NO_TRACES, TRACES

TOKENS = int(os.environ.get("STEPSIM_BENCH_TOKENS", 10_000_000))
LAYERS, EXPERTS, K = 48, 128, 8

IMPORT = """
import json, re, sys, time
from pathlib import Path
from stepsim.trace_io import import_trace, read_routing, summarize_routing
begin = time.perf_counter()
if sys.argv[1] == "import":
    rows = import_trace(sys.argv[2], sys.argv[3], experts=128, k=8).rows
elif sys.argv[1] == "window":
    tokens = int(sys.argv[4])
    table = read_routing(
        sys.argv[2], experts=128, k=8, layer=20, tokens=64, window=tokens // 128
    )
    rows = table.tokens
else:
    summary = summarize_routing(sys.argv[2], experts=128, k=8)
    rows = summary.rows
    assert len(summary.layers) == 48 and summary.idle == 0
print(json.dumps({
    "rows": rows,
    "seconds": time.perf_counter() - begin,
    # ru_maxrss would begin with the memory of the process that started this one.
    "peak_mb": int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024,
}))
"""


def write_routing_array(path: Path, tokens: int) -> None:
    """An int16 array [tokens, layers, k]: 4096 random tokens over and over."""
    generator = np.random.default_rng(0)
    order = np.argsort(generator.random((4096, LAYERS, EXPERTS), dtype=np.float32), axis=2)
    block = np.ascontiguousarray(order[:, :, :K].astype("<i2"))
    with path.open("wb") as file:
        header = {"descr": "<i2", "fortran_order": False, "shape": (tokens, LAYERS, K)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, tokens, len(block)):
            file.write(block[: tokens - start].data)


def test_azure_import(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    if not TRACES.is_dir():
        pytest.skip(NO_TRACES)
    source = TRACES / "AzureLLMInferenceTrace_conv.csv"
    begin = time.perf_counter()
    summary = import_trace(source, tmp_path / "conv.parquet")
    assert time.perf_counter() - begin < 5
    assert summary.rows == 19_366
    benchmark.pedantic(lambda: import_trace(source, tmp_path / "conv.parquet"), rounds=3)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read in /proc")
@pytest.mark.timeout(3600)
def test_ten_million_tokens(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """10 million tokens, 48 layers, top 8 (7.7 GB): imported and summarised below 1 GB.

    A window of 64 tokens in the middle of a layer is read in two seconds, from either file.
    """
    source, out = tmp_path / "routing.npy", tmp_path / "routing.parquet"
    needed = 2 * TOKENS * LAYERS * K * 2
    if shutil.disk_usage(tmp_path).free < needed:
        pytest.skip(f"needs {needed / 1e9:.0f} GB in {tmp_path}; set STEPSIM_BENCH_TOKENS lower")
    write_routing_array(source, TOKENS)

    def run(what: str, path: Path) -> dict[str, float]:
        command = [sys.executable, "-c", IMPORT, what, str(path), str(out), str(TOKENS)]
        found = subprocess.run(command, capture_output=True, check=True, text=True)
        return dict(json.loads(found.stdout))

    imported = benchmark.pedantic(lambda: run("import", source), rounds=1)
    windows = [run("window", path) for path in (source, out)]
    source.unlink()
    summarised = run("summarise", out)
    sizes = {"parquet_gb": out.stat().st_size / 1e9}
    out.unlink()
    print(f"\nimport {imported}, summarise {summarised}, windows {windows}, {sizes}")
    for measured in windows:
        assert measured["rows"] == 64
        assert measured["seconds"] < 2
        assert measured["peak_mb"] < 300
    for measured in (imported, summarised):
        assert measured["rows"] == TOKENS * LAYERS
        assert measured["peak_mb"] < 1000
