"""The hardware level: networks of small units on one clock, cycle by cycle, as in the paper's HDL.

``st.hardware.simulate(program)`` runs a program by the units of its operators, and
``st.hardware.simulate(st.hardware.swiglu(64, 256, 512, 16, 64))`` the layer of Figure 8.
"""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
