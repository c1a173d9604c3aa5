"""Workloads on data and machines, run and measured."""
