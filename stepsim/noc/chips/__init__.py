"""Networks of chips: messages, and the collectives that send them."""
