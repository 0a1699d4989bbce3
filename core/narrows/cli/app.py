"""The commands, by name. Each module imports what is heavy only when its command runs, so that `--help` is quick."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from textwrap import dedent, indent
from typing import Annotated

import typer

from narrows.cli.check import check
from narrows.cli.classify import classify
from narrows.cli.completion import completion, prepare
from narrows.cli.decisions import decisions
from narrows.cli.demo import demo
from narrows.cli.explain import explain
from narrows.cli.init import init
from narrows.cli.keygen import keygen
from narrows.cli.output import OK, USAGE, tell
from narrows.cli.plugins import plugins
from narrows.cli.schema import schema
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


_EXAMPLES: dict[Callable[..., None], str] = {
    demo: """
        narrows demo --port 8080
        curl -si http://127.0.0.1:8080/v1/chat/completions …       (it prints the lines to paste)
    """,
    init: """
        narrows init
        narrows.toml                                               (what was found, and what to do next, on stderr)
    """,
    serve: """
        narrows serve policy.toml routes.toml --port 8000
        curl http://127.0.0.1:8000/health/ready
        {"status":"ready","policy":"5d1e…"}
    """,
    check: """
        narrows check narrows.toml
        narrows.toml:19: targets.us.regoin: 'regoin' is no key here. Did you mean 'region'? …
        1 problem
    """,
    explain: """
        narrows explain narrows.toml --route chat --header x-region=eu
        target     residency          capability   context_window   eligible
        us-large   region is not eu   ✓            ✓                no
        eu-main    ✓                  ✓            ✓                yes
        …
    """,
    decisions: """
        narrows decisions narrows.toml --since 1h
        time (UTC)           id      route  outcome  code                target   attempts  cost USD  excluded
        2026-11-30 12:00:00  dec_1…  chat   refused  no_eligible_target  -        0         -         residency:1
        narrows decisions narrows.toml dec_1…                      (who, what was demanded, why each target went)
    """,
    schema: """
        narrows schema > narrows.schema.json
        #:schema ./narrows.schema.json                             (the first line of narrows.toml, for the editor)
    """,
    plugins: """
        narrows plugins narrows.toml
        plugin                  kind                          distribution   hooks           status
        constraints.residency   constraints.attribute_match   narrows …      narrow, check   active
        …
    """,
    keygen: """
        narrows keygen
        nrw_…                                                      (for the caller, shown once)
        [keys.NAME]                                                (for the configuration)
        sha256 = "…"
    """,
    completion: """
        source <(narrows completion bash)                          (a line for ~/.bashrc)
    """,
    classify: """
        echo '{"id": 1, "kind": "openai_compatible", "phase": "response", "status": 429}' | narrows classify
        {"id":1,"class":"rate_limited","moves":true,"endpoint_dead":false,"retry_after":null,"evidence":"status"}
    """,
}
for _command, _example in _EXAMPLES.items():
    app.command(epilog="\b\nExample:\n" + indent(dedent(_example).strip(), "  "))(_command)


def run() -> None:
    """Run the command line and exit. No exception reaches the terminal as a traceback: its text may hold a secret."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name must not be what ends a command
    prepare()
    try:
        app(prog_name="narrows")
    except Exception as error:  # noqa: BLE001 - a bug of ours; everything expected was told where it happened
        from narrows.server.faults import fault

        tell(f"narrows: internal error ({fault(error)}). Please report it, with the command you ran.")
        sys.exit(USAGE)
