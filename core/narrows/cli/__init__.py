"""The `narrows` command: results on stdout, all else on stderr. Shapes and exit codes: INTERFACES, "Install and command line"."""

from __future__ import annotations

from narrows.cli.app import run

__all__ = ["run"]
