"""Bufferize with a memory of one buffer."""

from __future__ import annotations

from typing import Any

import pytest

import stepsim as st


def test_one_buffer_is_half_the_memory_and_not_in_the_format() -> None:
    def program(buffers: Any) -> st.Program:
        with st.Program("p") as made:
            x = st.linear_load(st.spec(8, 4, dtype="f32"), (1, 1))
            x.bufferize(1, buffers=buffers).streamify().consume()
        return made

    one, two = program(1), program(2)
    assert int(two.metrics().on_chip_memory) - int(one.metrics().on_chip_memory) == 4 * 4
    assert one.fingerprint() != two.fingerprint()
    with pytest.raises(st.StepSimError, match="buffers must be 1 or 2, found 3"):
        program(3)
    with pytest.raises(st.StepSimError, match="bufferize of two buffers, found 1"):
        one.to_graph()
