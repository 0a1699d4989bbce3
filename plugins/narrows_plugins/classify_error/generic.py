"""The classifier for OpenAI-shaped errors, and for whatever else speaks HTTP.

Evidence, best first: the kind of transport failure; a typed detail; code; type; the first words of the message; the
status. The body is unwrapped before all of it, and the innermost readable error decides. Text can only be the provider's
message, by its first words, so that a prompt which a provider echoes never changes a class. Source: DESIGN section 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from narrows import Block, Classified, Failure, FailureClass, Target, hookimpl
from narrows_plugins.classify_error.envelope import Envelope, Layer, layers_of, tells_an_answer, tells_an_error, unwrap
from narrows_plugins.classify_error.finishes import by_finish
from narrows_plugins.classify_error.phrases import by_message
from narrows_plugins.classify_error.statuses import by_status
from narrows_plugins.classify_error.verdicts import BROKEN, FORBIDDEN, MOVES, THROTTLED, TIMED_OUT, Verdict
from narrows_plugins.classify_error.waits import reset_wait, stated_wait
from narrows_plugins.classify_error.words import DEFAULTS, DETAILS, HINTS, decisive, fold

Layers: TypeAlias = tuple[Layer, ...]
Evidence: TypeAlias = Literal["transport", "detail", "code", "type", "message", "status", "finish", "body"]
_SOON = 3600.0
"""Seconds. A limit that reopens within the hour is a throttle, one that takes longer is a plan that is used up."""

_TIMEOUTS = frozenset({"connect_timeout", "read_timeout", "write_timeout", "pool_timeout"})


class ErrorClasses(Block):
    """Classifies failures of every provider by codes, types, known openings of messages and the status."""

    @hookimpl
    def classify_error(self, failure: Failure, target: Target) -> Classified | None:
        """What kind of failure this is; None for an answer that is none."""
        return classify(failure)


def classify(failure: Failure, now: float | None = None) -> Classified | None:
    """What kind of failure this is; None where the answer, event or finish is normal. Never raises.

    `now`: seconds since the epoch, for hints that name a moment in a reply that has no `date` header.
    """
    status = failure.status if failure.status is not None and failure.status >= 300 else None
    if failure.transport is not None and status is None:
        return _transport(failure.transport)
    if status is not None and status < 400:  # never followed, whatever its body says
        return _settle(by_status(status), "status")
    envelope = unwrap(failure.body)
    if status is None and not _failed(failure, envelope):
        finish = by_finish(envelope.root)
        return None if finish is None else _settle(finish, "finish")
    layers = layers_of(envelope)
    wait = stated_wait(failure.headers, layers, now)
    verdict, evidence = _judge(layers, status, _aws_word(failure))
    if verdict.clocked and wait is not None and wait <= _SOON:
        verdict = THROTTLED
    if verdict is THROTTLED and wait is None:
        wait = reset_wait(failure.headers, layers, now)
    return _settle(verdict, evidence, wait, status, *(layer.number for layer in layers))


def _transport(kind: str) -> Classified:
    verdict = TIMED_OUT if kind in _TIMEOUTS else BROKEN
    return Classified(verdict.failure_class, evidence="transport")


def _failed(failure: Failure, envelope: Envelope) -> bool:
    """Is a 2xx (or an event, or a finish) a failure by its form? A normal answer, or a normal event, is not."""
    if envelope.shape == "events":
        return tells_an_error(envelope.root)
    if envelope.shape != "json":
        return True
    if failure.phase == "response" and not tells_an_answer(envelope.root):
        return True
    return tells_an_error(envelope.root) or ":exception-type" in failure.headers


def _judge(layers: Layers, status: int | None, aws: str) -> tuple[Verdict, Evidence]:
    told = _told(layers) or status
    named = decisive(aws)
    if named is not None:
        return named, "detail"
    for layer in layers:
        for evidence, words in _ranked(layer):
            for word in words:
                verdict = DETAILS.get(word) if evidence == "detail" else None
                verdict = verdict or decisive(word)
                if verdict is not None:
                    return verdict, evidence
        verdict = by_message(layer.message, told) if layer.message else None
        if verdict is not None:
            typed = any(word in HINTS for word in (aws, *layer.codes, *layer.types))
            untold = verdict.typed and not typed and 403 in (told, status)
            return (FORBIDDEN if untold else verdict), "message"
    return _rest(layers, told, aws)


def _rest(layers: Layers, told: int | None, aws: str) -> tuple[Verdict, Evidence]:
    """Nothing settled it: the weaker words, then the status, then the form of the body."""
    words: list[tuple[Evidence, str]] = [("detail", aws)]
    words += [(evidence, word) for layer in layers for evidence, found in _ranked(layer) for word in found]
    for evidence, word in words:
        if word in HINTS:
            return HINTS[word], evidence
    if told is not None:
        return by_status(told), "status"
    for evidence, word in words:
        if word in DEFAULTS:
            return DEFAULTS[word], evidence
    return BROKEN, "body"


def _ranked(layer: Layer) -> Iterator[tuple[Evidence, tuple[str, ...]]]:
    yield "detail", layer.details
    yield "code", layer.codes
    yield "type", layer.types


def _told(layers: Layers) -> int | None:
    """The HTTP status the body tells, innermost first: a wrapper's own status says less than what it wraps."""
    return next((layer.number for layer in layers if layer.number is not None), None)


def _aws_word(failure: Failure) -> str:
    """AWS names its exceptions in a header, with a link after the colon."""
    return fold(
        (failure.headers.get("x-amzn-errortype") or failure.headers.get(":exception-type") or "").partition(":")[0]
    )


def _settle(verdict: Verdict, evidence: Evidence, wait: float | None = None, *statuses: int | None) -> Classified:
    """The answer. 403 stops, whatever else the reply says, because a guardrail or a budget may speak through it; 401 is
    held to the same, and is always proof that this credential does not work here."""
    failure_class, dead = verdict.failure_class, verdict.endpoint_dead
    if failure_class in MOVES and (403 in statuses or 401 in statuses):
        failure_class, dead = FailureClass.AUTHENTICATION, False
    if failure_class is FailureClass.AUTHENTICATION and 401 in statuses:
        dead = True
    return Classified(failure_class, dead, wait, evidence)
