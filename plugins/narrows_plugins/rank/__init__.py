"""Plugins of the hook `rank`: preference. Each orders what the rules left."""

from __future__ import annotations
