"""The totals of the workload that speed is measured with."""

from __future__ import annotations

import pytest

from tests.serving.yardstick import CONVERSATION, Totals, conversation, serve
from tests.shared import NO_TRACES, recorded


@recorded(CONVERSATION, NO_TRACES)
@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1000, Totals(
            176_844, 804_352, 13_732_944, 0, 344_182_771_600, 704_733_808_113, 5_617_141_892_673,
        )),
        (None, Totals(
            1_978_435, 11_677_184, 144_793_823, 0, 3_550_060_446_880, 7_806_902_511_793,
            64_091_444_089_633,
        )),
    ],
    ids=["first thousand", "all"],
)  # fmt: skip
def test_conversation_on_eight_engines(count: int | None, expected: Totals) -> None:
    assert serve(conversation(count)) == expected
