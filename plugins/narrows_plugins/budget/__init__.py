"""Plugins of the hook `budget`: money that is held before a call and settled after it. None is built in yet."""

from __future__ import annotations
