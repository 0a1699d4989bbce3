"""Plugins of the hook `authenticate`: who is calling, from headers alone."""

from __future__ import annotations
