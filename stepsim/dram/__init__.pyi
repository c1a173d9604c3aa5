from stepsim.dram.patterns import (
    random_blocks as random_blocks,
    sequential as sequential,
    splitmix as splitmix,
    tiles as tiles,
)
from stepsim.dram.run import DramRun as DramRun
from stepsim.dram.streams import simulate as simulate, spec_of as spec_of
