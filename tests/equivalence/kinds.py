"""The provider kinds of this release, as a closed enum: what the table of guarantees is keyed by.

A rule that binds on one kind of provider and not on another is worse than none, because its operator believes to be
covered. So every guarantee is asserted once for each kind. A kind that is registered and not listed here fails
test_kinds.py; one that is listed here and has no row fails the type check (table.py).
"""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """Each is the KIND of an entry point `providers.KIND` of the distribution narrows."""

    OPENAI_COMPATIBLE = "openai_compatible"
    ECHO = "echo"
