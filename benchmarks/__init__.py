"""Measurements that are printed, never asserted against a clock. Run one with `python -m benchmarks.NAME`."""
