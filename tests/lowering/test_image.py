"""Images: pure functions of the network, never written by a run."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given

from stepsim.errors import LoweringError
from stepsim.graph.published_functions import MAPS
from stepsim.kernels.driver import execute
from stepsim.lowering import Image, Network, TimingParams, build_image
from stepsim.lowering.builder import ImageBuilder
from stepsim.lowering.rows.unit_layout import in_order, layout_of
from tests.engine_backend import to_result
from tests.lowering.support import load_store
from tests.oracle.build import NetBuilder
from tests.oracle.compare import assert_same
from tests.oracle.random_networks import random_networks
from tests.oracle.random_places import placed
from tests.property_profile import profile

ARRAYS = [f.name for f in fields(Image) if "NDArray" in str(f.type)]


def contents(image: Image) -> dict[str, bytes]:
    return {name: getattr(image, name).tobytes() for name in ARRAYS}


@profile(30)
@given(random_networks())
def test_running_leaves_the_image_as_it_was(network: Network) -> None:
    image = build_image(network)
    before = contents(image)
    first = to_result(image, execute(image, history=True))
    assert contents(image) == before
    second = to_result(image, execute(image, history=True))
    assert_same(first, second, accounts=True, names=("first run", "second run"))


def test_arrays_may_be_read_only() -> None:
    image = build_image(load_store())
    for name in ARRAYS:
        getattr(image, name).setflags(write=False)
    assert execute(image).finished


@profile(30)
@given(random_networks())
def test_laying_out_twice_gives_the_same_image(network: Network) -> None:
    first, second = build_image(network), build_image(network)
    assert contents(first) == contents(second)
    assert first.digest() == second.digest()


@pytest.mark.parametrize(
    "changed",
    [
        load_store(rows=5),
        load_store(depth=3),
        *(
            load_store(replace(TimingParams(), **{name: value}))
            for name, value in {
                "onchip_bytes_per_cycle": 32, "request_bytes": 32, "hbm_channels": 16,
                "hbm_interval": 3, "hbm_latency": 3, "hbm_startup": 15, "closure_slack": 1,
                "memory_model": "uncontended",
            }.items()
        ),
    ],
)  # fmt: skip
def test_what_changes_the_run_changes_the_digest(changed: Network) -> None:
    assert build_image(changed).digest() != build_image(load_store()).digest()


DIGEST = """
import numpy as np
from stepsim.lowering import build_image, lower
from stepsim.machine import load_machine
from stepsim.workloads import Data, Moe
data = Data.of(routing=np.array([[0, 1], [1, 2], [5, 7], [6, 0]]))
work = Moe.of(data=data, model="mixtral-8x7b", tile=2).build(data)
_, network = lower(work.program, load_machine("sda-1024"), work.bindings(data))
print(build_image(network).digest(), work.program.fingerprint())
"""


@pytest.mark.slow
def test_digest_does_not_depend_on_the_process() -> None:
    def digest(seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = digest("1")
    assert len(first.split()[0]) == 64
    assert digest("2") == digest("0") == first


def test_ports_number_loads_before_stores() -> None:
    image = build_image(load_store())
    assert [image.unit_ops[port["unit"]] for port in image.ports] == ["OffChipLoad", "OffChipStore"]


def test_rings_start_small_and_hold_the_capacity() -> None:
    for depth in (1, 2, 3, 16, 17, 5000):
        image = build_image(load_store(depth=depth))
        for channel in image.channels:
            assert channel["cap"] == depth
            assert channel["mask"] + 1 <= 16
            assert channel["start"] + channel["mask"] < len(image.slots)
            if depth <= 16:
                assert depth <= channel["mask"] + 1 < 2 * depth


def test_plugins_that_a_run_does_not_use_leave_the_digest_as_it_is() -> None:
    """The code of a memory model is its place among all that is installed."""
    image = build_image(load_store())
    shared = np.frombuffer(bytearray(image.globals.tobytes()), image.globals.dtype)
    shared["memory_model"] += 1
    assert replace(image, globals=shared).digest() == image.digest()
    assert replace(image, memory_model="other").digest() != image.digest()


def test_equal_functions_are_stored_once() -> None:
    def words(*weights: int) -> int:
        b = NetBuilder()
        b.unit("source", "Gen", [], ["x0"], tokens=[])
        for i, weight in enumerate(weights):
            fn = {**MAPS["Silu"], "flops": [[weight, [0, 1]]]}
            b.unit(f"map{i}", "UnaryMap", [f"x{i}"], [f"x{i + 1}"], fn=fn, bw=64, wb=False)
        b.unit("sink", "Consumer", [f"x{len(weights)}"], [])
        return len(build_image(b.network()).params)

    assert words(1, 2) - words(1, 1) == words(1, 2, 3) - words(1, 1, 2) > 0
    assert words(1, 1, 1) - words(1, 1) == words(1, 1) - words(1)
    assert words(1, 1) - words(1) < words(1, 2) - words(1)


def _placed() -> Network:
    network = load_store()
    return placed(network, [0, *[5] * (len(network.units) - 1)], rows=2, cols=3)


def test_units_that_are_encoded_together_have_the_parameters_of_each() -> None:
    network = _placed()
    image = build_image(network)
    builder = ImageBuilder(network)
    builder.build()
    many = 0
    for u, spec in enumerate(network.units):
        layout = layout_of(spec)
        numbers = in_order(spec, layout, layout.row.encode(builder, spec))
        if layout.row.many is None:
            continue
        many += 1
        assert list(layout.row.many(builder, spec)(spec.params)) == numbers
        record = image.units[u]
        inputs, outputs = list(spec.inputs), list(spec.outputs)
        assert (record["kind"], record["port"]) == (layout.code, -1)
        assert (record["nin"], record["nout"]) == (len(inputs), len(outputs))
        for place, expected in (("in0", inputs), ("out0", outputs), ("par", numbers)):
            first = int(record[place])
            assert image.params[first : first + len(expected)].tolist() == expected
    assert many == 2


@pytest.mark.parametrize(("change", "message"), [
    ({"route": -1}, "parameter -1 is negative"),
    ({"receiver": 1 << 60}, "is too large"),
])  # fmt: skip
def test_units_that_are_encoded_together_are_refused_one_by_one(
    change: dict[str, int], message: str
) -> None:
    network = _placed()
    units = tuple(
        unit._replace(params={**unit.params, **change}) if unit.op == "SendPacket" else unit
        for unit in network.units
    )
    with pytest.raises(LoweringError, match=f"SendPacket 't: send': .*{message}"):
        build_image(replace(network, units=units))
