"""Services that pages, pictures and timelines are made of."""

from __future__ import annotations

import pytest

import stepsim as st
from stepsim.serving import ServeResult

PREEMPTING = {
    "source": "fixed:count=40,prompt_tokens=30,output_tokens=40", "arrivals": "poisson",
    "rate": 400, "num_blocks": 20, "max_num_batched_tokens": 24, "max_num_seqs": 8,
    "enable_prefix_caching": False, "steps": "linear:1000000,1000,10",
    "slo": "ttft=500ms,tpot=5ms,share=0.9",
}  # fmt: skip
"""Few KV blocks and short steps: requests wait, are cut into chunks and lose their blocks."""

SEVERAL = {
    "source": "lognormal:count=300,prompt_median=200,output_median=20", "rate": 200,
    "num_blocks": 400, "steps": "linear:2000000,10000,20", "replicas": 3, "seed": 4,
}  # fmt: skip


@pytest.fixture(scope="session")
def preempting() -> ServeResult:
    found = st.serve(PREEMPTING)
    assert found.metrics["served_preemptions"] > 3
    return found


@pytest.fixture(scope="session")
def several() -> ServeResult:
    return st.serve(SEVERAL)


@pytest.fixture(params=["preempting", "several"])
def service(request: pytest.FixtureRequest) -> ServeResult:
    found: ServeResult = request.getfixturevalue(request.param)
    return found
