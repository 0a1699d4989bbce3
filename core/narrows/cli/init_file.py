"""The text of the starter file. Every label in it is the user's to state: where a vendor runs is not ours to claim."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

from narrows.cli.init_found import Found

_HEAD = """\
# A configuration of Narrows, written by `narrows init`. All of it is yours to change.
#
#   {check}
#       says what is wrong with it
#   {explain}
#       shows what a request would meet, and why
#   {serve}
#       serves it on 127.0.0.1:8000
#
# An editor completes it: `narrows schema > narrows.schema.json`, then write this as the first line of this file:
#   #:schema ./narrows.schema.json
"""

_POLICY = """
# ---- policy: what a request may say of itself, and which targets that rules out --------------------------------------

[attributes.data-region]
values = ["eu", "us"]
sources = ["header"]
header = "x-region"          # `x-region: eu` says: this must stay in the EU
missing = "unrestricted"     # silence demands nothing. The default, "floor", is stricter: silence may mean any value

[constraints.residency]      # a request that says eu reaches targets whose region is eu, and no other
kind = "attribute_match"
request_attribute = "data-region"
target_attribute = "region"
always = true                # on every route, also on those that are added tomorrow
"""

_TARGETS = """
# ---- targets: where a request can be sent ----------------------------------------------------------------------------
"""

_REGIONS = """\
# `region` is yours to fill in, from your contract with the vendor: "eu", "us". Until then it is "unknown", and a request
# that must stay somewhere is refused rather than sent there.
"""

_ECHO = """\
# No key and no local model was found, so this begins with `echo`, which answers in this process: no key, no network.
# Set a vendor's variable (OPENAI_API_KEY, MISTRAL_API_KEY, …) and run `narrows init --force`, or write a provider:
#
#   [providers.acme]
#   kind = "openai_compatible"
#   base_url = "https://api.acme.example/v1"
#   api_key_env = "ACME_API_KEY"     # the name of the variable, never the key

[providers.echo]
kind = "echo"

[targets.us-echo]
provider = "echo"
model = "us-1"
region = "us"                # made up, like the target

[targets.eu-echo]
provider = "echo"
model = "eu-1"
region = "eu"
"""

_ROUTES = """
# ---- routes: what callers write as `model` ---------------------------------------------------------------------------

[routes.chat]
targets = [{targets}]{order}
"""

_REST = """
# ---- callers: without a key, only this machine can use it. `narrows keygen` prints a key and its hash -----------------

# [keys.me]
# sha256 = "the hash that keygen prints"
# routes = ["chat"]

# ---- operation -------------------------------------------------------------------------------------------------------

# [sinks.ledger]               # keeps every decision, for `{decisions}`; needs `pip install 'narrows[ledger]'`
# kind = "sql"
# url = "sqlite:///narrows.db"

# [server]
# host = "127.0.0.1"
# port = 8000
"""


def starter(found: Sequence[Found], file: str) -> str:
    """The whole file. `file`: what it will be called, for the commands in its comments."""
    named = shlex.quote(file) if file.isprintable() else "narrows.toml"
    commands = {
        "check": f"narrows check {named}",
        "explain": f"narrows explain {named} --route chat --header x-region=eu",
        "serve": f"narrows serve {named}",
        "decisions": f"narrows decisions {named}",
    }
    targets = [name for name, _, _ in _named(found)] or ["us-echo", "eu-echo"]
    order = "   # the first that may and can answer" if len(targets) > 1 else ""
    body = _REGIONS + "".join(_blocks(found)) if found else _ECHO
    routes = _ROUTES.format(targets=", ".join(map(_text, targets)), order=order)
    return _HEAD.format(**commands) + _POLICY + _TARGETS + body + routes + _REST.format(**commands)


def _named(found: Sequence[Found]) -> Iterator[tuple[str, Found, str]]:
    """A target for each model: its name, its provider, the model."""
    for one in found:
        for number, model in enumerate(one.models, start=1):
            yield (one.name if number == 1 else f"{one.name}-{number}"), one, model


def _blocks(found: Sequence[Found]) -> Iterator[str]:
    for one in found:
        yield f'\n[providers.{one.name}]\nkind = "openai_compatible"\nbase_url = {_text(one.base_url)}\n'
        if one.variable is not None:
            yield _line(f"api_key_env = {_text(one.variable)}", "the name of the variable, never the key")
        for name, provider, model in _named([one]):
            yield f"\n[targets.{name}]\nprovider = {_text(provider.name)}\n"
            yield _line(f"model = {_text(model)}", "any model that you may use there")
            yield _line('region = "unknown"', f"fill in{': where this machine stands' if one.local else ''}")
            if not one.local:
                yield "# price = { input = 1.0, output = 4.0 }   USD per million tokens, from your contract\n"


def _line(code: str, comment: str) -> str:
    return f"{code:<40}  # {comment}\n"


def _text(value: str) -> str:
    return json.dumps(value)  # of printable ASCII, which TOML reads alike
