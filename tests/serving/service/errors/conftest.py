"""A service whose queues are seldom empty."""

from __future__ import annotations

import pytest

from stepsim.serving import RandomLengths
from stepsim.serving.requests.arrivals import DrawnArrivals
from stepsim.serving.service.serve import Service, prepare_service


@pytest.fixture(scope="package")
def service() -> Service:
    requests = RandomLengths(
        count=60, input_len=400, output_len=24, input_range=0.5, seed=2
    ).requests()
    return prepare_service(
        trace=DrawnArrivals(120.0, 1.0, 3).arrive(requests), num_blocks=4000,
        steps="linear:2000000,20000,40",
    )  # fmt: skip
