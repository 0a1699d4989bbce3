"""`cost_ceiling`: targets that cost more than a cap leave. The lowest cap that applies to the request binds.

    [constraints.price-cap]
    kind = "cost_ceiling"
    max_cost_per_mtok_out = 100                     # USD per million tokens; also max_cost_per_mtok_in
    by = { "tag.intern" = 10, "attribute.output-use.training-data" = 20 }

`max_cost_per_request` compares the most that one call can cost: every byte of the prompt a token, the longest answer,
times n. A target without the price that is compared is excluded too. Source: DESIGN section 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Final, Literal, NamedTuple, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from narrows import CheckedConfig, Constraint, Exclusion, Problem, Request, Target, hookimpl, micro_usd, usd, worst_case
from narrows_plugins.narrow._labels import fold, folded, nearest

PRICE: Final = "price"
UNPRICED: Final = "unpriced"

Maximum: TypeAlias = Literal["out", "in", "request"]
Part: TypeAlias = Literal["attributes", "principal", "sizes"]
PerMillion: TypeAlias = tuple[Literal["out", "in"], int]
PerRequest: TypeAlias = tuple[Literal["request"], int, int, int | None, int]
Cap: TypeAlias = PerMillion | PerRequest
"""("out", micro-USD per million tokens), or ("request", micro-USD, prompt tokens, the caller's output limit, n)."""


def cost(cap: Cap, target: Target) -> int | None:
    """What is compared with the cap, in the cap's unit, or None where the target does not declare its price."""
    if cap[0] == "request":
        _, _, at_most, max_output, n = cap
        return worst_case(at_most, max_output, n, target)
    return target.price.output if cap[0] == "out" else target.price.input


class Who(NamedTuple):
    """To whom an entry of `by` applies: `word` is a tag, a tenant, or a value of the attribute `of`."""

    kind: Literal["tag", "tenant", "attribute"]
    word: str
    of: str = ""


def who(key: str) -> Who:
    """An entry's key, parsed. Raises ValueError for one of another form."""
    kind, _, rest = key.partition(".")
    of, _, value = rest.partition(".")
    if kind == "tag" and rest:
        return Who("tag", rest)
    if kind == "tenant" and rest:
        return Who("tenant", rest)
    if kind == "attribute" and of and value:
        return Who("attribute", fold(value), of)
    raise ValueError('must be "tag.NAME", "tenant.NAME" or "attribute.NAME.VALUE"')


def _key(key: str) -> str:
    who(key)
    return key


def _amount(amount: float) -> float:
    micro_usd(amount)
    return amount


Usd: TypeAlias = Annotated[float, AfterValidator(_amount)]
Key: TypeAlias = Annotated[str, AfterValidator(_key)]


class CostCeiling(Constraint[Cap]):
    """Only targets that cost no more than a cap.

    Options, in USD, at least one maximum: `max_cost_per_mtok_out` and `max_cost_per_mtok_in` per million tokens,
    `max_cost_per_request` for the most that one call can cost. `by`, beside exactly one maximum: further caps of it for
    "tag.T", "tenant.T" or "attribute.A.V".
    """

    max_cost_per_mtok_out: Usd | None = None
    """A cap on the output price, in USD per million tokens."""
    max_cost_per_mtok_in: Usd | None = None
    """A cap on the input price, in USD per million tokens."""
    max_cost_per_request: Usd | None = None
    """A cap on the most that one call can cost, in USD."""
    by: Mapping[Key, Usd] = Field(default_factory=dict)
    """Further caps for some callers: `tag.TAG`, `tenant.TENANT`, `attribute.NAME.VALUE`. Beside exactly one maximum."""

    @cached_property
    def caps(self) -> tuple[tuple[Maximum, int], ...]:
        """Each maximum in micro-USD."""
        given: tuple[tuple[Maximum, float | None], ...] = (
            ("out", self.max_cost_per_mtok_out),
            ("in", self.max_cost_per_mtok_in),
            ("request", self.max_cost_per_request),
        )
        return tuple((kind, micro_usd(amount)) for kind, amount in given if amount is not None)

    @cached_property
    def further(self) -> tuple[tuple[Who, int], ...]:
        """`by`, in micro-USD."""
        return tuple((who(key), micro_usd(amount)) for key, amount in self.by.items())

    @model_validator(mode="after")
    def _one_maximum(self) -> Self:
        if not self.caps:
            raise ValueError("must have max_cost_per_mtok_out, max_cost_per_mtok_in or max_cost_per_request, in USD")
        if self.further and len(self.caps) > 1:
            raise ValueError("has `by`, which needs exactly one maximum beside it; write a block for each maximum")
        return self

    @cached_property
    def reads(self) -> frozenset[Part]:  # type: ignore[override]
        """Exactly what this block needs. A cap per million tokens never sees sizes, so that the core can tell at load
        which values of an attribute lift it."""
        parts: set[Part] = {"attributes" if to.kind == "attribute" else "principal" for to, _ in self.further}
        return frozenset(parts if self.max_cost_per_request is None else parts | {"sizes"})

    def demands(self, request: Request) -> Iterable[Cap]:
        """One demand for each maximum: the lowest cap of it that applies."""
        lowest = min((cap for to, cap in self.further if _applies(to, request)), default=None)
        for kind, cap in self.caps:
            binding = cap if lowest is None else min(cap, lowest)
            if kind == "request":
                sizes = request.sizes
                yield "request", binding, sizes.at_most, sizes.max_output, sizes.n
            else:
                yield kind, binding

    def excludes(self, demand: Cap, target: Target) -> Exclusion | None:
        """`price`, or `unpriced` where the price that is compared is missing."""
        paid, cap = cost(demand, target), demand[1]
        if paid is not None and paid <= cap:
            return None
        if demand[0] == "request":
            if paid is None:
                return Exclusion(UNPRICED, "lacks an input or output price, and a request's cost is capped")
            return Exclusion(PRICE, f"may cost more than {usd(cap)} USD for this request")
        side = "output" if demand[0] == "out" else "input"
        if paid is None:
            return Exclusion(UNPRICED, f"declares no {side} price, and {side} is capped")
        return Exclusion(PRICE, f"{side} costs more than {usd(cap)} USD per million tokens")

    @hookimpl
    def check(self, config: CheckedConfig) -> Iterable[Problem]:
        """An "attribute.A.V" of which A is declared without that value would silently never bind."""
        for key in self.by:
            to = who(key)
            declared = config.attributes.get(to.of) if to.kind == "attribute" else None
            if declared is not None and to.word not in folded(declared):
                yield Problem(
                    "unknown_reference",
                    f"{to.word!r} is no value of attribute {to.of!r}",
                    f"by.{key}",
                    suggestion=nearest(to.word, declared),
                    remedy=f"Its values: {', '.join(sorted(declared))}.",
                )

    def attributes_read(self) -> frozenset[str]:
        """The attributes that `by` names."""
        return frozenset(to.of for to, _ in self.further if to.kind == "attribute")


def _applies(to: Who, request: Request) -> bool:
    if to.kind == "tag":
        return to.word in request.principal.tags
    if to.kind == "tenant":
        return to.word == request.principal.tenant
    return to.word in request.attributes.get(to.of, frozenset())
