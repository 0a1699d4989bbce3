"""Two kinds for Narrows: a constraint and a budget. Copy the one that is nearest to yours."""

from __future__ import annotations

from narrows_example.business_hours import BusinessHours
from narrows_example.example_budget import ExampleBudget

__all__ = ["BusinessHours", "ExampleBudget"]
