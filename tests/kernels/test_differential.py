"""The engine against the reference interpreter on random networks."""

from __future__ import annotations

from hypothesis import given, strategies as st

from stepsim.kernels.driver import execute
from stepsim.lowering import Network, build_image
from tests.engine_backend import run_engine
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import interpret
from tests.oracle.invariants import check_all
from tests.oracle.random_networks import (
    faulty_function_networks,
    faulty_networks,
    function_networks,
    permute_order_free,
    random_networks,
    routed_networks,
    scan_networks,
)
from tests.property_profile import profile

NAMES = ("engine", "interpreter")


def _agree(network: Network) -> None:
    engine = run_engine(network)
    assert_same(engine, interpret(network), accounts=True, names=NAMES)
    check_all(network, engine)


@profile(100)
@given(random_networks(max_slack=1))
def test_engine_agrees_with_the_interpreter(network: Network) -> None:
    _agree(network)


@profile(50)
@given(routed_networks())
def test_routed_tuples_and_buffers_agree(network: Network) -> None:
    _agree(network)


@profile(100)
@given(function_networks())
def test_random_functions_agree(network: Network) -> None:
    _agree(network)


@profile(100)
@given(scan_networks())
def test_scans_and_selectors_of_numbers_agree(network: Network) -> None:
    _agree(network)


@profile(30)
@given(scan_networks(faulty=True))
def test_scans_that_do_not_fit_agree(network: Network) -> None:
    _agree(network)


@profile(50)
@given(faulty_function_networks())
def test_operands_that_do_not_fit_agree(network: Network) -> None:
    _agree(network)


@profile(50)
@given(faulty_networks())
def test_failures_and_deadlocks_agree(network: Network) -> None:
    _agree(network)


@profile(30)
@given(random_networks(max_slack=1), st.integers(0, 2**32 - 1))
def test_order_free_units_may_enter_in_any_order(network: Network, seed: int) -> None:
    permuted = permute_order_free(network, seed)
    assert_same(run_engine(network), run_engine(permuted), accounts=True, names=("as is", "moved"))


@profile(30)
@given(random_networks(max_slack=1))
def test_pausing_changes_nothing(network: Network) -> None:
    paused = run_engine(network, pause_steps=3)
    assert_same(run_engine(network), paused, accounts=True, names=("in one go", "paused"))


@profile(50)
@given(
    st.one_of(
        random_networks(max_slack=1), routed_networks(), faulty_networks(), function_networks()
    )
)
def test_reused_slots_change_nothing(network: Network) -> None:
    """The runs of users do not keep their tokens: rings and blocks are used again."""
    image = build_image(network)
    kept, reused = execute(image, history=True), execute(image)
    for field in ("clk", "h", "busy", "before", "after", "memory", "fires", "state", "flops"):
        assert (kept.units[field] == reused.units[field]).all(), field
    for field in ("sent", "removed", "wait_in", "wait_out"):
        assert (kept.channels[field] == reused.channels[field]).all(), field
