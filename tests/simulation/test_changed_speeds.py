"""A changed program is the program that was built with the changed numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as hs

import stepsim as st
from stepsim.errors import ArgError, LoweringError, MachineError
from stepsim.graph.ops.higher_order.compute import Compute
from stepsim.graph.sizes.limits import COMPUTE_BW
from stepsim.lowering.retimed import compute_bandwidths
from stepsim.machine import load_machine
from stepsim.simulation import prepare
from stepsim.simulation.programs.prepared import Prepared
from tests.property_profile import profile
from tests.simulation.drawn_programs import drawn_programs
from tests.simulation.programs import centered

OVERRIDES: list[dict[str, Any]] = [
    {"hbm.channels": 7},
    {"hbm.latency": 0, "hbm.startup": 0},
    {"hbm.interval": 5, "hbm.request_bytes": 32},
    {"hbm.model": "interleaved", "closure_slack": 1},
    {"hbm.model": "uncontended", "onchip.bytes_per_cycle": 3},
    {"onchip.bytes_per_cycle": 1 << 20},
    {"fifo.depth": 3},
    {"model": "step-2026"},
]


def machines() -> hs.SearchStrategy[st.Machine]:
    return hs.builds(
        load_machine,
        hs.sampled_from(("sda-1024", "sda-2026", "sda-hdl")),
        hs.sampled_from(OVERRIDES),
    )


def scalable(prepared: Prepared) -> list[str]:
    """Operators that a compute bandwidth slows down."""
    operators = [unit.operator for unit in prepared.wiring.units]
    return [
        unit.name
        for unit, op in zip(prepared.wiring.units, operators, strict=True)
        if isinstance(op, Compute) and op.has_flops()
    ]


MEMORIES = ("published", "interleaved", "uncontended")


@profile(30)
@given(drawn_programs(), machines(), hs.sampled_from((None, 2)))
def test_another_machine_gives_the_image_of_that_machine(
    program: st.Program, machine: st.Machine, depth: int | None
) -> None:
    changed = st.prepare(program, fifo_depth=depth).changed(machine=machine)
    built = st.prepare(program, machine, fifo_depth=depth)
    assert changed.image().digest() == built.image().digest()
    assert changed.timing == built.timing
    assert (changed.fifo_depth, changed.fifo_depth_from) == (
        built.fifo_depth, built.fifo_depth_from,
    )  # fmt: skip


@profile(30)
@given(drawn_programs(), hs.data(), hs.sampled_from((0.3, 1, 2, 7.5, math.inf)))
def test_other_bandwidths_give_the_image_of_that_program(
    program: st.Program, data: hs.DataObject, factor: float
) -> None:
    prepared = st.prepare(program)
    names = scalable(prepared)
    if not names:
        return
    chosen = data.draw(hs.sets(hs.sampled_from(names), min_size=1))
    changed = prepared.changed(compute=dict.fromkeys(chosen, factor))
    before = prepared.image().digest()
    for unit in prepared.wiring.units:
        op = unit.operator
        if unit.name in chosen:
            assert isinstance(op, Compute)
            old = op.unit_bw()
            op.compute_bw = COMPUTE_BW.high if factor == math.inf else max(1, int(old * factor))
            assert changed.compute_bw[unit.name] == op.compute_bw
    assert changed.image().digest() == Prepared(program, prepared.machine, None).image().digest()
    assert prepared.image().digest() == before


@profile(30)
@given(drawn_programs(), hs.data(), hs.sampled_from((1, 3, 16, 4096)))
def test_other_dispatch_widths_give_the_image_of_that_program(
    program: st.Program, data: hs.DataObject, width: int
) -> None:
    machine = load_machine("sda-1024", {"hbm.model": data.draw(hs.sampled_from(MEMORIES))})
    prepared = st.prepare(program, machine)
    units = prepared.wiring.units
    ports = [unit.name for unit in units if "par" in unit.params]
    if not ports:
        return
    chosen = data.draw(hs.sets(hs.sampled_from(ports), min_size=1))
    changed = prepared.changed(par_dispatch=dict.fromkeys(chosen, width))
    before = prepared.image().digest()
    for unit in units:
        if unit.name in chosen:
            unit.operator.par_dispatch = width  # type: ignore[attr-defined]
    built = Prepared(program, machine, None)
    assert changed.image().digest() == built.image().digest()
    assert prepared.image().digest() == before
    other = load_machine(machine, {"model": "step-2026"})
    assert changed.changed(machine=other).image().digest() == (
        Prepared(program, other, None).image().digest()
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "must be a mapping of requests per cycle by operator"),
        ({"linear_laod#0": 2}, "which is not an operator"),
        ({3: 2}, "names 3, which is not an operator"),
        ({"linear_load#0": 0}, "must be an int from 1 to 4096"),
        ({"work#2": 2}, "issues no requests to the memory"),
    ],
)
def test_wrong_dispatch_widths_are_refused(given: Any, message: str) -> None:
    with pytest.raises(st.errors.ArgError, match=message):
        st.prepare(add_one()).changed(par_dispatch=given)


def add_one(bandwidth: int = 64, depth: int | None = None) -> st.Program:
    with st.Program("one", compute_bw=bandwidth, fifo_depth=depth) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        st.linear_store(x.map(st.fn.silu, label="work"), "y")
    return program


def test_changes_add_up_and_are_reported() -> None:
    prepared = st.prepare(add_one())
    name = next(unit.name for unit in prepared.wiring.units if unit.name.startswith("work"))
    twice = prepared.changed(compute={name: 2}).changed(compute={name: 1.5})
    assert twice.compute_bw == {name: 192}
    result = twice.result()
    assert result.provenance["compute_bw"] == {name: 192}
    assert "compute_bw" not in prepared.result().provenance
    built = st.simulate(add_one(192))
    assert result.cycles == built.cycles < prepared.result().cycles
    assert result.provenance["image_hash"] == built.provenance["image_hash"]


@pytest.mark.parametrize(
    "overrides", [{"fifo.depth": 3}, {"model": "step-2026"}, {"closure_slack": 2}]
)
def test_bandwidths_stay_on_another_machine(overrides: dict[str, Any]) -> None:
    machine = load_machine("sda-1024", overrides)
    name = scalable(st.prepare(add_one()))[0]
    changed = st.prepare(add_one()).changed(compute={name: 4}).changed(machine=machine)
    assert changed.image().digest() == st.prepare(add_one(256), machine).image().digest()


@pytest.mark.slow
@profile(40)
@given(drawn_programs(), machines(), hs.data(), hs.sampled_from((None, 1, 3)))
def test_changes_of_all_kinds_come_together(
    program: st.Program, machine: st.Machine, data: hs.DataObject, depth: int | None
) -> None:
    prepared = st.prepare(program)
    fifos = [fifo.name for fifo in prepared.wiring.fifos]
    depths = data.draw(hs.dictionaries(hs.sampled_from(fifos), hs.sampled_from((1, 5, None))))
    compute = dict.fromkeys(scalable(prepared), 3.0)
    together = prepared.changed(
        machine=machine, fifo_depth=depth, fifo_depths=depths, compute=compute
    )
    one_by_one = prepared.changed(fifo_depths=depths).changed(compute=compute)
    one_by_one = one_by_one.changed(fifo_depth=depth).changed(machine=machine)
    built = st.prepare(program, machine, fifo_depth=depth)
    built = built.changed(fifo_depths=depths).changed(compute=compute)
    assert together.image().digest() == one_by_one.image().digest() == built.image().digest()
    assert (together.fifo_depth, together.fifo_depths) == (built.fifo_depth, built.fifo_depths)
    assert together.result().provenance == built.result().provenance


def test_the_smallest_bandwidth_is_one() -> None:
    prepared = st.prepare(add_one())
    name = scalable(prepared)[0]
    changed = prepared.changed(compute={name: 1e-9})
    number = [unit.name for unit in prepared.wiring.units].index(name)
    assert compute_bandwidths(changed.template.first)[number] == 1


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        ([2], "compute must be a mapping of factors by operator"),
        ({"wrok#2": 2}, "compute names 'wrok#2', which is not an operator; did you mean 'work#2'"),
        ({3: 2}, "compute names 3, which is not an operator"),
        ({"linear_load#0": 2}, "compute names 'linear_load#0', which has no FLOPs"),
        ({"work#2": 0}, r"compute\['work#2'\] must be a positive number"),
        ({"work#2": True}, "must be a positive number"),
        ({"work#2": math.nan}, "must be a positive number"),
        ({"work#2": "2"}, "must be a positive number"),
    ],
)
def test_wrong_bandwidths_are_refused(compute: Any, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        st.prepare(add_one()).changed(compute=compute)


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(MachineError, match="unknown machine"):
        st.prepare(centered()).changed(machine="nowhere")


def test_the_machine_states_the_bandwidth_of_operators_without_one() -> None:
    """As it does for operators that have one: its value holds."""

    def program(**given: int) -> st.Program:
        with st.Program("left to the machine", **given) as made:
            x = st.linear_load(st.spec(64, 64), (16, 64)).flatten(0, 1)
            x.map(st.fn.silu, label="act").promote().accum(st.fn.add, 1).consume()
        return made

    stated = load_machine("sda-1024", {"compute.unit_flops_per_cycle": 64})
    found, other = (st.simulate(one, stated) for one in (program(), program(compute_bw=8)))
    assert found.cycles == other.cycles > st.simulate(program(compute_bw=640)).cycles
    text = r"act#2: no compute bandwidth.*or state compute.unit_flops_per_cycle of the machine"
    with pytest.raises(LoweringError, match=text):
        st.simulate(program())
    with pytest.raises(LoweringError, match=text):
        prepare(program(), stated).changed(machine="sda-1024")
