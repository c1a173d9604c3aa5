"""Building operator graphs: what models and importers are written with."""
