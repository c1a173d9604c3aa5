"""Published points through ``stepsim run moe``."""

from __future__ import annotations

import pytest

from tests.cli.published import ROUTING, canonical_cycles, needs_traces, truth

QWEN = "qwen3-30b-a3b"


@needs_traces
@pytest.mark.parametrize(
    ("model", "file", "tile", "point"),
    [
        *[(QWEN, "qwen_b64/032_012.npz", t, "f9_qwen") for t in (8, 16, 32, 64, "dynamic")],
        ("mixtral-8x7b", "mixtral_b64/008_010.npz", 64, "f9_mixtral"),
        ("mixtral-8x7b", "mixtral_b64/008_010.npz", "dynamic", "f9_mixtral"),
        (QWEN, "qwen_b1024/022_016.npz", "dynamic", "f10_qwen"),
    ],
)
def test_published_points(run, model: str, file: str, tile: object, point: str) -> None:
    """`--config published` gives the recorded cycles and bytes, to the unit."""
    outcome = run("--json", "--config", "published", model=model, routing=ROUTING / file, tile=tile)
    assert outcome.code == 0, outcome.err
    found = outcome.json()
    name = f"{point}_{'dyn' if tile == 'dynamic' else tile}"
    row = truth(name)
    assert found["cycles"] == canonical_cycles(name)
    assert found["offchip_bytes"] == int(row["off_chip_bytes"])
    assert found["onchip_bytes"] == int(row["on_chip_bytes"])
    assert found["flops"] == int(row["flops"])
    assert found["padded_flops"] == int(row["padded_flops"])


@needs_traces
def test_the_published_bandwidth_utilisation(run) -> None:
    """As printed, to two decimals of a percent; it follows the published counting of stores."""
    trace = ROUTING / "qwen_b64/032_012.npz"
    found = run("--json", "--config", "published", "--regions", 128, routing=trace, tile=32).json()
    published = float(truth("f12_static_128")["offchip_bw_util_pct"])
    assert round(100 * found["bandwidth_utilization"], 2) == published
    assert round(100 * found["executed_bandwidth_utilization"], 2) != published
