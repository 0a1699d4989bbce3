"""Steps 1 to 6: who is calling, what they ask for, what it obliges, and whether anybody objects."""

from __future__ import annotations

from typing import TypeVar

from narrows.attributes import Attribute, effective
from narrows.calls import Impl
from narrows.candidates import Candidates
from narrows.demands import RuleFailed, obligations
from narrows.dialects import chat
from narrows.dialects.refused import routing_suffix
from narrows.errors import ContractViolation, PluginError
from narrows.holding import Asked, Held, Holding, check_allowance
from narrows.request import Request
from narrows.run import Run
from narrows.snapshot import Caller, may_name
from narrows.types import Allowance, Denial, Identity

_MAY_DENY = {
    "authenticate": frozenset({"unauthenticated"}),
    "authorize": frozenset({"forbidden", "kill_switch"}),
    "budget": frozenset({"rate_limited", "forbidden"}),
}
_SERVER_TOOL = chat.SERVER_TOOL
_CLIENT_CHARS = 128
_LENGTH_DIGITS = 20
_LONGEST_WAIT_SECS = 86_400
T = TypeVar("T")
AUTH_UNSET = Denial(
    "auth_unset",
    "this gateway has no [keys.NAME] and says no [auth] mode; it would be an open relay. An operator adds keys "
    '(narrows keygen), or writes [auth] mode = "host" (the host\'s users) or "open"',
)


def closed(run: Run) -> bool:
    """Has nobody said who may call? Then nobody may, and the gateway is not ready."""
    return run.snapshot.auth_mode is None and not run.engine.open_access


async def authenticate(run: Run) -> Denial | None:
    """1. Identity and claims from headers alone; the core builds the principal from configuration."""
    caller = await _caller(run)
    if isinstance(caller, Denial):
        return caller
    run.caller = caller
    return None


async def _caller(run: Run) -> Caller | Denial:
    if run.speaker is not None:  # in-process, outside a request: the host names a configured key
        named = run.snapshot.caller(run.speaker)
        return named or Denial("unauthenticated", f"no key is named {run.speaker!r}; add [keys.{run.speaker}]")
    mode = run.snapshot.auth_mode
    if closed(run):
        return AUTH_UNSET
    who = run.outer or run.inbound  # inside a host's request the outer principal counts, inner credentials do not
    for impl in run.snapshot.implementations.of("authenticate"):
        answer = await run.engine.calls(impl, inbound=who)
        if answer is None:
            continue
        if isinstance(answer, Denial):
            return _allowed(run, impl, answer)
        if type(answer) is not Identity or type(answer.name) is not str:
            raise run.engine.calls.violated(
                ContractViolation(
                    impl.plugin,
                    impl.hook,
                    "it returned no Identity; grants are configuration, and the core builds the principal",
                )
            )
        known = run.snapshot.caller(answer.name)
        return known or Denial("unauthenticated", "this caller is not configured; add a [keys.NAME] block of that name")
    if mode in (None, "open"):
        return run.snapshot.stranger
    return Denial("unauthenticated", "no credential; send `Authorization: Bearer KEY` or `x-api-key: KEY`")


async def read(run: Run) -> Denial | None:
    """2. The body, counted while it arrives, decoded just far enough to decide."""
    media = (run.inbound.header("content-type") or "application/json").partition(";")[0].strip().casefold()
    if media != "application/json":
        return Denial("unsupported_media_type", "send the body as application/json", "content-type")
    coding = (run.inbound.header("content-encoding") or "identity").strip().casefold()
    if coding != "identity":
        return Denial("unsupported_media_type", "send the body without content-encoding", "content-encoding")
    most = run.snapshot.max_body_bytes
    too_large = Denial("body_too_large", f"the body is larger than {most} bytes ([server] max_body_bytes)")
    if _declared(run.inbound.header("content-length")) > most:
        return too_large
    parts: list[bytes] = []
    size = 0
    source, began = run.read(), run.engine.clock()
    async for part in source:
        size += len(part)
        if size > most:
            run.reading_secs = run.engine.clock() - began
            close = getattr(source, "aclose", None)  # an iterator that is left half-way is ours to close, if it can be
            if close is not None:
                await close()
            return too_large
        parts.append(part)
    run.reading_secs = run.engine.clock() - began
    call = chat.decode(b"".join(parts), run.snapshot.smallest_window)
    if isinstance(call, Denial):
        return call
    run.call = call
    return None


def _declared(length: str | None) -> int:
    """The length that the caller declares. What is no number says nothing: the body is counted anyhow."""
    digits = (length or "").strip()
    return int(digits[:_LENGTH_DIGITS]) if digits.isascii() and digits.isdecimal() else 0


async def resolve(run: Run) -> Denial | None:
    """3. The route among those this caller may see, the targets it is granted, and what the request says of itself."""
    call, caller = _present(run.call), _present(run.caller)
    principal = caller.principal
    route = run.snapshot.routes.get(call.model)
    if route is None or not may_name(principal, route.name):
        return unknown_model(call.model)
    granted = route.granted(principal)
    if not granted:
        return unknown_model(call.model)
    run.route, run.granted = route, granted
    said = run.snapshot.reader.read(run.headers, call.metadata, caller.bound)
    if isinstance(said, Denial):
        return said
    run.said = said
    run.assumed = run.snapshot.reader.assumed(said)
    run.request = Request(route.name, principal, effective(said), call.features, call.sizes)
    try:
        forbidden = route.forbidden(run.snapshot.reader, caller, run.request, said)
    except RuleFailed as failed:
        raise _failed(run, failed) from failed.error
    if forbidden is not None:
        name, value = forbidden
        return Denial(
            "attribute_forbidden",
            f"you may not say {value!r} of {name!r}: it could leave more than silence does. "
            f"An operator can grant it: `may_say` on a key, a tenant or [auth].",
            name,
        )
    return _server_tools(run)


def _server_tools(run: Run) -> Denial | None:
    """A tool that the vendor runs is refused unless a target declares it: it searches or fetches where no rule looks."""
    for feature in sorted(_present(run.call).features):
        if feature.startswith(_SERVER_TOOL):
            pool = _present(run.route).pool
            if not any(target.capabilities.get(feature) for target in pool.members(run.granted)):
                tool = feature.removeprefix(_SERVER_TOOL)[:_CLIENT_CHARS]
                return Denial(
                    "field_refused",
                    f"tools of type {tool!r} run at the vendor, and no target of this route declares them. An operator "
                    f'can: `capabilities = {{ "{_SERVER_TOOL}{tool}" = true }}` on a target.',
                    "tools",
                )
    return None


async def oblige(run: Run) -> Denial | None:
    """4. What the request obliges: said, and assumed where it is silent. Silence is refused where the route says so."""
    route, request = _present(run.route), _present(run.request)
    try:
        obliged = obligations(route.rules, request, effective(run.said), run.assumed)
    except RuleFailed as failed:
        raise _failed(run, failed) from failed.error
    run.request = request.obliged(obliged)
    run.candidates = Candidates(route.pool, run.granted)
    missing = sorted(name for name in route.silence_refused if name not in run.said)
    if not missing:
        return None
    return _unsaid(run.snapshot.reader.attributes[missing[0]])


def _unsaid(attribute: Attribute) -> Denial:
    """What to do where a route needs to know an attribute: say it where it is read, or have it bound."""
    values = ", ".join(sorted(attribute.values or ()))
    if "header" in attribute.sources:
        place, how = attribute.header, f"send the header {attribute.header!r} with one of: {values}"
    elif "metadata" in attribute.sources:
        place, how = f"metadata.{attribute.name}", f"put metadata.{attribute.name} into the body, one of: {values}"
    else:
        place, how = attribute.name, f"an operator can bind your key or its tenant to one of: {values}"
    return Denial("attribute_missing", f"this route needs to know {attribute.name!r}; {how}", place)


async def authorize(run: Run) -> Denial | None:
    """5. Every plugin may object; the first objection ends it."""
    for impl in run.snapshot.implementations.of("authorize"):
        answer = await run.engine.calls(impl, request=run.request)
        if answer is None:
            continue
        if not isinstance(answer, Denial):
            raise _violation(run, impl, "it returned neither a Denial nor None")
        return _allowed(run, impl, answer)
    return None


async def budget(run: Run) -> Denial | None:
    """6. Each plugin admits with an allowance, 0 if a cap is spent (a free target may be left)."""
    held: list[Held] = []
    for impl in run.snapshot.implementations.of("budget"):
        answer = await run.engine.calls(impl, request=run.request)
        if answer is None:
            continue
        if isinstance(answer, Denial):
            return _allowed(run, impl, answer)
        held.append(Held(impl.plugin, _allowance(run, impl, answer)))
        run.holding = Holding(held)
    return None


def unknown_model(model: str) -> Denial:
    """A route that does not exist, or not for this caller: the same answer. A routing suffix is refused here and not
    earlier, so that a route may have such a name."""
    suffix = routing_suffix(model)
    if suffix is not None:
        return Denial(
            "field_refused",
            f"the model name ends in the routing suffix ':{suffix}', which would choose outside the gateway. "
            "Name a route; an operator can give a target such a model.",
            "model",
        )
    return Denial("unknown_model", f"there is no model {model[:_CLIENT_CHARS]!r}; GET /v1/models lists yours", "model")


def _allowed(run: Run, impl: Impl, denial: Denial) -> Denial:
    allowed = _MAY_DENY[impl.hook]
    if denial.code not in allowed:
        raise _violation(
            run, impl, f"it denied with code {denial.code!r}; this hook may use {', '.join(sorted(allowed))}"
        )
    wait: object = denial.retry_after
    if wait is not None and not (isinstance(wait, int | float) and 0 <= wait <= _LONGEST_WAIT_SECS):
        raise _violation(run, impl, "its denial asks to wait for a time that is no number of seconds up to a day")
    return denial


def _allowance(run: Run, impl: Impl, answer: object) -> Allowance:
    try:
        return Asked(run.engine.calls, impl, check_allowance(impl.plugin, answer))
    except ContractViolation as violation:
        raise run.engine.calls.violated(violation) from None


def _failed(run: Run, failed: RuleFailed) -> PluginError:
    """A constraint raised outside its hook: counted, logged and refused as inside it."""
    impl = next(impl for impl in _present(run.route).narrowers if impl.plugin == failed.rule)
    return run.engine.calls.failed(impl, failed.error)


def _violation(run: Run, impl: Impl, reason: str) -> ContractViolation:
    return run.engine.calls.violated(ContractViolation(impl.plugin, impl.hook, reason))


def _present(value: T | None) -> T:
    if value is None:
        raise RuntimeError("a step of the pipeline ran before the one it stands on")
    return value
