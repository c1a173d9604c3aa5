"""Memory of an import does not grow with the length of the trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.trace_io import routing_schema
from tests.trace_io import foreign

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read in /proc"
)

# Small pieces, so that a trace of many pieces is still made and read in a second.
MEASURE = """
import re, sys
from pathlib import Path
from stepsim.trace_io import import_trace, importing, writer
from stepsim.trace_io.formats import lengths
from stepsim.trace_io.formats import numpy as numpy_format
lengths.CHUNK_BYTES = numpy_format.CHUNK_BYTES = 1 << 20
class Stream(writer.ParquetStream):
    def __init__(self, path, **rest):
        super().__init__(path, row_group_rows=1 << 15, **rest)
importing.ParquetStream = Stream
rows = import_trace(sys.argv[1], sys.argv[2]).rows
print(rows, int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def peak_mb(source: Path, rows: int) -> float:
    command = [sys.executable, "-c", MEASURE, str(source), str(source.parent / "out.parquet")]
    # Each thread of Arrow holds pieces of its own, more or fewer as they happen to take turns.
    found = subprocess.run(
        command, capture_output=True, check=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ).stdout.split()  # fmt: skip
    assert int(found[0]) == rows
    return float(found[1])


def write_npy(path: Path, tokens: int) -> int:
    with path.open("wb") as file:
        np.save(file, np.tile(foreign.routing(1000), (tokens // 1000, 1, 1)))
    return tokens * foreign.LAYERS


def write_fortran(path: Path, tokens: int) -> int:
    with path.open("wb") as file:
        np.save(file, np.asfortranarray(np.tile(foreign.routing(1000), (tokens // 1000, 1, 1))))
    return tokens * foreign.LAYERS


def write_lengths(path: Path, requests: int) -> int:
    with path.open("wb") as file:
        np.save(file, np.arange(requests))
    return requests


def write_text(path: Path, requests: int) -> int:
    path.write_text("length\n" + "".join(f"{i % 9000}\n" for i in range(requests)))
    return requests


def write_npz(path: Path, tokens: int) -> int:
    with path.open("wb") as file:
        np.savez(file, data=np.tile(foreign.routing(1000), (tokens // 1000, 1, 1)))
    return tokens * foreign.LAYERS


def write_parquet(path: Path, tokens: int) -> int:
    # Ids of 15 random bits, so that a row group is not small by encoding.
    generator = np.random.default_rng(0)
    wide = routing_schema(32)
    with pq.ParquetWriter(path, wide) as writer:
        for first in range(0, tokens, 10_000):
            ids = generator.integers(0, 2**15, (10_000, 1)) + np.arange(32)
            columns = [
                pa.nulls(10_000, pa.string()),
                pa.array(np.zeros(10_000, np.int32)),
                pa.array(np.zeros(10_000, np.int32)),
                pa.array(np.arange(first, first + 10_000, dtype=np.int32)),
                pa.FixedSizeListArray.from_arrays(
                    pa.array(ids.ravel().astype(np.int32)), type=wide.field("experts").type
                ),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=wide))
    return tokens


def write_megatron(path: Path, tokens: int) -> int:
    text = foreign.routing(500)[:, 0].tolist()
    with path.open("w") as file:
        for step in range(tokens // 500):
            record = {"step": step, "layer": 0, "rank": 0, "num_tokens": 500, "topk": 4}
            file.write(json.dumps(record | {"top_indices": text}) + "\n")
    return tokens


@pytest.mark.long
@pytest.mark.parametrize(
    ("write", "short", "allowed_mb"),
    [
        (write_npy, 200_000, 40),
        (write_fortran, 200_000, 40),
        (write_lengths, 500_000, 20),
        (write_text, 500_000, 40),
        (write_npz, 200_000, 40),
        (write_parquet, 60_000, 40),
        (write_megatron, 50_000, 20),
    ],
)
def test_memory_is_independent_of_length(tmp_path: Path, write, short: int, allowed_mb: float):
    source = tmp_path / "x.data"
    peaks, sizes = [], []
    for tokens in (short, 8 * short):
        rows = write(source, tokens)
        sizes.append(source.stat().st_size / 2**20)
        peaks.append(peak_mb(source, rows))
    assert peaks[1] < peaks[0] + allowed_mb, (peaks, sizes)
