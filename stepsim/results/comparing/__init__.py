"""Two runs side by side: their numbers, what they depend on, and where their cycles went."""
