"""Files of the state before 1.0 are read, and those of other versions are refused by name.

``tests/data/before_1_0`` was written by that state, one of each kind that stepsim reads.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stepsim as st
from stepsim.errors import (
    ArgError,
    BaselineError,
    CompileError,
    ReportError,
    ServingError,
    StepSimError,
    SweepError,
    TraceError,
)
from stepsim.pytest_plugin.baselines import read_baselines
from stepsim.report import read_run
from stepsim.results import SCHEMA_VERSION
from stepsim.sweep.storage import digests
from stepsim.workloads.models import read_model
from tests.promises.files import VERSIONS
from tests.small_programs import gated

EARLIER = Path(__file__).parents[1] / "data" / "before_1_0"


def network() -> st.machine.Network:
    return st.noc.load_network("mesh", {"rows": 2, "cols": 4})


def placement(path: Path) -> st.noc.Placement:
    return st.noc.Placement.from_yaml(path, gated(), network())


def routing(path: Path) -> Any:
    return st.traces.read_routing(path)


def test_a_run() -> None:
    found = read_run(EARLIER / "run.parquet")
    assert found.row["cycles"] == st.simulate(gated()).cycles
    assert found.row["provenance"]["versions"]["stepsim"] == "0.1.0"
    assert (found.units.num_rows, found.fifos.num_rows) == (8, 8)


def test_a_sweep() -> None:
    runs = st.sweep.read_runs(EARLIER / "swept", ["design", "cycles"])
    assert runs["design"].to_pylist() == ["0000-tile-8", "0001-tile-16"]
    assert min(runs["cycles"].to_pylist()) > 0
    assert list(st.sweep.read_designs(EARLIER / "swept")) == runs["design"].to_pylist()


def test_a_service() -> None:
    served = st.serving.ServeResult.read(EARLIER / "served")
    assert served.status == "ok"
    assert served.requests.num_rows == served.metrics["completed"] == 4
    assert "4" in str(served)


def test_a_recorded_run_of_a_placed_program() -> None:
    found = read_run(EARLIER / "recorded" / "run.parquet")
    assert found.row["cycles"] == 1477
    rows = {name: table.num_rows for name, table in found.others.items()}
    assert rows == {"timeline": 4, "path": 35, "links": 480}


def test_a_search() -> None:
    runs = st.sweep.read_runs(EARLIER / "searched", ["design", "cycles"])
    assert runs["cycles"].to_pylist() == [3_975_900, 9_585_688]
    assert list(st.sweep.read_designs(EARLIER / "searched")) == runs["design"].to_pylist()


def test_a_sweep_of_services() -> None:
    served = st.sweep.read_runs(EARLIER / "swept_services", ["completed", "output_throughput"])
    (rate,) = served["output_throughput"].to_pylist()
    assert served["completed"].to_pylist() == [4]
    assert round(rate, 1) == 3947.4


def test_a_design() -> None:
    """The folder is a workload, and its depths are a file of their own."""
    design = st.workloads.find_workload(str(EARLIER / "design")).load()
    built = design.of().build(st.workloads.Data())
    depths = EARLIER / "design" / "fifo_depths.yaml"
    found = {
        st.simulate(built.program, "u55c", fifo_depth=built.fifo_depths).cycles,
        st.simulate(built.program, "u55c", fifo_depth=str(depths)).cycles,
        st.design.Plan.load(EARLIER / "design" / "plan.yaml").simulated,
    }
    assert found == {217}


def test_an_operator_graph() -> None:
    text = (EARLIER / "operators.json").read_text(encoding="utf-8")
    graph = st.design.OperatorGraph.from_json(text)
    assert [op.name for op in graph.ops] == ["linear", "gelu"]
    assert graph.to_json() == text


def test_depths_of_fifos() -> None:
    depths = str(EARLIER / "depths.yaml")
    fixed = st.simulate(gated(), fifo_depth=depths)
    assert fixed.cycles == 292
    assert fixed.fifos["depth"].to_pylist() == [1, 1, 1, 1, 1, 2, 1, 1]


def test_a_graph_file() -> None:
    graph = st.load_graph(EARLIER / "graph.pb", mock_bf16=True)
    assert st.simulate(graph).cycles == 105


def test_machines_and_networks() -> None:
    changes = {"hbm.channels": 16, "clock_ghz": 1}
    assert st.load_machine(str(EARLIER / "machine.yaml")) == st.load_machine("sda-1024", changes)
    hardware = st.hardware.load_machine(str(EARLIER / "machine_of_hardware.yaml"))
    assert hardware == st.hardware.load_machine()
    assert st.noc.load_network(str(EARLIER / "network.yaml")) == st.noc.load_network("mesh")


def test_a_model() -> None:
    experts = read_model(str(EARLIER / "model.yaml")).moe
    assert (experts.experts, experts.active, experts.inner_dim) == (8, 2, 64)


def test_specifications() -> None:
    """Those of the sweep, the search and the services of the folders beside them."""
    sweep = st.sweep.load_spec(EARLIER / "sweep.yaml")
    assert sweep.grid == {"tile": [8, 16]}
    assert st.sweep.load_spec(EARLIER / "swept_services.yaml").service is not None
    served = st.serving.serve(EARLIER / "service.yaml")
    assert served.metrics["completed"] == 4


def test_a_specification_of_a_search(tmp_path: Path) -> None:
    tuned = st.sweep.tune(EARLIER / "search.yaml", tmp_path / "again")
    before = st.sweep.read_runs(EARLIER / "searched", ["design", "cycles"])
    assert st.sweep.read_runs(tmp_path / "again", ["design", "cycles"]) == before, tuned


def test_a_trace_of_requests() -> None:
    found = st.traces.load_requests(EARLIER / "requests.parquet")
    assert len(found) == 2


OF_KIND = {
    "tables of runs, sweeps, services and networks": "run.parquet",
    "outlines of programs in them": "run.parquet",
    "simulated times": "run.parquet",
    "routing traces": "routing.parquet",
    "request traces": "requests.parquet",
    "plans": "plan.yaml",
    "operator graphs": "operators.json",
    "placements": "placement.yaml",
    "fixes and FIFO depths": "depths.yaml",
    "baselines of tests": "baselines.json",
}


def test_there_is_a_file_of_every_kind_that_says_its_version() -> None:
    assert set(OF_KIND) == set(VERSIONS)
    assert all((EARLIER / name).is_file() for name in OF_KIND.values())


def test_everything_that_was_kept_is_read() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    names = {path.name for path in EARLIER.iterdir()} - {"run.units.parquet", "run.fifos.parquet"}
    assert {name for name in names if f'EARLIER / "{name}"' not in here} == set()


def copied(name: str, folder: Path) -> Path:
    """A copy that may be written to."""
    shutil.copytree(EARLIER / name, folder / name)
    return folder / name


BEGUN = r"versions \(stepsim 0\.1\.0, now .*\); "


def test_what_another_version_began_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match=f"{BEGUN}continue with the .* versions it was started"):
        st.sweep.run_sweep(EARLIER / "sweep.yaml", copied("swept", tmp_path), resume=True)
    with pytest.raises(SweepError, match=BEGUN):
        st.sweep.tune(EARLIER / "search.yaml", copied("searched", tmp_path), resume=True)
    served = copied("served", tmp_path)
    (served / "summary.json").unlink()
    with pytest.raises(ServingError, match=f"{BEGUN}resume it with the same settings and versions"):
        st.serving.serve(EARLIER / "service.yaml", out=served, resume=True)


def test_a_plan() -> None:
    plan = st.design.Plan.load(EARLIER / "plan.yaml")
    assert plan.simulated == sum(group.simulated for group in plan.groups)
    assert len(plan.graph.kernels) == 4


def test_a_placement() -> None:
    found = placement(EARLIER / "placement.yaml")
    assert found == st.noc.Placement.row_major(gated(), network())


def test_a_fix() -> None:
    fixed = st.simulate(gated(), fix=EARLIER / "fix.yaml")
    assert fixed.cycles == 292


def test_baselines() -> None:
    found = read_baselines(EARLIER / "baselines.json")
    (checks,) = found.values()
    (entry,) = checks.values()
    assert entry.cycles == st.simulate(gated()).cycles


def test_a_trace() -> None:
    assert routing(EARLIER / "routing.parquet").k == 2


LATER = {
    "plan.yaml": ("stepsim plan 1", "stepsim plan 2", st.design.Plan.load, CompileError),
    "placement.yaml": (None, "stepsim placement 2", placement, ArgError),
    "fix.yaml": (None, "stepsim fix 2", lambda path: st.simulate(gated(), fix=path), ArgError),
    "baselines.json": ('"format": 1', '"format": 2', read_baselines, BaselineError),
}


@pytest.mark.parametrize("name", LATER)
def test_a_text_of_another_version_is_refused_by_name(name: str, tmp_path: Path) -> None:
    before, after, read, error = LATER[name]
    text = (EARLIER / name).read_text(encoding="utf-8")
    path = tmp_path / name
    changed = f"format: {after}\n{text}" if before is None else text.replace(before, after)
    assert changed != text
    path.write_text(changed, encoding="utf-8")
    with pytest.raises(error) as caught:
        read(path)
    message = str(caught.value)
    assert str(path) in message
    assert "format" in message
    assert after.rpartition(" ")[2] in message


@pytest.mark.parametrize("name", ["placement.yaml", "fix.yaml"])
def test_files_say_their_version(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "fix.yaml":
        st.size_fifos(gated()).save(path)
    else:
        st.noc.Placement.row_major(gated(), network()).save(path)
    assert f"\nformat: stepsim {path.stem} 1\n" in path.read_text(encoding="utf-8")
    LATER[name][2](path)


def as_version(path: Path, version: str, key: bytes = b"schema_version") -> None:
    """Have a table say that it is of another version."""
    table = pq.read_table(path, partitioning=None)
    assert key in table.schema.metadata
    said = {**table.schema.metadata, key: version.encode()}
    pq.write_table(table.replace_schema_metadata(said), path, write_page_checksum=True)


TABLES: dict[str, tuple[Callable[[Path], Any], type[StepSimError], str]] = {
    "run.parquet": (read_run, ReportError, "run it again with --out"),
    "run.units.parquet": (
        lambda path: read_run(path.with_name("run.parquet")), ReportError,
        "run it again with --out",
    ),
    "served/requests.parquet": (
        lambda path: st.serving.ServeResult.read(path.parent), ServingError, "serve again",
    ),
    "served/steps.parquet": (
        lambda path: st.serving.ServeResult.read(path.parent), ServingError, "serve again",
    ),
    "swept/runs/design=0000-tile-8/part.parquet": (
        lambda path: st.sweep.read_runs(path.parents[2], ["cycles"]), SweepError,
        "run the sweep again in a new folder",
    ),
}  # fmt: skip
"""Table -> how it is read, the error, and what makes one of this version."""


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_another_version_is_refused_by_name(
    name: str, later: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, error, cure = TABLES[name]
    folder = tmp_path / "before"
    shutil.copytree(EARLIER, folder)
    version = str(int(SCHEMA_VERSION) + (1 if later else -1))
    path = folder / name
    as_version(path, version)
    # The digests of a sweep would say that the file was changed.
    monkeypatch.setattr(digests.Digests, "check", lambda *_: None)
    with pytest.raises(error) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: written with version '{version}' of the columns, this stepsim reads version "
        f"{SCHEMA_VERSION}; {'upgrade stepsim' if later else cure}"
    )


def test_a_trace_of_a_later_version_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "routing.parquet"
    shutil.copy(EARLIER / "routing.parquet", path)
    as_version(path, "2", b"stepsim.schema_version")
    with pytest.raises(TraceError, match=r"routing.parquet: written with version 2 .* upgrade"):
        routing(path)


def test_a_table_of_others_has_no_version() -> None:
    from stepsim.results import check_version

    check_version(pa.schema([("cycles", pa.int64())]), "other.parquet", ReportError, "run it again")
