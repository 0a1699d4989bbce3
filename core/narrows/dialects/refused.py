"""Request fields that would move a routing or processing decision outside the gateway.

They choose vendor-side fallback models, override provider selection or data policy, or attach search and other
processing that no rule here could judge or price. Refused by name, never dropped. Source: DESIGN section 9 and the third
seed (Token Observe, model routing).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from narrows.dialects.body import BadBody

_ROUTES = "Fallbacks and targets are configuration: list them in the route's `targets`."
_CONSTRAINTS = "Which providers may be used is configuration: list a constraint in the route's `constraints`."
_ORIGIN = "Where a request goes is configuration: `base_url` of the provider."
_CREDENTIAL = "Credentials are configuration: `api_key_env` of the provider."
_PROCESSING = "Vendor-side processing is configuration: put it into the target's `extra_body`."
_HEADERS = "Headers and extra fields for the vendor are configuration: `extra_body` of the target."
_RETRIES = "Retries and deadlines are configuration: `max_retries` of the provider, `failover_on` of the route."

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "models": _ROUTES,
        "fallbacks": _ROUTES,
        "fallback": _ROUTES,
        "fallback_models": _ROUTES,
        "context_window_fallbacks": _ROUTES,
        "content_policy_fallbacks": _ROUTES,
        "context_window_fallback_dict": _ROUTES,
        "model_list": _ROUTES,
        "route": _ROUTES,
        "router": _ROUTES,
        "routing": _ROUTES,
        "preset": _ROUTES,
        "deployment_id": _ROUTES,
        "specific_deployment": _ROUTES,
        "targets": _ROUTES,
        "strategy": _ROUTES,
        "provider": _CONSTRAINTS,
        "providers": _CONSTRAINTS,
        "provider_options": _CONSTRAINTS,
        "providerOptions": _CONSTRAINTS,
        "custom_llm_provider": _CONSTRAINTS,
        "only": _CONSTRAINTS,
        "order": _CONSTRAINTS,
        "allow_fallbacks": _CONSTRAINTS,
        "data_collection": _CONSTRAINTS,
        "api_base": _ORIGIN,
        "base_url": _ORIGIN,
        "api_type": _ORIGIN,
        "api_version": _ORIGIN,
        "region_name": _ORIGIN,
        "aws_region_name": _ORIGIN,
        "azure_endpoint": _ORIGIN,
        "vertex_project": _ORIGIN,
        "vertex_location": _ORIGIN,
        "vertex_ai_project": _ORIGIN,
        "vertex_ai_location": _ORIGIN,
        "aws_bedrock_runtime_endpoint": _ORIGIN,
        "allowed_model_region": _ORIGIN,
        "openai_api_base": _ORIGIN,
        "organization": _ORIGIN,
        "project": _ORIGIN,
        "deployment": _ROUTES,
        "gateway": _ROUTES,
        "router_settings_override": _ROUTES,
        "litellm_metadata": _ROUTES,
        "api_key": _CREDENTIAL,
        "azure_ad_token": _CREDENTIAL,
        "aws_access_key_id": _CREDENTIAL,
        "aws_secret_access_key": _CREDENTIAL,
        "aws_session_token": _CREDENTIAL,
        "aws_profile_name": _CREDENTIAL,
        "aws_role_name": _CREDENTIAL,
        "vertex_credentials": _CREDENTIAL,
        "litellm_credential_name": _CREDENTIAL,
        "user_config": _CREDENTIAL,
        "plugins": _PROCESSING,
        "transforms": _PROCESSING,
        "web_search_options": _PROCESSING,
        "web_search": _PROCESSING,
        "search_parameters": _PROCESSING,
        "search_settings": _PROCESSING,
        "enable_search": _PROCESSING,
        "search_options": _PROCESSING,
        "data_sources": _PROCESSING,
        "mcp_servers": _PROCESSING,
        "connectors": _PROCESSING,
        "guardrails": _PROCESSING,
        "compound_custom": _PROCESSING,
        "extra_headers": _HEADERS,
        "headers": _HEADERS,
        "extra_body": _HEADERS,
        "extra_query": _HEADERS,
        "num_retries": _RETRIES,
        "max_retries": _RETRIES,
        "mock_response": _RETRIES,
        "mock_testing_fallbacks": _RETRIES,
    }
)
"""Field -> what to configure instead."""


def folded(key: str) -> str:
    """A field's name without case, space, `-` and `_`: gateways behind us may take `apiBase` for `api_base`."""
    return key.strip().casefold().replace("_", "").replace("-", "")


_FOLDED: Final[Mapping[str, str]] = MappingProxyType({folded(key): remedy for key, remedy in REFUSED.items()})
_KEY_CHARS = 64

SUFFIXES: Final = ("online", "nitro", "floor", "free", "thinking", "extended", "exacto", "beta")
"""Routing suffixes of a model name (`model:online`): they switch search on or choose a sub-provider."""


def refuse_fields(found: Iterable[str]) -> None:
    """Raise BadBody (`field_refused`) naming the field and the operator-side remedy."""
    for key in found:
        remedy = _FOLDED.get(folded(key))
        if remedy is not None:
            name = key[:_KEY_CHARS]
            raise BadBody(f"the field {name!r} would choose or change the upstream outside the gateway. {remedy}", name,
                          "field_refused")  # fmt: skip


def routing_suffix(model: str) -> str | None:
    """The routing suffix of a model name, or None. Asked only after no route has that whole name."""
    base, colon, suffix = model.rpartition(":")
    return suffix if colon and base and suffix.casefold() in SUFFIXES else None
