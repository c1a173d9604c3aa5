"""Steps of a service: some new tokens of each request on top of cached ones."""

from stepsim.workloads.step.parameters import Step as Step
