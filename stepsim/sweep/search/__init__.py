"""Search of design spaces: the choice of designs to simulate, if there are too many for all."""

from stepsim.sweep.search.spec import SearchOptions, TuneSpec
from stepsim.sweep.search.tune import Trial, TuneProgress, Tuning, tune

__all__ = ["SearchOptions", "Trial", "TuneProgress", "TuneSpec", "Tuning", "tune"]
