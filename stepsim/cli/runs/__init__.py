"""Commands about one workload: run, why, size, inspect, compile."""
