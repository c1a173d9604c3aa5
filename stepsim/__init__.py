"""stepsim: simulate Streaming Tensor Programs on spatial dataflow accelerators.

``import stepsim as st`` provides the graph language (``st.Program``, ``st.linear_load``,
``st.map``, ..., functions in ``st.fn``, layers in ``st.nn``), ``st.simulate`` and the questions
about a run. Everything else is in a namespace: ``st.workloads``, ``st.traces``, ``st.report``,
``st.design`` and so on. Everything is imported on first use, so that importing the package itself
is free.
"""

from __future__ import annotations

import sys

from stepsim._version import MODEL_VERSION as MODEL_VERSION, __version__ as __version__
from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)


class _MovedRooms:
    """The last finder of modules: rooms of earlier releases are refused with the new one."""

    places = {  # noqa: RUF012
        "stepsim.compiler": "stepsim.design",
        "stepsim.flow": "stepsim.design",
        "stepsim.testing": "stepsim.pytest_plugin",
    }

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> None:
        if name in cls.places:
            raise ModuleNotFoundError(f"{name} is now {cls.places[name]}", name=name)


sys.meta_path.append(_MovedRooms)
