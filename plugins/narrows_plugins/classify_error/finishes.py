"""Failures that arrive as success: a finish that is a refusal, an overflow or a fault.

More than half of all refusals come inside a 200. Only closed members are read (finish and stop reasons, `refusal`,
block reasons), never what the model wrote. Sources: the SDK schemas of OpenAI, Anthropic, google-genai, botocore; DeepSeek,
Z.AI, vLLM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from narrows_plugins.classify_error.verdicts import BROKEN, INVALID, REFUSED, TOO_LONG, Verdict
from narrows_plugins.classify_error.words import fold

_WORDS = (
    (
        REFUSED,
        """content_filter content_filtered content_policy refusal safety image_safety recitation blocklist
        prohibited_content spii guardrail_intervened sensitive jailbreak model_armor image_prohibited_content
        image_recitation image_other blocked""",
    ),
    (TOO_LONG, "model_context_window_exceeded context_length_exceeded context_window_exceeded"),
    (
        BROKEN,
        """error abort aborted network_error insufficient_system_resource malformed_function_call
        unexpected_tool_call malformed_model_output malformed_tool_use malformed_response too_many_tool_calls
        missing_thought_signature""",
    ),
    (INVALID, "language"),
)
FINISHES: Mapping[str, Verdict] = MappingProxyType(
    {word.replace("_", ""): verdict for verdict, words in _WORDS for word in words.split()}
)


def by_finish(root: object) -> Verdict | None:
    """What the final reply, chunk or event says of its end; None where the end is normal. A refusal beats the rest."""
    found = [verdict for verdict in _verdicts(root) if verdict is not None]
    if REFUSED in found:
        return REFUSED
    return found[0] if found else None


def _verdicts(root: object) -> Iterator[Verdict | None]:
    if not isinstance(root, dict):
        return
    response = root.get("response")
    if isinstance(response, dict):
        yield from _verdicts(response)
    for choice in _dicts(root.get("choices")):
        yield _reason(choice.get("finish_reason"))
        for part in (choice.get("message"), choice.get("delta")):
            if isinstance(part, dict) and isinstance(part.get("refusal"), str) and part["refusal"]:
                yield REFUSED
    yield _reason(root.get("stop_reason"))
    delta = root.get("delta")
    if isinstance(delta, dict):
        yield _reason(delta.get("stop_reason"))
    yield _reason(root.get("stopReason"))
    for candidate in _dicts(root.get("candidates")):
        yield _reason(candidate.get("finishReason"))
    feedback = root.get("promptFeedback")
    if isinstance(feedback, dict) and isinstance(feedback.get("blockReason"), str):
        yield REFUSED
    incomplete = root.get("incomplete_details")
    if isinstance(incomplete, dict):
        yield _reason(incomplete.get("reason"))
    for item in _dicts(root.get("output")):
        if any(part.get("type") == "refusal" for part in _dicts(item.get("content"))):
            yield REFUSED
    if root.get("type") in ("response.refusal.delta", "response.refusal.done"):
        yield REFUSED


def _reason(value: object) -> Verdict | None:
    if not isinstance(value, str):
        return None
    return BROKEN if value == "error" else FINISHES.get(fold(value))


def _dicts(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, list):
        yield from (item for item in value[:16] if isinstance(item, dict))
