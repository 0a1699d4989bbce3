"""Helpers of our own tests: servers on real sockets, configurations, event streams."""
