"""How far the metrics of estimated steps may be off."""
