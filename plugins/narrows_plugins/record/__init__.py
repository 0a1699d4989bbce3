"""Plugins of the hook `record`: where decisions are kept. None is built in yet."""

from __future__ import annotations
