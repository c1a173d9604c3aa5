"""The operators, one module per family. Use them through :mod:`stepsim.graph`."""

__all__: list[str] = []
