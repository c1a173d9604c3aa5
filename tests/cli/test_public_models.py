"""``stepsim run moe`` and ``run decoder`` on the config.json of public models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepsim.workloads.models import read_model
from tests.cli.conftest import Cli
from tests.samples import sampled
from tests.workloads.configs import CONFIGS, write_config

LENGTHS = [3, 40, 0, 17]
DENSE = {"Llama-3.1-8B", "Qwen2.5-72B-Instruct-AWQ", "gemma-2-9b", "gemma-3-4b-it", "Qwen3-32B"}
DECODER = ("--tile", "dynamic", "--strategy", "interleaved", "--attention-regions", 2)


@pytest.fixture
def lengths(tmp_path: Path) -> Path:
    path = tmp_path / "kv.npy"
    np.save(path, np.array(LENGTHS))
    return path


def routing_file(folder: Path, experts: int, active: int) -> Path:
    path = folder / "routing.npy"
    np.save(path, [np.arange(i, i + active) % experts for i in range(len(LENGTHS))])
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(sorted(CONFIGS), min(CONFIGS)))
def test_layers_of_public_models(cli: Cli, tmp_path: Path, lengths: Path, name: str) -> None:
    file = write_config(tmp_path / name, CONFIGS[name])
    shape = read_model(str(file)).feed_forward
    routing = routing_file(tmp_path, shape.experts, shape.active)
    common = ("--model", file.parent, "--tile-inter", shape.inner_dim, "--json")
    moe = cli("run", "moe", *common, "--routing", routing, "--tile", "dynamic")
    given = ("--kv-lengths", lengths)
    if name in DENSE:
        assert (moe.code, moe.out) == (2, "")
        keys = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
        path = "text_config." if "text_config" in CONFIGS[name] else ""
        listed = ", ".join(path + key for key in keys)
        expected = f"error: model {file} has no experts: none of the keys {listed} is in the file"
        assert moe.err.startswith(expected)
    else:
        assert moe.code == 0, moe.err
        assert moe.json()["status"] == "ok"
        given = (*given, "--routing", routing)
    decoder = cli("run", "decoder", *common, *DECODER, *given)
    assert decoder.code == 0, decoder.err
    found = decoder.json()
    assert (found["status"], found["batch"], found["model"]) == ("ok", len(LENGTHS), name)
    routed = {i % shape.experts for i in range(len(LENGTHS) + shape.active - 1)}
    assert found["active_experts"] == len(routed)


def test_a_routing_of_a_dense_model_may_be_given(cli: Cli, tmp_path: Path, lengths: Path) -> None:
    file = write_config(tmp_path / "gemma", CONFIGS["gemma-3-4b-it"])
    common = ("decoder", "--model", file, "--kv-lengths", lengths, *DECODER, "--json")
    alone = cli("run", *common).json()
    given = cli("run", *common, "--routing", routing_file(tmp_path, 1, 1)).json()
    timed = ("wall_seconds", "trace", "trace_id", "layer", "step", "window", "routing")
    apart = {*timed, "provenance", "busiest_units"}
    assert {k: v for k, v in given.items() if k not in apart} == {
        k: v for k, v in alone.items() if k not in apart
    }
    assert (alone["routing"], given["routing"]["tokens"]) == (None, len(LENGTHS))
    assert (alone["active_experts"], alone["max_load"]) == (1, len(LENGTHS))
    assert alone["lengths"] == "kv.npy"
    looked = cli("inspect", *common).json()
    assert looked["numbers"]["offchip_bytes"] == alone["offchip_bytes"]

    np.save(tmp_path / "routing.npy", [[1]] * len(LENGTHS))
    refused = cli("run", *common, "--routing", tmp_path / "routing.npy")
    assert (refused.code, refused.out) == (2, "")
    assert "expert id 1 is out of range" in refused.err


def test_a_routing_of_experts_is_needed(cli: Cli, tmp_path: Path, lengths: Path) -> None:
    outcome = cli("run", "decoder", "--model", "deepseek-v3", "--kv-lengths", lengths, *DECODER)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "error: --routing: missing; workload decoder needs a trace in a file; "
        "`stepsim trace synth` makes a routing trace\n"
    )
