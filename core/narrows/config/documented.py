"""What the keys of a table mean: the texts that stand below the fields of its class.

    region: str | None = None
    \"\"\"Where it runs.\"\"\"

Read from the source when somebody asks (an editor's schema, the reference), because importing must stay quick. A field
may say it by `Field(description=…)` too, which wins.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from textwrap import dedent

from pydantic import BaseModel


def described(model: type[BaseModel]) -> dict[str, str]:
    """Name of the field -> what it means, for those that say it. Inherited fields too."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            found |= _below_fields(cls)
    for name, field in model.model_fields.items():
        if field.description:
            found[name] = field.description
    return {name: text for name, text in found.items() if name in model.model_fields}


def help_of(model: type[BaseModel]) -> str:
    """The class's own docstring in lines that are not folded; empty where it has none."""
    return _unfolded(inspect.cleandoc(model.__doc__ or ""))


def texts_below(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr | None, str | None]]:
    """Each annotated name of a class or a module, with the value that it gets and the text that stands below it."""
    for node, below in pairwise([*body, ast.Pass()]):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield node.target.id, node.value, text
                case _:
                    yield node.target.id, node.value, None


def _below_fields(cls: type[BaseModel]) -> dict[str, str]:
    try:
        tree = ast.parse(dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}  # made at run time, or installed without its source
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {name: _unfolded(inspect.cleandoc(text)) for name, _, text in texts_below(body) if text is not None}


def _unfolded(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
