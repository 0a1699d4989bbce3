"""Plugins of the hook `narrow`: hard rules. Each removes targets and says why; none can add one."""

from __future__ import annotations
