"""Routing follows the request: token t brings its own experts in whatever step computes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepsim.errors import ArgError, ServingError, TraceError
from stepsim.serving import Empirical, Recording, RequestRouting, Zipf, read_recording
from stepsim.serving.steps import routing as routing_module
from stepsim.serving.steps.routing import alias_table
from stepsim.trace_io import RoutingTable, write_routing
from tests.serving.small import LAYERS, batch, requests, routing, small

WHOLE = batch((3, 30, 0))


def test_tokens_have_their_experts_in_any_step() -> None:
    made = routing()
    whole = made.all_ids(WHOLE)
    assert whole.shape == (LAYERS, 30, 2)
    # In chunks, behind other requests, computed again, and layer by layer.
    chunk = made.all_ids(batch((7, 4, 0), (3, 10, 5), (1, 1, 2)))
    np.testing.assert_array_equal(chunk[:, 4:14], whole[:, 5:15])
    np.testing.assert_array_equal(made.all_ids(batch((3, 1, 29)))[:, 0], whole[:, 29])
    for layer in range(LAYERS):
        np.testing.assert_array_equal(made.ids(WHOLE, layer), whole[layer])
    assert not np.array_equal(made.all_ids(batch((4, 30, 0))), whole)
    assert not np.array_equal(whole[0], whole[1])
    assert not np.array_equal(routing(seed=6).all_ids(WHOLE), whole)


def test_counts_are_those_of_the_ids() -> None:
    made, step = routing(), batch((7, 4, 0), (3, 10, 5), (1, 1, 2))
    expected = [np.bincount(ids.ravel(), minlength=4) for ids in made.all_ids(step)]
    np.testing.assert_array_equal(made.counts(step), expected)


@pytest.mark.parametrize("blocks", [2, 4096])
def test_long_chunks_are_counted_by_blocks_of_tokens(
    blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing_module, "_BLOCKS", blocks)
    drawn = routing()
    for _ in range(2):
        for one in (
            batch((0, 700, 0), (1, 1, 511), (2, 256, 256), (3, 255, 1), (4, 300, 213)),
            batch((0, 1500, 37), (4, 257, 511)),
            batch((3, 1, 255), (2, 1, 256)),
        ):
            ids = drawn.all_ids(one).reshape(drawn.layers, -1)
            each = [np.bincount(row, minlength=drawn.experts) for row in ids]
            assert np.array_equal(drawn.counts(one), each)
    assert 0 < len(drawn._blocks) <= blocks


def test_experts_of_a_token_differ_even_when_one_has_nearly_all() -> None:
    ids = routing(exponent=8.0).all_ids(WHOLE)
    assert (ids[..., 0] != ids[..., 1]).all()
    assert len(np.unique(ids[0, :, 0])) < 3


def test_frequencies_are_those_of_the_distribution() -> None:
    made = routing(exponent=1.0)
    expected = Zipf(1.0).frequencies(LAYERS, 4, 5)
    first = made.all_ids(batch(*((i, 2000, 0) for i in range(10))))[..., 0]
    for layer in range(LAYERS):
        share = np.bincount(first[layer], minlength=4) / first.shape[1]
        np.testing.assert_allclose(share, expected[layer] / expected[layer].sum(), atol=0.012)


def test_alias_tables_keep_the_frequencies() -> None:
    frequencies = np.random.default_rng(0).random((3, 17)) ** 3
    threshold, alias = alias_table(frequencies)
    found = np.zeros_like(frequencies)
    for row in range(3):
        kept = threshold[row] / 2**32
        found[row] += kept
        np.add.at(found[row], alias[row], 1 - kept)
    expected = 17 * frequencies / frequencies.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_recorded_routing_follows_the_request() -> None:
    rng = np.random.default_rng(1)
    served = requests(6)
    sizes = served.prompt_tokens + served.output_tokens - 1
    begin = np.concatenate([[0], np.cumsum(sizes)])
    ids = np.argsort(rng.random((int(begin[-1]), LAYERS, 4)), axis=2)[..., :2].astype(np.int32)
    made = RequestRouting.recorded(small(), served, Recording(ids, begin, "own"))
    found = made.all_ids(batch((4, 1, 0), (2, 3, 1)))
    rows = [begin[4], begin[2] + 1, begin[2] + 2, begin[2] + 3]
    np.testing.assert_array_equal(found, ids[rows].transpose(1, 0, 2))
    with pytest.raises(ServingError, match=r"request 2 computes token .*, of which nothing was"):
        made.counts(batch((2, 1, int(sizes[2]))))
    short = Recording(ids[: begin[5]], begin[:6], "own")
    with pytest.raises(ServingError, match="own has 5 requests, expected one of number 5"):
        RequestRouting.recorded(small(), served, short)
    fewer = Recording(ids, begin - np.arange(7) // 6, "own")
    with pytest.raises(ServingError, match=r"own has \d+ tokens of request 5, expected the \d+"):
        RequestRouting.recorded(small(), served, fewer)
    likely = Empirical(Recording(ids, begin, "own").counts(4)).frequencies(LAYERS, 4, 0)
    assert likely.shape == (LAYERS, 4)
    assert likely.sum() == pytest.approx(ids.size + LAYERS * 4 * 0.5)


def test_a_trace_whose_steps_are_requests(tmp_path: Path) -> None:
    tables = [
        RoutingTable(np.array([[layer, 3], [1, 2]]), layer=layer, step=step)
        for step in range(2)
        for layer in range(LAYERS)
    ]
    write_routing(tables, tmp_path / "trace.parquet")
    found = read_recording(tmp_path / "trace.parquet", small())
    assert found.begin.tolist() == [0, 2, 4]
    assert found.ids[2].tolist() == [[0, 3], [1, 3], [2, 3]]
    with pytest.raises(ServingError, match="has 3 layers, expected the 4 of tiny with experts"):
        read_recording(tmp_path / "trace.parquet", small(layers=4))
    write_routing(tables[:-1], tmp_path / "short.parquet")
    with pytest.raises(ServingError, match="step 1 lacks tokens of a layer"):
        read_recording(tmp_path / "short.parquet", small())
    with pytest.raises(TraceError):
        read_recording(tmp_path / "none.parquet", small())


def test_bad_distributions() -> None:
    with pytest.raises(ArgError, match="zipf: expected an exponent from 0 to 8, found -1"):
        Zipf(-1)
    with pytest.raises(ArgError, match="seed: expected a whole number from 0"):
        routing(seed=-1)
    with pytest.raises(ArgError, match="model dense has no experts"):
        RequestRouting.drawn(small(name="dense", experts=None), requests(), Zipf(), 0)
    with pytest.raises(ArgError, match="recording has experts to 4, expected those of a model"):
        Empirical(np.ones((2, 5), dtype=np.int64)).frequencies(3, 4, 0)
