"""What stands between operators and the DRAM: ports, an arbiter, and the places of tensors.

All of it has an effect with the memory model ``dram`` only.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepsim.machine.section import Section, choice, integer, setting

_BYTES = integer(1, 1 << 30)


@dataclass(init=False, unsafe_hash=True)
class Port(Section):
    """The ports of loads and stores, and the path that their requests share."""

    request: str = setting(
        choice("split", "lock-step"),
        "'split': a request is as many accesses of the DRAM as it has bytes for; 'lock-step': it "
        "is one access, of as many stacks in lock-step as its bytes take",
        default="split",
    )
    outstanding: int = setting(
        integer(1, 1 << 12), "reads of a port that may be under way", default=64
    )
    read_ahead: int = setting(
        integer(0, 1 << 12),
        "requests that a load without a reference makes ahead of those that it needs at present",
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
        "what happens behind a request that a queue of the DRAM refuses: 'wait', or 'pass' where "
        "requests to other channels go by",
        default="wait",
    )
    first: int = setting(integer(0, 1 << 20), "port that the arbiter asks first", default=0)


@dataclass(init=False, unsafe_hash=True)
class Addresses(Section):
    """Where tensors lie in the DRAM, unless a run says it of single ones."""

    layout: str = setting(
        choice("row_major", "tiled", "stream"),
        "order of a tensor's bytes: 'row_major' by rows of the tensor, 'tiled' tile by tile, "
        "'stream' in the order of use with a copy for every repeat, of every operator on its own",
        default="row_major",
    )
    bases: str | int = setting(
        {"anyOf": [choice("packed", "zero"), integer(1, 1 << 30)]},
        "addresses of the first bytes: 'packed' one tensor behind the other, 'zero' all at 0, told "
        "apart above the bits of the DRAM, or the bytes from one to the next",
        default="packed",
    )
    alignment: int = setting(_BYTES, "what packed addresses are multiples of", default=4096)
    entry_bytes: int = setting(
        _BYTES, "bytes of an entry of the layout 'stream', behind which padding follows",
        default=1024,
    )  # fmt: skip
    entry_padding_bytes: int = setting(
        integer(0, 1 << 20),
        "bytes behind every entry of the layout 'stream', as for a word that says where dims end",
        default=0,
    )
