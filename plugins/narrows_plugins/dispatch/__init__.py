"""Plugins of the hook `dispatch`: how an attempt reaches a vendor."""

from __future__ import annotations
