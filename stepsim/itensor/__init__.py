"""Typed streams (itensors): a tensor as tokens in the order of a loop nest, and connections between
two.

``st.itensor.ITensor`` is the type. ``matches`` says whether a FIFO alone can join two streams,
``difference`` says why not, and ``converter`` gives the buffer that is needed.
"""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
