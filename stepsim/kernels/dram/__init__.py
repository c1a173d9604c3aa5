"""One channel of a DRAM, cycle by cycle; see :mod:`stepsim.kernels.dram.channel`."""
