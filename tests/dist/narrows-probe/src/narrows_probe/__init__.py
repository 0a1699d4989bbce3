"""Plugins that leave a trace which a test can see from outside."""

from __future__ import annotations
