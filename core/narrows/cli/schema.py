"""`narrows schema`: the JSON Schema of the configuration, so that an editor completes and checks it."""

from __future__ import annotations

from typing import Annotated

import typer

from narrows.cli.output import document, problems_of, refuse, tell, told
from narrows.errors import ConfigError, Problem


def schema(
    as_json: Annotated[bool, typer.Option("--json", help="JSON, which is what it prints anyway.")] = False,
) -> None:
    """Print the JSON Schema of the configuration.

    With the options of every kind that is installed, also other distributions'. For editors: see docs/how-to/editor.md.
    """
    from narrows.config.schema import schema_of
    from narrows.registry import Registry

    problems: list[Problem] = []
    try:
        found = schema_of(Registry(), problems)
    except ConfigError as error:
        refuse(problems_of(error), as_json=as_json)
    document(found)
    for problem in problems:
        tell(told(problem))
