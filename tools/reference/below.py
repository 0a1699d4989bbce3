"""What stands below a constant in its module: the text that says what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise


def texts_below(source: str) -> Iterator[tuple[str, ast.expr | None, str | None]]:
    """Each annotated name at the top of a module, with the value that it gets and the text below it."""
    for node, below in pairwise([*ast.parse(source).body, ast.Pass()]):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield node.target.id, node.value, text
                case _:
                    yield node.target.id, node.value, None
