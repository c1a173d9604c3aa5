"""Drawing of graphs: where boxes lie, and boxes, edges and frames as SVG."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
