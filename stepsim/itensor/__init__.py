"""Typed streams (itensors): a tensor as tokens in the order of a loop nest, and what joins two.

``st.itensor.ITensor`` is the type. ``matches`` says whether a FIFO alone joins two streams,
``difference`` why not, and ``converter`` with which buffer then.
"""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
