"""The two-expert layer of the STeP paper, section 3.3, as a user writes it."""

from __future__ import annotations

import pytest

import stepsim.graph as st
from stepsim.graph import fn
from stepsim.simulation import simulate


def build(dynamic=False, second_selector=False):
    weights = [st.spec(64, 256), st.spec(64, 256)]
    streams = {}
    with st.Program("two_expert_moe", compute_bw=1024) as p:
        route = st.routing(st.spec(10, 1), experts=2)
        sel = route.multihot()
        tokens = st.linear_load(st.spec(10, 64), tile=(1, 64))
        branches = []
        for xs, w in zip(st.partition(tokens, sel, rank=1), weights, strict=True):
            flat = xs.flatten(0, 1)
            rows = flat.promote() if dynamic else flat.reshape(4, pad=0)
            block = rows.accum(fn.pack_rows, rank=1)
            wt = st.linear_load(w, tile=(64, 64), ref=block)
            act = block.unsqueeze(0).expand(4)
            y = st.map(fn.matmul, act, wt.flatten(0, 1))
            packed = y.accum(fn.pack_cols, rank=1)
            branches.append(packed.flat_map(fn.unpack_rows(drop_padding=True)))
            streams = {
                "xs": xs, "rows": rows, "block": block, "wt": wt, "act": act, "y": y,
                "packed": packed, "branch": branches[-1],
            }  # fmt: skip
        collected = route.multihot() if second_selector else sel
        out = st.reassemble(branches, collected, rank=0)
        st.linear_store(out, "moe_out")
    return p, route, {**streams, "sel": sel, "tokens": tokens, "out": out}


def test_shapes_in_the_comments_of_the_example():
    _, _, s = build()
    assert {name: x.describe() for name, x in s.items()} == {
        "sel": "Stream[10] of MultiHot[2, hot=1]",
        "tokens": "Stream[10, 1] of Tile[1x64 bf16]",
        "xs": "Stream[n1, 1] of Tile[1x64 bf16]",
        "rows": "Stream[ceil(n1/4), 4] of Tile[1x64 bf16]",
        "block": "Stream[ceil(n1/4)] of Tile[4x64 bf16]",
        "wt": "Stream[ceil(n1/4), 1, 4] of Tile[64x64 bf16]",
        "act": "Stream[ceil(n1/4), 4] of Tile[4x64 bf16]",
        "y": "Stream[ceil(n1/4), 4] of Tile[4x64 bf16]",
        "packed": "Stream[ceil(n1/4)] of Tile[4x256 bf16]",
        "branch": "Stream[n1] of Tile[1x256 bf16]",
        "out": "Stream[10, 1] of Tile[1x256 bf16]",
    }
    assert repr(s["out"]).startswith("Stream[10, 1] of Tile[1x256 bf16] <- reassemble#")


def test_metrics_of_the_example():
    p, route, _ = build()
    m = p.metrics(counting="published")
    assert {str(x) for x in m.off_chip_traffic.free_symbols} == {"n0", "n1"}
    bound = m.bind({route: [6, 4]})
    blocks = 2 + 1
    assert bound.off_chip_traffic == 10 * 64 * 2 + blocks * 64 * 256 * 2 + 10 * 256 * 4
    assert bound.flops == blocks * 2 * 4 * 64 * 256
    assert bound.operational_intensity == bound.flops / bound.off_chip_traffic


def test_dynamic_tiling_is_a_change_of_one_line():
    p, route, s = build(dynamic=True)
    assert s["rows"].describe() == "Stream[Min(1, n1), n1] of Tile[1x64 bf16]"
    assert s["block"].describe() == "Stream[Min(1, n1)] of Tile[n1x64 bf16]"
    assert s["branch"].describe() == "Stream[n1] of Tile[1x256 bf16]"
    m = p.metrics(counting="published")
    weight = 64 * 256 * 2
    assert m.bind({route: [10, 0]}).off_chip_traffic == 10 * 128 + weight + 10 * 1024
    assert m.bind({route: [6, 4]}).off_chip_traffic == 10 * 128 + 2 * weight + 10 * 1024
    assert m.bind({route: [6, 4]}).flops == 2 * 10 * 64 * 256


def test_the_example_can_be_wired():
    p, route, _ = build()
    wiring = st.wire(p, {route: [[0]] * 6 + [[1]] * 4})
    kinds = [u.kind for u in wiring.units]
    assert kinds[:3] == ["OffChipLoad", "SelectGen", "Partition"]
    assert kinds.count("Broadcast") == 3  # the selectors and the two blocks


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("cure", "status"), [("none", "deadlock"), ("second selector", "ok"), ("depth", "ok")]
)
def test_one_selector_for_both_ends_needs_a_cure(dynamic, cure, status):
    p, route, streams = build(dynamic, second_selector=cure == "second selector")
    if cure == "depth":
        streams["sel"].with_depth(10)
    assert p.fifo_depth == 2
    assert simulate(p, bindings={route: [[0]] * 6 + [[1]] * 4}).status == status


def test_a_second_selector_keeps_the_shapes():
    assert build(second_selector=True)[2]["out"].describe() == build()[2]["out"].describe()
