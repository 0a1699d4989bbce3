"""`python -m narrows` and the `narrows` command."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line, or say which extra it needs."""
    if find_spec("rich") is None or find_spec("typer") is None:
        sys.stderr.write("narrows: the command line needs an extra: pip install 'narrows[cli]'\n")
        sys.exit(2)
    from narrows.cli import run

    run()


if __name__ == "__main__":
    main()
