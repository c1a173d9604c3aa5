from stepsim.dram.patterns import (
    random_blocks as random_blocks,
    sequential as sequential,
    tiles as tiles,
)
from stepsim.dram.run import DramRun as DramRun
from stepsim.dram.streams import simulate as simulate, spec_of as spec_of

# isort: split
# for other rooms
from stepsim.dram.numbers import whole_array as whole_array
from stepsim.dram.patterns import splitmix as splitmix
