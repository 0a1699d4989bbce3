"""Inbound dialects: what a body says, decoded just far enough to decide."""
