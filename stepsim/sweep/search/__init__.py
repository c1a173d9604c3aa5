"""Search of design spaces: which designs to simulate, when not all of them are."""

from stepsim.sweep.search.spec import SearchOptions, TuneSpec
from stepsim.sweep.search.tune import Trial, TuneProgress, Tuning, tune

__all__ = ["SearchOptions", "Trial", "TuneProgress", "TuneSpec", "Tuning", "tune"]
