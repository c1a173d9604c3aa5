from stepsim.pytest_plugin.entries import METRICS as METRICS
from stepsim.pytest_plugin.guard import Cycles as Cycles, CyclesCheckFailed as CyclesCheckFailed
