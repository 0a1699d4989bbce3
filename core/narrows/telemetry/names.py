"""Every span and attribute name, in one place. GenAI semantic conventions pinned at 0.66b2 (status: development)."""

from __future__ import annotations

from typing import Final

TRACER: Final = "narrows"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
ERROR_TYPE: Final = "error.type"

DECISION_ID: Final = "narrows.decision.id"
POLICY: Final = "narrows.policy"
ROUTE: Final = "narrows.route"
OUTCOME: Final = "narrows.outcome"
CODE: Final = "narrows.code"
OFFERED: Final = "narrows.targets.offered"
ELIGIBLE: Final = "narrows.targets.eligible"
ORDER: Final = "narrows.order"
TARGET: Final = "narrows.target"
ATTEMPT: Final = "narrows.attempt"
COST: Final = "narrows.cost_micro_usd"

EXCLUSION_EVENT: Final = "narrows.exclusion"
CONSTRAINT: Final = "narrows.constraint"
TARGETS: Final = "narrows.targets"

CHAT: Final = "chat"
