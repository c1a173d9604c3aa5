"""Every row of a what-if of the published graphs is the run of a program that was built anew.

The change is made as the row says, without the machinery of variants: options of a machine, a
file of FIFO depths, compute bandwidths and dispatch widths of operators, another routing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.explain.changes.candidates import Change
from stepsim.graph.sizes.limits import COMPUTE_BW
from stepsim.simulation import depths_text, write_fix
from stepsim.workloads import Attention, Data, Decoder, Moe, Workload
from tests.parity import test_attention, test_decoder, test_moe
from tests.parity.points import Point, all_points, kv_lengths, routing_indices
from tests.property_profile import THOROUGH
from tests.shared import needs_traces

pytestmark = needs_traces

PLAIN = ("f9_mixtral_64", "f9_mixtral_dyn", "f15_b16_dynamic", "f17_mixtral_dynamic")
"""One point of each graph; the others are long."""

STEP = 1 if THOROUGH else 5
"""Of the others, every fifth is run; thoroughly, all of them."""


def moe(point: Point) -> tuple[Workload, Data]:
    data = Data.of(routing=routing_indices(point.trace))
    model = test_moe.MODELS[point.row["model"]]
    return Moe.of(model=model, tile=point.tile, config="published", data=data), data


def attention(point: Point) -> tuple[Workload, Data]:
    strategy = point.row["variant"].split()[-1]
    data = Data.of(kv_lengths=kv_lengths(point.trace)[: point.batch])
    given = {"max_length": 6464} if point.row["figure"] == "15" else {}
    built: Attention = test_attention.published(strategy, data, **given)
    return built, data


def decoder(model: str, variant: str) -> tuple[Workload, Data]:
    data = test_decoder.data_of(model)
    built: Decoder = test_decoder.layer(model, variant, data)
    return built, data


def graphs() -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for point in all_points():
        if point.name.startswith(("f9_", "f10_")):
            found[point.name] = lambda point=point: moe(point)
        elif point.row["workload"].startswith("attention"):
            found[point.name] = lambda point=point: attention(point)
    for model in test_decoder.ROUTINGS:
        for variant, short in test_decoder.NAMES.items():
            name = f"f17_{model.split('-')[0].removesuffix('3')}_{short}"
            found[name] = lambda model=model, variant=variant: decoder(model, variant)
    return found


GRAPHS = graphs()
OTHERS = [name for name in GRAPHS if name not in PLAIN][::STEP]


@pytest.mark.fuzz
@pytest.mark.parametrize(
    "name",
    [*PLAIN, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)],
)
def test_rows_are_runs_of_programs_built_as_they_say(name: str, tmp_path: Path) -> None:
    workload, data = GRAPHS[name]()
    built = workload.build(data)
    bindings = built.bindings(data)
    prepared = st.prepare(built.program)
    found = st.what_if(prepared, bindings=bindings, most=2)
    rows = found.table.to_pylist()
    kinds = {row["kind"] for row in rows}
    assert kinds >= {"hbm_bandwidth", "hbm_latency", "onchip_bandwidth", "compute", "fifo_depth"}
    assert {"balance"} & kinds if isinstance(workload, Moe) else True
    single = {change.name: change for change in found.changes}
    for row, change in zip(rows, found.changes, strict=True):
        assert row["status"] == "ok"
        parts = [single[part] for part in change.parts] or [change]
        assert row["description"] == " and ".join(part.apply for part in parts)
        again = rerun(workload, data, parts, tmp_path)
        assert again.cycles == row["cycles"], row["change"]
        assert row["gain_cycles"] == found.cycles - again.cycles


def rerun(workload: Workload, data: Data, parts: Sequence[Change], folder: Path) -> st.Result:
    """The run of the workload, built anew and changed as it is said of each part."""
    built = workload.build(data)
    bindings = dict(built.bindings(data))
    options: dict[str, str] = {}
    depths: Path | None = None
    for change in parts:
        how = change.apply
        if change.kind == "compute":
            with_compute(built.program, how, change.targets)
        elif change.kind == "hbm_port":
            with_dispatch(built.program, how, change.targets)
        elif change.kind == "fifo_depth":
            depth = re.match(r"with_depth\((\d+)\)", how)
            assert depth is None or set(change.fifo_depths.values()) == {int(depth[1])}
            depths = folder / "depths.yaml"
            write_fix(depths, depths_text({}, change.fifo_depths))
        elif change.kind == "balance":
            even = {table.name: indices for table, indices in (change.bindings or {}).items()}
            bindings = {table: even[table.name] for table in built.program.routings}
        else:
            options.update(re.findall(r"--set (\S+)=(\S+)", how))
            assert options
    machine = st.load_machine("sda-1024", options)
    return st.simulate(built.program, machine, bindings=bindings, fifo_depth=depths)


def with_dispatch(program: st.Program, how: str, targets: tuple[str, ...]) -> None:
    width = re.match(r"par_dispatch=(\d+) of ", how)
    assert width is not None
    for operator in operators(program, targets):
        operator.par_dispatch = int(width[1])


def with_compute(program: st.Program, how: str, targets: tuple[str, ...]) -> None:
    stated = re.match(r"compute_bw=(\S+)", how)
    assert stated is not None
    for operator in operators(program, targets):
        if how.startswith("compute_bw=2 x what it is of "):
            operator.compute_bw = 2 * operator.unit_bw()
        elif how.startswith("compute_bw=as large as can be of "):
            operator.compute_bw = COMPUTE_BW.high
        else:
            operator.compute_bw = int(stated[1])


def operators(program: st.Program, targets: tuple[str, ...]) -> list[Any]:
    """Operators by the name of their unit."""
    units = {unit.name: unit.operator for unit in st.prepare(program).wiring.units}
    return [units[name] for name in targets]
