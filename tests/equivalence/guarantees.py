"""What holds whatever kind of provider is behind a target, as a closed enum: the other key of the table.

A guarantee that is added here fails the type check until its check exists (table.py), and then it is asked of every
kind. What each one says stands in the docstring of its check.
"""

from __future__ import annotations

from enum import StrEnum


class Guarantee(StrEnum):
    """Every guarantee that exists today."""

    # who is calling
    UNAUTHENTICATED = "unauthenticated"
    GRANTS = "grants"
    ATTRIBUTE_FORBIDDEN = "attribute_forbidden"
    BOUND_ATTRIBUTE = "bound_attribute"
    OBJECTION = "objection"
    CREDENTIALS_STAY = "credentials_stay"

    # what a rule removes
    RESIDENCY = "residency"
    SILENCE = "silence"
    SILENCE_REFUSED = "silence_refused"
    CAPABILITY = "capability"
    CONTEXT_WINDOW = "context_window"
    PRICE_CEILING = "price_ceiling"
    ALLOWED_CLASSES = "allowed_classes"
    BROKEN_RULE = "broken_rule"
    NO_WIDENING = "no_widening"
    MONEY = "money"

    # what is sent
    NO_PASS_THROUGH = "no_pass_through"
    UNREADABLE_BODY = "unreadable_body"
    REFUSED_FIELD = "refused_field"
    MODEL = "model"
    JUDGED_IS_SENT = "judged_is_sent"

    # what went wrong upstream
    CONTENT_REFUSAL_STOPS = "content_refusal_stops"
    KEY_FAULT_STOPS = "key_fault_stops"
    LONG_PROMPT_STOPS = "long_prompt_stops"
    BAD_REQUEST_STOPS = "bad_request_stops"
    MOVES_INSIDE_THE_SET = "moves_inside_the_set"
    LEAVING = "leaving"

    # what is kept of it
    RECORD = "record"
    NO_CONTENT_KEPT = "no_content_kept"
    EXPLAIN = "explain"
