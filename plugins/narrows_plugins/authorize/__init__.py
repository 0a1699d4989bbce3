"""Plugins of the hook `authorize`: may this request be served at all? None is built in yet."""

from __future__ import annotations
