"""The layers of public models, built from their config.json and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepsim.errors import ArgError
from stepsim.simulation import simulate
from stepsim.workloads import Attention, Built, Data, Decoder, Moe
from stepsim.workloads.models import Model, read_model
from tests.samples import sampled
from tests.workloads.configs import CONFIGS, write_config

BATCH = 4


def data_for(model: Model) -> Data:
    shape = model.feed_forward
    return Data.of(
        routing=[np.arange(i, i + shape.active) % shape.experts for i in range(BATCH)],
        kv_lengths=[3, 40, 0, 17],
    )


def check(built: Built, data: Data) -> None:
    """It runs to its end and moves the bytes that its formulas say."""
    result = simulate(built.program, bindings=built.bindings(data))
    assert result.status == "ok"
    metrics = built.program.metrics(counting="paper").bind(built.symbols(data))
    assert result.offchip_bytes == metrics.off_chip_traffic


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(sorted(CONFIGS), *sorted(CONFIGS)[::6]))
def test_layers_of_public_models(name: str, tmp_path: Path) -> None:
    model = read_model(str(write_config(tmp_path / name, CONFIGS[name])))
    data, inner = data_for(model), model.feed_forward.inner_dim
    if model.experts is None:
        with pytest.raises(ArgError, match=r"config\.json has no experts: none of"):
            Moe(model=model, tile="dynamic", tile_inter=inner).build(data)
    else:
        check(Moe(model=model, tile="dynamic", tile_inter=inner // 4).build(data), data)
    check(Attention(model=model, regions=2).build(data), data)
    decoder = Decoder(
        model=model, tile="dynamic", tile_inter=inner // 4, strategy="interleaved",
        attention_regions=2,
    )  # fmt: skip
    check(decoder.build(data), data)
