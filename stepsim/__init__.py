"""stepsim: simulate Streaming Tensor Programs on spatial dataflow accelerators.

``import stepsim as st`` provides the graph language (``st.Program``, ``st.linear_load``,
``st.map``, ..., functions in ``st.fn``), ``st.simulate`` and the results. Everything is imported on
first use, so that importing the package itself is free.
"""

from __future__ import annotations

import importlib
from typing import Any

from stepsim._version import MODEL_VERSION as MODEL_VERSION, __version__ as __version__
from stepsim.deferred import door

_offered, __dir__, __all__ = door(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__ or name.startswith("__"):
        return _offered(name)
    rooms = (importlib.import_module(f"stepsim.graph.{room}") for room in ("fn", "nn"))
    owners = [
        f"st.{room.__name__.rsplit('.')[-1]}.{name}" for room in rooms if name in room.__all__
    ]
    hint = f"; there is {' and '.join(owners)}"
    if not owners:
        hint = importlib.import_module("stepsim.errors").did_you_mean(name, __dir__())
    raise AttributeError(f"module 'stepsim' has no attribute {name!r}{hint.removesuffix('.')}")
