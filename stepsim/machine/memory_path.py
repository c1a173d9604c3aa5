"""The path between operators and the DRAM: ports, an arbiter, and the addresses of tensors.

All but ``outstanding`` has an effect only with the memory model ``dram``.
"""

from __future__ import annotations

from stepsim.machine.section import Section, choice, integer, nullable, section, setting

_BYTES = integer(1, 1 << 30)

DRAM_OUTSTANDING = 64
"""Reads of a port of the model 'dram' that may be under way where the machine states no number."""

OF_EVERY_MODEL = ("outstanding",)
"""The values of ports that have an effect with every memory model."""


@section
class Port(Section):
    """The ports of loads and stores, and the path that their requests share."""

    request: str = setting(
        choice("split", "lock-step"),
        "'split': a request becomes as many DRAM accesses as its bytes need; 'lock-step': it "
        "is one access to as many stacks in lock-step as its bytes need",
        default="split",
    )
    outstanding: int | None = setting(
        nullable(integer(1, 1 << 12)),
        "requests of a port that may be under way, with model 'dram' reads; null: "
        f"{DRAM_OUTSTANDING} with model 'dram', any number with the others",
        default=None,
    )
    read_ahead: int = setting(
        integer(0, 1 << 12),
        "requests that a load without a reference issues ahead of demand",
        default=0,
    )
    request_latency: int = setting(
        integer(1, 64), "cycles from the grant of a request to the DRAM", default=1
    )
    response_latency: int = setting(
        integer(0, 1 << 20), "cycles from the DRAM to the operator", default=1
    )
    requests_per_cycle: int = setting(
        integer(1, 1 << 10), "requests of all ports that are granted and sent per cycle", default=1
    )
    when_refused: str = setting(
        choice("wait", "pass"),
        "what happens behind a request that a full DRAM queue rejects: 'wait', or 'pass', where "
        "requests to other channels overtake it",
        default="wait",
    )
    first: int = setting(integer(0, 1 << 20), "port that the arbiter asks first", default=0)


@section
class Addresses(Section):
    """Addresses of tensors in the DRAM, unless a run states them for single tensors."""

    layout: str = setting(
        choice("row_major", "tiled", "stream"),
        "order of a tensor's bytes: 'row_major' by rows of the tensor, 'tiled' tile by tile, "
        "'stream' in the order of use with a copy for every repeat, separately for each operator",
        default="row_major",
    )
    bases: str | int = setting(
        {"anyOf": [choice("packed", "zero"), integer(1, 1 << 30)]},
        "addresses of the first bytes: 'packed' one tensor after the other, 'zero' all at 0, "
        "distinguished above the bits of the DRAM, or the bytes from one to the next",
        default="packed",
    )
    alignment: int = setting(_BYTES, "alignment of packed addresses in bytes", default=4096)
    entry_bytes: int = setting(
        _BYTES, "bytes of an entry of the layout 'stream', before padding",
        default=1024,
    )  # fmt: skip
    entry_padding_bytes: int = setting(
        integer(0, 1 << 20),
        "bytes after every entry of the layout 'stream', such as a word that marks ends of dims",
        default=0,
    )
