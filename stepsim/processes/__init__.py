"""Worker processes of this machine, fresh or forked, which end together with their parent."""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
