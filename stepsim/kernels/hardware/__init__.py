"""Units of the hardware level, which all work in every cycle of one clock."""
