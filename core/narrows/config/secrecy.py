"""What looks like a secret, and how it is kept out of every text. Source: DESIGN section 11.

A credential in a configuration file ends in a repository, a ticket, a terminal. So it is a load error, and the error
does not repeat it. The shapes below are those of well-known vendors, of our own keys, and of long random words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from narrows.errors import Problem

HIDDEN: Final = "…"

_VENDOR = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        nrw_[A-Za-z0-9_-]{8,}
      | (?:sk|pk|rk)[-_]
        (?![a-z]+(?:-[a-z0-9]{1,2})?(?![\w-]))                      # sk-bratislava-1 is a place
        (?=[A-Za-z_-]*[0-9]|[A-Za-z_-]{20})[A-Za-z0-9_-]{6,}
      | (?:gsk|xai|pplx|r8|hf|ghp|gho|ghs|github_pat|glpat|xox[abprs]|whsec)[-_][A-Za-z0-9_-]{12,}
      | AKIA[A-Z0-9]{12,} | AIza[A-Za-z0-9_-]{20,} | eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+
      | -----BEGIN\ [A-Z ]*PRIVATE\ KEY
      | [Bb]earer\ +(?=[A-Za-z_.~+/-]*[0-9])[A-Za-z0-9_.~+/-]{8,}
    )""",
    re.VERBOSE,
)
_RUN = re.compile(r"[A-Za-z0-9]{20,}")
_HEX = re.compile(r"[0-9a-fA-F]+")
_LONG = 32
_URL_USER = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#\s]*@")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHOUTED = re.compile(r"_*[A-Z][A-Z0-9]*(?:_+[A-Z0-9]+)*_*")


def is_vendor_key(text: str) -> bool:
    """Does it hold a key of a known shape?"""
    return _VENDOR.search(text) is not None


def is_random(text: str) -> bool:
    """Does it hold a long run of letters and digits that no word or model name is?"""
    for run in _RUN.findall(text):
        digits = sum(character.isdigit() for character in run)
        if digits < 2 or digits == len(run):
            continue
        mixed = run not in (run.lower(), run.upper()) and not _HEX.fullmatch(run)
        if mixed or (len(run) >= _LONG and (digits >= 6 or _HEX.fullmatch(run))):
            return True
    return False


def is_secret(text: str) -> bool:
    """Does it look like a credential?"""
    return is_vendor_key(text) or is_random(text)


def has_user(text: str) -> bool:
    """Is it a URL with a user, and so perhaps a password, in it?"""
    return _URL_USER.match(text) is not None


def is_variable(text: str) -> bool:
    """Can it be the name of an environment variable, and not the key itself?"""
    return _VARIABLE.fullmatch(text) is not None and not is_secret(text)


def is_plain_variable(text: str) -> bool:
    """Is it written as names of variables are, so that it may be shown?"""
    if _SHOUTED.fullmatch(text) is None or not is_variable(text):
        return False
    return not any(sum(character.isdigit() for character in run) > 1 for run in _RUN.findall(text))


def shown(value: object, longest: int = 40) -> str | None:
    """A value as it may be repeated in a text: short, and no secret. Else None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value) if len(str(value)) <= longest else None
    if isinstance(value, str) and len(value) <= longest and value.isprintable() and not is_secret(value):
        return repr(value)
    return None


def censored(problem: Problem, hidden: Iterable[str] = ()) -> Problem:
    """The problem without these secrets, and without any other word that looks like one."""
    return replace(
        problem,
        message=_without(problem.message, hidden),
        path=_without(problem.path, hidden),
        suggestion=None if problem.suggestion is None else _without(problem.suggestion, hidden),
        remedy=None if problem.remedy is None else _without(problem.remedy, hidden),
    )


def _without(text: str, hidden: Iterable[str]) -> str:
    for secret in hidden:
        text = text.replace(secret, HIDDEN)
    return _VENDOR.sub(HIDDEN, text)
