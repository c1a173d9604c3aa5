"""One channel of a DRAM, cycle by cycle."""
