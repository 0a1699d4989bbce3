"""Codes and types, as data: which words of an error body mean what.

Words are folded first (`fold`): "rate_limit_error", "RateLimitError" and "rate-limit" are one word. Three tables, by rank:
`decisive` words settle the class by themselves; `HINTS` are asked after the text, because providers put them on more than
one thing (a permission error that is a refusal); `DEFAULTS` are asked only where no status says anything (an error inside
a 200 stream), because providers put them on everything. Sources: the providers' error references and SDK schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from narrows_plugins.classify_error.verdicts import (
    BAD_KEY,
    BROKEN,
    FORBIDDEN,
    INVALID,
    MISSING,
    NO_MONEY,
    REFUSED,
    THROTTLED,
    TIMED_OUT,
    TOO_LONG,
    USED_UP,
    Verdict,
)

_NOT_A_LETTER = re.compile(r"[^a-z0-9]+")
_LONGEST = 100


def fold(word: str) -> str:
    """The word in lower case without marks and without a closing "error" or "exception". Over-long text is no word."""
    if len(word) > _LONGEST:
        return ""
    return _NOT_A_LETTER.sub("", word.lower()).removesuffix("exception").removesuffix("error")


def _table(*rows: tuple[Verdict, str]) -> Mapping[str, Verdict]:
    return MappingProxyType({fold(word): verdict for verdict, words in rows for word in words.split()})


_EXACT = _table(
    (
        BAD_KEY,
        """authentication authentication_failed auth unauthorized unauthenticated invalid_authentication
        ip_not_authorized unsupported_country_region_territory invalid_organization organization_on_hold
        organization_restricted claude_code_key_creator_not_member token_not_found_in_db expired_key no_user_found
        service_disabled iam_permission_denied credentials_missing account_state_invalid consumer_invalid
        api_key_service_blocked user_project_denied expired_token unrecognized_client invalid_signature
        invalid_client_token_id missing_authentication_token incomplete_signature key_model_access_denied
        access_denied_unpurchased user_location_not_supported invalid_subscription_key business1000 business1001
        business1002 business1003 business1004 business1110 business1111 business1112 business1121 baseresp1004
        baseresp2049 quota_zero""",
    ),
    (
        NO_MONEY,
        """insufficient_quota payment_required exceeded_current_quota exceeded_current_quota_error access_terminated
        blocked_api_access openrouter_credits openrouter_guardrail_budget openrouter_workspace_budget
        openrouter_key_limit allocation_quota_free_tier_only organization_usage_limit_exceeded billing_disabled
        business1113 business1309 baseresp1008""",
    ),
    (USED_UP, "usage_limit_reached usage_limit_exceeded quota_exceeded quota_exhausted business1308 business1310"),
    (
        THROTTLED,
        """throttling slow_down limit_burst_rate limit_requests limit_tokens too_many_requests throttled queue_exceeded
        request_quota_exceeded token_quota_exceeded too_many_tokens openrouter_in_flight_budget
        upstream_provider_shared_pool service_quota_exceeded rate_limited quota_id business1302 business1303
        business1304 business1305 business1312 business1313 baseresp1002 baseresp1039 baseresp1041""",
    ),
    (
        TIMED_OUT,
        """timeout request_timeout gateway_timeout upstream_timeout model_timeout deadline_exceeded timed_out
        inference_timeout operation_timeout vector_store_timeout baseresp1001""",
    ),
    (
        BROKEN,
        """overloaded server_is_overloaded engine_overloaded provider_overloaded provider_unavailable
        service_unavailable server_overloaded server_busy capacity_exceeded model_not_ready model_stream
        tool_use_failed json_validate_failed model_unavailable unavailable_model_backend business1234 baseresp1000
        baseresp1013 baseresp1024 baseresp1033""",
    ),
    (
        REFUSED,
        """content_filter content_filtered content_policy invalid_prompt moderation_blocked moderation_reasons cyber_policy
        bio_policy data_inspection_failed refusal unsafe_request prompt_blocked safety business1301 baseresp1026
        baseresp1027""",
    ),
    (
        TOO_LONG,
        """max_tokens_per_request request_too_large invalid_request_prompt_tokens tokens_limit_reached string_too_long
        token_limit_exceeded payload_too_large request_entity_too_large content_too_large exceed_context_size
        business1261 baseresp2056""",
    ),
    (
        MISSING,
        """deployment_not_found model_not_found model_not_exist no_such_model unknown_model invalid_model
        model_not_available model_decommissioned model_deprecated operation_not_supported unknown_url
        proxy_model_not_found no_endpoints_data_policy business1211 business1221 business1222""",
    ),
    (
        INVALID,
        """previous_response_not_found image_not_found file_not_found tool_not_found max_tokens_exceeded
        image_parse_error invalid_image invalid_image_url invalid_image_format""",
    ),
)

HINTS: Mapping[str, Verdict] = _table(
    (
        FORBIDDEN,
        """permission permission_denied forbidden access_denied request_forbidden not_authorized business1220
        business1311 the_caller_does_not_have_permission_to_execute_the_specified_operation""",
    ),
    (MISSING, "not_found resource_not_found some_requested_entity_was_not_found"),
)
"""Asked after the text. A permission error alone is no proof about the key, so it never says `endpoint_dead`."""

DEFAULTS: Mapping[str, Verdict] = _table(
    (INVALID, "invalid_request bad_request invalid_argument validation unprocessable unprocessable_entity"),
    (THROTTLED, "resource_exhausted tokens requests"),
    (TOO_LONG, "out_of_range"),
)
"""Asked where neither a status nor a numeric code says anything. Whatever else is there is a server error."""

DETAILS: Mapping[str, Verdict] = _table((INVALID, "invalid_prompt"))
"""Words that mean another thing as a typed detail than as a code. OpenRouter's `invalid_prompt` is a malformed message."""

_STOP_PATTERNS = (
    (
        NO_MONEY,
        (
            r"(?:spend|budget|billing|credit|(?<!load)balance|payment|funds)\w*"
            r"(?:limit|exceed|exhaust|reached|required|deplet|overdue|toolow|error$)|insufficient\w*(?:quota|balance|credit|fund)"
            r"|arrear|^billing$"
        ),
    ),
    (
        BAD_KEY,
        (
            r"(?:api|access)key|accesstoken|credential|(?:account|organization|project|user|key|token)\w*"
            r"(?:disabled|deactivated|suspended|revoked|expired|onhold|locked|banned|notmember|terminated|notverified)"
        ),
    ),
    (
        MISSING,
        (
            r"(?:model|deployment)\w*(?:notfound|notexist|notavailable|decommissioned|deprecated|retired)"
            r"|(?:unknown|nosuch|invalid)model$"
        ),
    ),
    (
        REFUSED,
        (
            r"(?:content|safety|moderation|responsibleai|cyber|bio|usage)\w*(?:policy|filter|violation|block|flag|inspection)"
            r"|policyviolation|sensitivecontent|unsafecontent|guardrail|jailbreak"
        ),
    ),
    (
        TOO_LONG,
        (
            r"context(?:length|window|size)\w*(?:exceed|limit|toolong|toolarge)|exceed\w*context(?:length|window|size)"
            r"|(?:prompt|input|request|tokens|characters|messages)too(?:long|large)"
        ),
    ),
)
_MOVE_PATTERNS = (
    (THROTTLED, r"ratelimit|throttl|toomanyrequest|concurren\w*limit|(?:rpm|tpm|rpd|tpd)limit"),
    (BROKEN, r"overload|capacityexceeded"),
    (TIMED_OUT, r"timeout$|timedout$|deadlineexceeded"),
)
_ABOUT_A_PARAMETER = re.compile(r"invalid|unsupported|missing|unknown|image|file|url|bad|unprocessable")
_COMPILED_STOPS = tuple((verdict, re.compile(pattern)) for verdict, pattern in _STOP_PATTERNS)
_COMPILED_MOVES = tuple((verdict, re.compile(pattern)) for verdict, pattern in _MOVE_PATTERNS)


def decisive(word: str) -> Verdict | None:
    """What a folded word settles: from the table, else by what it is made of (providers coin new ones on old stems)."""
    known = _EXACT.get(word)
    if known is not None or not word:
        return known
    found = _first(_COMPILED_STOPS, word)
    if found is None and _ABOUT_A_PARAMETER.match(word) is None:  # "invalid_timeout" speaks of the caller's field
        found = _first(_COMPILED_MOVES, word)
    return found


def _first(patterns: Iterable[tuple[Verdict, re.Pattern[str]]], word: str) -> Verdict | None:
    return next((verdict for verdict, pattern in patterns if pattern.search(word)), None)
