"""Programs: contexts, failed constructors, exit checks, assumptions, error text, fingerprints."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DimError, GraphError, RankError, StepError
from stepsim.graph import fn
from tests.graph.support import numbers, scratch, tiles


def line() -> int:
    frame = inspect.currentframe()
    return frame.f_back.f_lineno


def small(name="small", label=None, rows=8):
    with st.Program(name, compute_bw=64) as program:
        x = st.linear_load(st.spec(rows, 64), (1, 64), label=label)
        st.linear_store(x.map(fn.silu), "out")
    return program


# error text


def test_an_error_names_operator_dims_rule_hint_inputs_and_source_line():
    with scratch() as p:
        a, b = tiles(p.dim("n0")), tiles(p.dim("m0"))
        at = line() + 2
        with pytest.raises(DimError) as caught:
            st.map(fn.mul, a, b, label="scale")
    message = str(caught.value)
    assert message.startswith(
        "scale#2 (map): dim 0 differs: in1 [n0] has n0, in2 [m0] has m0 (unknown)."
    )
    assert "Use program.assume_equal(n0, m0)" in message
    assert "in1: Stream[n0] of Tile[1x64 bf16] <- feedback#0" in message
    assert f'at {__file__}:{at}: st.map(fn.mul, a, b, label="scale")' in message


def test_two_routings_in_different_encodings_get_a_pointed_hint():
    with scratch():
        first, second = (st.routing(st.spec(8, 1), experts=2) for _ in range(2))
        a = st.partition(tiles(8), first.multihot())[0]
        b = st.partition(tiles(8), second.multihot())[0]
        with pytest.raises(DimError, match=r"build both selectors from one routing\(\)"):
            st.map(fn.mul, a, b)


def test_errors_are_step_errors_and_value_errors():
    with scratch(), pytest.raises(ValueError) as caught:
        tiles(3).flatten(0, 1)
    assert isinstance(caught.value, StepError)


def test_a_failed_constructor_leaves_the_program_unchanged():
    with scratch() as p:
        x = tiles(3, 4)
        ragged = tiles(3, p.ragged("len"))
        addresses = st.feedback(st.Tile.of("u64", 1, 1), [3])
        for wrong in (
            lambda: ragged.accum(fn.pack_rows, 1, init=fn.zero((1, 64))),
            lambda: st.eager_merge(
                [ragged, tiles(3, p.operators[1].outputs[0].shape[1], dtype="f32")]
            ),
            lambda: addresses.flat_map(fn.cache_read_addresses(4), x),
            lambda: st.partition(ragged, addresses),
            lambda: ragged.reshape(4),
            lambda: x.flatten(0, 5),
            lambda: x.accum(fn.pack_rows, 9),
            lambda: st.map(fn.add, x, tiles(9, 9)),
            lambda: x.reshape(3, dim=1).reshape(5, dim=2),
        ):
            before, symbols = len(p.operators), dict(p.namer.provenance)
            with pytest.raises(StepError):
                wrong()
            made = p.operators[before:]  # operators that an argument made count, not the failed one
            assert [op.name for op in made] in ([], ["feedback"], ["reshape"])
            assert p.namer.provenance == symbols
            assert not any(r[0].id >= len(p.operators) for r in p.readers(x))


# contexts


def test_no_active_program():
    with pytest.raises(GraphError, match=r"no program is active\. Build inside"):
        st.linear_load(st.spec(8, 64), (1, 64))


def test_programs_do_not_nest():
    with scratch(), pytest.raises(GraphError, match="opened inside 'scratch'"), st.Program("inner"):
        pass


def test_streams_of_two_programs_do_not_mix():
    with scratch():
        other = tiles(3)
    with scratch(), pytest.raises(GraphError, match="Streams of two programs cannot meet"):
        st.map(fn.add, tiles(3), other)


def test_a_finished_program_takes_no_operators():
    program = small()
    with pytest.raises(GraphError, match="program 'small' is finished"):
        program.operators[0].outputs[0].map(fn.silu)
    with pytest.raises(GraphError, match="is finished"), program:
        pass


def test_the_context_is_left_after_an_error():
    with pytest.raises(RuntimeError), st.Program("broken"):
        raise RuntimeError
    assert st.Program("next").__enter__().__exit__(KeyboardInterrupt) is None


@pytest.mark.parametrize(
    ("what", "top", "why"),
    [
        ("compute_bw", 2**50, "FLOPs that one operator executes in a cycle"),
        ("fifo_depth", 2**40, "elements that a FIFO can hold"),
        ("par_dispatch", 4096, "off-chip requests that one operator issues in one cycle"),
    ],
)
def test_ranges_of_defaults(what, top, why):
    for bad in (0, -1, True, 2.5, 2.0, "4", top + 1, 10**5000):
        with pytest.raises(ArgError, match=f"Program 'p': {what} must be an int from 1 .*{why}"):
            st.Program("p", **{what: bad})
    for good in (1, np.int64(2), top):
        kept = getattr(st.Program("p", **{what: good}), what)
        assert kept == good
        assert type(kept) is int


def test_ranges_of_operators():
    with scratch():
        x = tiles(3)
        for bad in (True, 2.5, 2**50 + 1):
            with pytest.raises(
                ArgError, match=r"silu#1 \(map\): compute_bw must be an int .* to 2\*\*50"
            ):
                x.map(fn.silu, compute_bw=bad)
        for bad in (True, 2.5, 0, 4097):
            with pytest.raises(ArgError, match="par_dispatch must be an int from 1 to 4096"):
                st.linear_load(st.spec(8, 64), (1, 64), par_dispatch=bad)
        for bad in (True, 2.5, 0, 10**30):
            with pytest.raises(ArgError, match=r"depth must be an int from 1 to 2\*\*40"):
                st.random_store(numbers(3), tiles(3), st.spec(8, 64), depth=bad)


@pytest.mark.parametrize("rank", [0, -1, True, 1.0, None])
@pytest.mark.parametrize("dims", [(64,), (4, 8)])
def test_ranks_start_at_one(rank, dims):
    with scratch():
        for make in (
            lambda x: x.bufferize(rank),
            lambda x: x.accum(fn.add, rank),
            lambda x: x.scan(fn.add, rank),
            lambda x: st.map_accum(fn.matmul_t, x, x, rank),
        ):
            with pytest.raises(RankError, match="rank must be an int of at least 1, found"):
                make(tiles(*dims))


def test_ranks_end_at_that_of_the_stream():
    with scratch(), pytest.raises(RankError, match=r"rank 1 does not fit \[64\] of rank 0"):
        tiles(64).bufferize(1)


def test_program_wide_par_dispatch():
    with scratch(par_dispatch=4):
        shared = st.linear_load(st.spec(8, 64), (1, 64))
        own = st.linear_load(st.spec(8, 64), (1, 64), par_dispatch=2)
    assert shared.producer.unit_params({})["par"] == 4
    assert own.producer.unit_params({})["par"] == 2


# exit checks


def test_exit_reports_every_finding_at_once():
    def leaky():
        with st.Program("leaky"):
            st.feedback(st.Tile.of("bf16", 1, 64), [4], label="loop")
            st.linear_load(st.spec(8, 64), (1, 64), label="lost")

    first = line() - 2
    with pytest.raises(GraphError) as caught:
        leaky()
    message = str(caught.value)
    assert message.startswith("program 'leaky': 3 findings")
    assert "loop#0 (feedback) is never connected" in message
    assert "unconsumed stream: Stream[8, 1] of Tile[1x64 bf16] <- lost#1" in message
    assert f"test_program.py:{first}" in message


def test_consume_is_a_reader():
    with st.Program("quiet") as program:
        st.linear_load(st.spec(8, 64), (1, 64)).consume()
        st.linear_load(st.spec(8, 64), (1, 64)).print()
    assert [op.unit_kind for op in program.operators[1::2]] == ["Consumer", "Consumer"]


# streams


def test_streams_are_immutable():
    with scratch():
        x = tiles(3)
        with pytest.raises(AttributeError, match="State known sizes"):
            x.shape = ()
        with pytest.raises(RankError, match=r"dim 1 does not exist: .* has dims 0\.\.0"):
            x.dim(1)


def test_repr_is_readable():
    with scratch() as p:
        parts = st.partition(
            tiles(4, p.ragged("len")), st.selector([[1, 0]] * 4), rank=1, label="route"
        )
        assert repr(parts[1]) == ("Stream[0, ~len_3] of Tile[1x64 bf16] <- route#2.1")
        assert repr(p.dim("n")) == "Dim(n, DR)"


def test_depth_is_stated_once():
    with scratch():
        x = tiles(3)
        assert x.depth is None
        assert x.with_depth(16) is x
        assert x.with_depth(16).depth == 16
        with pytest.raises(ArgError, match="depth 4 contradicts depth 16"):
            x.with_depth(4)
        for bad in (0, True, 2.5, 2**40 + 1, 10**30):
            with pytest.raises(ArgError, match=r"FIFO depth must be an int from 1 to 2\*\*40"):
                x.with_depth(bad)
        assert tiles(3).with_depth(2**40).depth == 2**40


# assumptions


def test_assume_equal_unifies_and_is_recorded():
    with scratch() as p:
        n, m, k = p.dim("n"), p.dim("m"), p.dim("k")
        p.assume_equal(n, m)
        p.assume_equal(m, k)
        assert st.map(fn.add, tiles(n), tiles(k)).shape == (n,)
        assert len(p.assumptions) == 2
        assert (str(p.assumptions[0].left), str(p.assumptions[0].right)) == ("n", "m")
        assert "test_program.py" in p.assumptions[0].source
        p.assume_equal(n, k)  # follows already
        assert len(p.assumptions) == 2


def test_contradictions_are_found_at_once():
    with scratch() as p:
        n = p.dim("n")
        p.assume_equal(n, 4)
        with pytest.raises(DimError, match="n and 5 are different"):
            p.assume_equal(n, 5)
        with pytest.raises(DimError, match="are different"):
            p.assume_equal(n, n + 1)


def test_a_size_stated_equal_to_a_sum_with_itself_ends():
    with scratch() as p:
        n, m = p.dim("n"), p.dim("m")
        p.assume_equal(n, n + m)
        assert len(p.assumptions) == 1
        assert p.compare(n + m, p.dim("k")) is None


def test_assume_shape_makes_a_new_handle():
    with scratch() as p:
        n = p.dim("n")
        x = tiles(n, 4)
        y = x.assume_shape(8, 4)
        assert x.shape == (n, 4)
        assert y.shape == (8, 4)
        assert y.key == x.key
        assert len(p.assumptions) == 1
        assert st.map(fn.add, x, tiles(8, 4)).shape == (n, 4)
        with pytest.raises(RankError, match="State one dim for each"):
            x.assume_shape(8)
        with pytest.raises(DimError, match="5 contradicts 4"):
            x.assume_shape(8, 5)


# feedback


def test_feedback_checks_type_and_shape():
    with scratch() as p:
        n, m = p.dim("n"), p.dim("m")
        loop = st.feedback(st.Tile.of("bf16", 1, 64), [n])
        with pytest.raises(DimError, match=r"feedback \[n\] has n, stream \[m\] has m"):
            loop.connect(tiles(m))
        with pytest.raises(StepError, match="stream must carry"):
            loop.connect(tiles(n, cols=8))
        loop.connect(tiles(n))
        with pytest.raises(GraphError, match="already connected"):
            loop.connect(tiles(n))


# fingerprints


def test_fingerprint_depends_on_structure_alone():
    base = small()
    assert small("other name", label="named").fingerprint() == base.fingerprint()
    assert small(rows=16).fingerprint() != base.fingerprint()
    with st.Program("wider", compute_bw=128) as wider:
        st.linear_store(st.linear_load(st.spec(8, 64), (1, 64)).map(fn.silu), "out")
    assert wider.fingerprint() != base.fingerprint()


def test_fingerprint_is_the_same_in_another_process():
    code = (
        "import stepsim.graph as st\n"
        "with st.Program('x', compute_bw=64) as p:\n"
        "    x = st.linear_load(st.spec(8, 64), (1, 64))\n"
        "    st.linear_store(x.map(st.fn.silu), 'out')\n"
        "import sys; sys.stdout.write(p.fingerprint())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == small().fingerprint()


def test_fingerprint_sees_depths_and_routing_data():
    def routed(table, depth=None):
        with st.Program("r") as p:
            out = st.routing(table, experts=2).multihot()
            if depth:
                out.with_depth(depth)
            out.consume()
        return p.fingerprint()

    assert routed([[0], [1]]) == routed([[0], [1]])
    assert len({routed([[0], [1]]), routed([[1], [1]]), routed([[0], [1]], 4)}) == 3


def test_programs_can_be_pickled_and_copied():
    program = small()
    for twin in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program)):
        assert twin.fingerprint() == program.fingerprint()
        assert twin.metrics().flops == program.metrics().flops


def test_a_feedback_cannot_stand_for_itself():
    with st.Program() as p:
        kind = st.Tile.of("bf16", 1, 64)
        loop = st.feedback(kind, [4], label="loop")
        with pytest.raises(
            GraphError, match=r"loop#0 \(feedback\) is connected to itself"
        ) as error:
            loop.connect(loop)
        assert "test_program.py" in str(error.value)
        far = st.feedback(kind, [4], label="far")
        loop.connect(far)
        with pytest.raises(GraphError, match=r"far#1 \(feedback\) is connected to itself"):
            far.connect(loop)
        far.connect(st.map(fn.silu, loop, compute_bw=1))
    assert len(st.wire(p).units) == 1
