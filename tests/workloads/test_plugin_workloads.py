"""Workloads of other packages: every kind has the digest of its package."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stepsim.plugins import found, usable
from stepsim.simulation.cases.case import make_case
from stepsim.workloads import Data
from stepsim.workloads.loading import find_workload

MODULE = """
print("imported")
from dataclasses import dataclass
import stepsim as st

def gemm(*, m: int = 64) -> st.Program:
    with st.Program("gemm", compute_bw=512) as program:
        st.linear_store(st.linear_load(st.spec(m, 32), (16, 32)).map(st.fn.silu), "y")
    return program

ready = gemm()

@dataclass(frozen=True, kw_only=True)
class Gemm(st.workloads.Workload):
    def build(self, data):
        return st.workloads.Built(gemm())
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with one workload of each kind, as an installer leaves it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "own_workloads.py"
    path.write_text(MODULE)
    info = tmp_path / "own_workloads-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own_workloads\nVersion: 1.2\n")
    points = "a = own_workloads:gemm\nb = own_workloads:ready\nc = own_workloads:Gemm\n"
    (info / "entry_points.txt").write_text(f"[stepsim.workloads]\n{points}")
    for one in (found, usable):
        one.cache_clear()
    yield path
    for one in (found, usable):
        one.cache_clear()
    sys.modules.pop("own_workloads", None)


def test_a_workload_has_the_digest_of_its_package(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = hashlib.sha256(b"\0" + package.read_bytes() + b"\0").hexdigest()
    assert [find_workload(name).digest for name in "abc"] == [expected] * 3
    assert capsys.readouterr() == ("", "imported\n")
    assert [make_case(name).run(Data()).status for name in "abc"] == ["ok"] * 3


def test_a_result_tells_what_it_depended_on(package: Path) -> None:
    data = Data.of(kv_lengths=[3, 4])
    provenance = make_case("a", m=128).result(data).provenance
    digest = hashlib.sha256(b"\0" + package.read_bytes() + b"\0").hexdigest()
    assert (provenance["workload"], provenance["workload_digest"]) == ("a", digest)
    assert (provenance["parameters"], provenance["origins"]) == ({"m": 128}, {"m": "given"})
    assert (provenance["config"], provenance["counting"]) == (None, "executed")
    assert provenance["kv_lengths"] == hashlib.sha256(np.array([3, 4]).tobytes()).hexdigest()
    assert provenance["plugins"] == {"stepsim.workloads a": f"own_workloads 1.2 {digest}"}
