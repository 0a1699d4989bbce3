"""The shared gateway, for the tests of this folder."""

from __future__ import annotations

from tests.e2e.fixtures import quick, serve_once, stage, three_targets

__all__ = ["quick", "serve_once", "stage", "three_targets"]
