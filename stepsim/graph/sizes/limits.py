"""Ranges of the numbers in a program; beyond them a run could not count its cycles."""

from __future__ import annotations

from stepsim.arguments import Range

MAX_LENGTH = 2**20
"""Most pieces that an integer of a stream may request along one dim; the engine's limit."""

MAX_PIECES = 2**40
"""Most pieces that a stream function may cut from one tile."""

MAX_VALUE = 2**63 - 1
"""Largest number that an element carries, as length, index or address."""

NUMBER = Range(2**61, "a number that an element carries", low=0)
CHIP = Range(2**16 - 1, "the number of a chip", low=0)
CHIPS = Range(2**16, "chips")
FIFO_DEPTH = Range(2**40, "elements that a FIFO can hold")
PAR_DISPATCH = Range(4096, "off-chip requests that one operator issues in one cycle")
COMPUTE_BW = Range(2**50, "FLOPs that one operator executes in a cycle")
FLOP_WEIGHT = Range(2**20, "FLOPs per unit of work of a function", low=0)
COUNT = Range(2**50, "elements of a stream or tiles of a tensor")
SIZE = Range(2**50, "elements of a stream or tiles of a tensor", low=0)
TAPS = Range(2, "outputs of a scan")
OPERANDS = Range(4096, "operands of one function")
STREAMS = Range(2**16, "streams that one operator reads or writes")
SELECTED = Range(2**16, "outputs that one selector names", low=0)
SIDE = Range(2**31 - 1, "rows or columns of a tile", low=0)
TILE_SIDE = Range(2**31 - 1, "rows or columns of a tile")
RANK = Range(1000, "dims of a stream, from the innermost", low=-1000)
BASE = Range(2**50, "tiles or bytes before the first", low=0)
WALK = Range(2**50, "tiles along each dim of a walk", low=0)
STEPS = Range(2**50, "tiles from one step of a walk to the next", low=0)
REPEATS = Range(2**50, "times that each element is repeated")
RESERVED = Range(2**50, "tiles of one request or expert")
CYCLES = Range(2**40, "cycles that one piece takes", low=0)
SWITCH = Range(2**40, "cycles that a change of stream takes", low=0)
