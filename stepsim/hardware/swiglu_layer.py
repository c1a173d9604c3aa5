"""The SwiGLU layer of the paper's hardware validation (Figure 8) as a network of units."""

from __future__ import annotations

from typing import Literal

from stepsim.arguments import Range
from stepsim.errors import ArgError
from stepsim.hardware.network import Network
from stepsim.hardware.units import SIDE
from stepsim.typed import typed

_SIZE = Range(1 << 20, "elements of a dim")


@typed
def swiglu(
    B: int,
    D: int,
    F: int,
    tile_b: int,
    tile_inter: int,
    sink: Literal["writer", "printer"] = "writer",
) -> Network:
    """The layer down(silu(x gate) * (x up)) on hardware tiles of 16 x 16.

    Parameters
    ----------
    B, D, F : batch, model and inner dims of the layer, in elements.
    tile_b, tile_inter : logical tile of batch and inner dim, in elements.
    sink : ``writer`` stores the output through a fifth memory port, ``printer`` only takes it.

    Raises
    ------
    ArgError : a size that 16 does not divide, or a tile that does not divide its dim.
    """
    sizes = {"B": B, "D": D, "F": F, "tile_b": tile_b, "tile_inter": tile_inter}
    for name, size in sizes.items():
        if _SIZE.checked(f"swiglu: {name}", size) % SIDE:
            raise ArgError(
                f"swiglu: {name} must be a multiple of {SIDE}, the side of a hardware tile; found "
                f"{size}"
            )
    for whole, part, of, tile in ((B, tile_b, "B", "tile_b"), (F, tile_inter, "F", "tile_inter")):
        if whole % part:
            raise ArgError(f"swiglu: {tile} = {part} does not divide {of} = {whole}")
    if sink not in ("writer", "printer"):
        raise ArgError(f"swiglu: sink must be 'writer' or 'printer', found {sink!r}")
    rows, depth, cols = tile_b // SIDE, D // SIDE, tile_inter // SIDE
    batches, inners = B // tile_b, F // tile_inter

    network = Network(f"swiglu {B}x{D}x{F}, tiles {tile_b}x{tile_inter}")
    activations = network.reader("rd0", (1, batches, inners, 1, rows, depth))
    gate_weights = network.reader("rd1", (1, batches, inners, 1, cols, depth))
    up_weights = network.reader("rd2", (1, batches, inners, 1, cols, depth))
    down_weights = network.reader("rd3", (1, batches, 1, inners, depth, cols))
    first, second = network.fork("fork", activations)
    gate = network.matmul("gate", first, gate_weights, cols, rows)
    up = network.matmul("up", second, up_weights, cols, rows)
    gate = network.accumulator("gacc", gate, 3)
    up = network.accumulator("uacc", up, 3)
    gate = network.map("silu", gate, function="silu")
    hidden = network.map("mul", gate, up, function="mul")
    hidden = network.promote("prom", hidden, 3)
    # The weights are operand A in hardware, although they are operand B of the program.
    down = network.matmul("down", down_weights, hidden, rows, depth)
    output = network.accumulator("dacc", down, 3)
    if sink == "writer":
        network.writer("wr", output, last=5)
    else:
        network.printer("pr", output, last=5)
    return network
