"""The calibration points of StepDB: workloads of others, built in the public language."""
