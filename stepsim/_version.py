"""Versions that travel with every result."""

__all__ = ["MODEL_VERSION", "__version__"]

__version__ = "1.0.0"
"""The version of the package."""

MODEL_VERSION = 3
"""Raised whenever any simulated time can differ for the same program and machine."""
