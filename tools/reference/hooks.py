"""The hooks, from their specifications: signature, what is asked, what None and what an exception mean."""

from __future__ import annotations

import inspect
import re

from narrows.hookspecs import LIFE_CYCLE, PIPELINE, Hooks
from tools.reference.text import anchor, needed, table

_NONE = re.compile(r"None: (.+?)\.(?= |$)")
_EXCEPTION = re.compile(r"An exception(?:: | )(.+?)\.(?= |$)")


def hooks() -> str:
    """The hooks of the request path in their order, then those of the life cycle."""
    parts = [table(("hook", "None means", "an exception means"), map(_line, PIPELINE))]
    parts += ["## The request path, in its order", *map(_hook, PIPELINE)]
    parts += ["## The life cycle", *map(_hook, LIFE_CYCLE)]
    return "\n\n".join(parts)


def signature(hook: str) -> str:
    """The hook as it would be written in a class."""
    specification = getattr(Hooks, hook)
    given = inspect.signature(specification)
    arguments = ", ".join(
        name if name == "self" else f"{name}: {parameter.annotation}" for name, parameter in given.parameters.items()
    )
    return f"def {hook}({arguments}) -> {given.return_annotation}: ..."


def _line(hook: str) -> tuple[str, str, str]:
    doc = _doc(hook)
    none, exception = _NONE.search(doc), _EXCEPTION.search(doc)
    return (
        f"[`{hook}`](#{anchor(hook)})",
        none[1] if none else "–",
        exception[1].removeprefix("is ") if exception else "–",
    )


def _hook(hook: str) -> str:
    return f"### `{hook}`\n\n```python\n{signature(hook)}\n```\n\n{_doc(hook)}"


def _doc(hook: str) -> str:
    return needed(f"hook {hook}", getattr(Hooks, hook).__doc__, f"a docstring in narrows.hookspecs.Hooks.{hook}")
