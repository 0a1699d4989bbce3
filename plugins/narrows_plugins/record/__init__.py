"""Plugins of the hook `record`: where decisions are kept."""

from __future__ import annotations
