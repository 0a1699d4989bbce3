"""The commands, by name. Each module imports what is heavy only when its command runs, so that `--help` is quick."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from narrows.cli.check import check
from narrows.cli.classify import classify
from narrows.cli.demo import demo
from narrows.cli.explain import explain
from narrows.cli.keygen import keygen
from narrows.cli.output import OK, USAGE, tell
from narrows.cli.plugins import plugins
from narrows.cli.serve import serve

# Plain help, not rich's panels: the examples in it can be copied as they stand.
app = typer.Typer(
    name="narrows",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"narrows {version('narrows')}")
        raise typer.Exit(OK)


@app.callback(
    epilog="\b\nExample, without a key, a network or a file:\n  narrows demo\n\n"
    "Exit codes: 0 good, 1 a finding, 2 a usage or load error, 130 interrupted."
)
def narrows(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """The LLM gateway whose policy can be proved: eligibility before preference."""


app.command(
    epilog="\b\nExample:\n  narrows serve policy.toml routes.toml --port 8000\n  curl http://127.0.0.1:8000/health/ready"
)(serve)
app.command(epilog="\b\nExample:\n  narrows check policy.toml routes.toml")(check)
app.command(
    epilog="\b\nExample:\n  narrows explain policy.toml routes.toml --route chat --key ci --header x-region=eu"
)(explain)
app.command(epilog="\b\nExample:\n  narrows plugins\n  narrows plugins policy.toml routes.toml --json")(plugins)
app.command(epilog="\b\nExample:\n  narrows keygen")(keygen)
app.command(
    epilog='\b\nExample:\n  echo \'{"kind": "openai_compatible", "status": 429, "body": {"error": {"code": '
    '"insufficient_quota"}}}\' | narrows classify'
)(classify)
app.command(epilog="\b\nExample:\n  narrows demo --port 8080")(demo)


def run() -> None:
    """Run the command line and exit. No exception reaches the terminal as a traceback: its text may hold a secret."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name must not be what ends a command
    try:
        app(prog_name="narrows")
    except Exception as error:  # noqa: BLE001 - a bug of ours; everything expected was told where it happened
        from narrows.server.faults import fault

        tell(f"narrows: internal error ({fault(error)}). Please report it, with the command you ran.")
        sys.exit(USAGE)
