"""What a block's own methods may do wrong: the start is refused, and the plugin and its distribution are named.

Each of these would otherwise be a rule that silently is none, or one that could overrule another. Beside each "no" stands
what is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pluggy
import pytest

from narrows import (
    Attempt,
    Authenticator,
    Block,
    Candidates,
    ConfigError,
    Constraint,
    Decision,
    Denial,
    Exclusion,
    Gateway,
    Identity,
    Inbound,
    Problem,
    Request,
    Sink,
    Target,
    hookimpl,
)
from narrows.registry import Implementations, Kind, Registered

mark = pluggy.HookimplMarker("narrows")
"""What `narrows.hookimpl` does not let an author ask for."""


class Good(Block):
    """A free plugin with a hook."""

    word: str = ""

    @hookimpl
    def authorize(self, request: Request) -> Denial | None:
        return Denial("forbidden", self.word)


class GoodRule(Constraint[str]):
    """A constraint."""

    def demands(self, request: Request) -> Iterable[str]:
        return ()

    def excludes(self, demand: str, target: Target) -> Exclusion | None:
        return None


def registered(block: Block, name: str = "mine", group: str = "plugins") -> Registered:
    return Registered(name, f"{group}.{name}", Kind(f"{group}.probe", "acme-rules", "1.2.3", type(block)), block)


def problem_of(bad: Block, group: str = "plugins") -> Problem:
    """The one problem that this block is. It stands beside a good one, which is accepted alone."""
    control = registered(Good(), "good")
    assert Implementations([control]).hooks("plugins.good") == ("authorize",)
    with pytest.raises(ConfigError) as refused:
        Implementations([control, registered(bad, group=group)])
    (problem,) = refused.value.problems
    assert (problem.code, problem.path) == ("bad_plugin", f"{group}.mine")
    assert f"'{group}.mine'" in problem.message
    assert "'acme-rules'" in problem.message
    return problem


class Wrapper(Good):
    @mark(wrapper=True)
    def record(self, decision: Decision) -> Iterator[None]:
        return (yield)


class OldWrapper(Good):
    @mark(hookwrapper=True)
    def record(self, decision: Decision) -> Iterator[None]:
        yield


class First(Good):
    @mark(tryfirst=True)
    def record(self, decision: Decision) -> None:
        return None


class Last(Good):
    @mark(trylast=True)
    def record(self, decision: Decision) -> None:
        return None


class Renamed(Good):
    @mark(specname="authorize")
    def record(self, request: Request) -> None:
        return None


@pytest.mark.parametrize("bad", [Wrapper, OldWrapper, First, Last, Renamed])
def test_a_hook_takes_no_options(bad: type[Block]) -> None:
    assert "asks for options in 'record'" in problem_of(bad()).message


class Unknown(Good):
    @hookimpl
    def authorise(self, request: Request) -> None:
        return None


class Elsewhere(Good):
    @mark(specname="record")
    def keep(self, decision: Decision) -> None:
        return None


class MaybeHook(Good):
    @mark(optionalhook=True)
    def authorise(self, request: Request) -> None:
        return None


@pytest.mark.parametrize(("bad", "name"), [(Unknown, "authorise"), (Elsewhere, "keep"), (MaybeHook, "authorise")])
def test_a_marked_method_is_named_after_a_hook(bad: type[Block], name: str) -> None:
    message = problem_of(bad()).message
    assert f"marks {name!r}" in message
    assert "authorize, budget" in message


class Extra(Block):
    @hookimpl
    def authorize(self, request: Request, principal: str) -> None:
        return None


class Misspelt(Block):
    @hookimpl
    def authorize(self, requst: Request) -> None:
        return None


class Fewer(Block):
    @hookimpl
    def narrow(self, candidates: Candidates) -> None:
        return None


@pytest.mark.parametrize(("bad", "name"), [(Extra, "principal"), (Misspelt, "requst")])
def test_an_argument_that_the_hook_does_not_have(bad: type[Block], name: str) -> None:
    assert name in problem_of(bad()).message


def test_a_hook_may_take_fewer_arguments() -> None:
    (found,) = Implementations([registered(Fewer())]).of("narrow")
    assert found.arguments == ("candidates",)


class Default(Block):
    @hookimpl
    def authorize(self, request: Request | None = None) -> None:
        return None


def test_an_argument_with_a_default() -> None:
    assert "gives an argument of 'authorize' a default" in problem_of(Default()).message


class ByName(Block):
    @hookimpl
    def authorize(self, *, request: Request) -> None:
        return None


class Star(Block):
    @hookimpl
    def authorize(self, *requests: Request) -> None:
        return None


class StarStar(Block):
    @hookimpl
    def authorize(self, **request: Request) -> None:
        return None


@pytest.mark.parametrize("bad", [ByName, Star, StarStar])
def test_arguments_that_are_not_taken_by_position(bad: type[Block]) -> None:
    assert "takes arguments of 'authorize' by * or by name" in problem_of(bad()).message


class RanksNobody(Good):
    @hookimpl
    def rank(self, request: Request, candidates: Candidates) -> None:
        return None


class SendsNothing(Good):
    @hookimpl
    async def dispatch(self, attempt: Attempt) -> None:
        return None


@pytest.mark.parametrize(("bad", "base"), [(RanksNobody, "Ranker"), (SendsNothing, "Provider")])
def test_a_hook_that_nobody_would_ask(bad: type[Block], base: str) -> None:
    assert f"subclass narrows.{base}" in problem_of(bad()).message


class Unmarked(Block):
    @hookimpl
    def record(self, decision: Decision) -> None:
        return None

    def authorize(self, request: Request) -> Denial | None:
        return Denial("forbidden", "nobody would ever ask")


class UnmarkedLater(Block):
    @hookimpl
    def record(self, decision: Decision) -> None:
        return None

    async def authorize(self, request: Request) -> Denial | None:
        return None


class UnmarkedStatic(Block):
    @hookimpl
    def record(self, decision: Decision) -> None:
        return None

    @staticmethod
    def authorize(request: Request) -> Denial | None:
        return None


class Helper:
    def authorize(self, request: Request) -> Denial | None:
        return None


class UnmarkedOfTheClass(Block):
    @hookimpl
    def record(self, decision: Decision) -> None:
        return None

    @classmethod
    def authorize(cls, request: Request) -> Denial | None:
        return None


class OfTheClass(Good):
    @classmethod
    @hookimpl
    def record(cls, decision: Decision) -> None:
        return None


class UnmarkedInherited(Helper, Block):
    @hookimpl
    def record(self, decision: Decision) -> None:
        return None


@pytest.mark.parametrize("bad", [Unmarked, UnmarkedLater, UnmarkedInherited])
def test_a_method_that_bears_a_hooks_name_by_accident(bad: type[Block]) -> None:
    message = problem_of(bad()).message
    assert "'authorize'" in message
    assert "@hookimpl" in message


@pytest.mark.parametrize(
    ("bad", "name"), [(UnmarkedStatic, "authorize"), (UnmarkedOfTheClass, "authorize"), (OfTheClass, "record")]
)
def test_a_hook_is_a_method_of_the_instance(bad: type[Block], name: str) -> None:
    message = problem_of(bad()).message
    assert repr(name) in message
    assert "self" in message


class Overrides(Good):
    """The override of a marked method is marked by that: it is the hook, and cannot be lost by forgetting the mark."""

    def authorize(self, request: Request) -> Denial | None:
        return Denial("forbidden", "overridden")


class Header(Authenticator):
    def authenticate(self, inbound: Inbound) -> Identity | None:
        return Identity("ci")


def test_an_override_of_a_marked_method_is_the_hook() -> None:
    (found,) = Implementations([registered(Overrides())]).of("authorize")
    assert found.function(Request("chat")) == Denial("forbidden", "overridden")
    (found,) = Implementations([registered(Header(), group="authenticators")]).of("authenticate")
    assert found.function(Inbound("POST", "/", ())) == Identity("ci")


class NamedLikeAHook(Good):
    """Options are no methods."""

    record: bool = False
    check: str = ""


def test_an_option_may_bear_a_hooks_name() -> None:
    assert Implementations([registered(NamedLikeAHook())]).hooks("plugins.mine") == ("authorize",)


class NoHook(Block):
    word: str = ""

    def helper(self) -> str:
        return self.word


def test_a_free_plugin_without_a_hook() -> None:
    assert "implements no hook" in problem_of(NoHook()).message


class Widens(GoodRule):
    @hookimpl  # type: ignore[misc]
    def narrow(self, request: Request, candidates: Candidates) -> Candidates:
        return candidates


class WidensUnmarked(GoodRule):
    def narrow(self, request: Request, candidates: Candidates) -> Candidates:  # type: ignore[misc]
        return candidates


@pytest.mark.parametrize("bad", [Widens, WidensUnmarked])
def test_a_constraint_cannot_take_over_the_narrowing(bad: type[GoodRule]) -> None:
    assert "overrides `narrow`" in problem_of(bad(), "constraints").message
    assert Implementations([registered(GoodRule(), group="constraints")]).hooks("constraints.mine") == ("narrow",)


class Two(Block):
    """Two mistakes, both said."""

    @mark(tryfirst=True)
    def authorize(self, request: Request) -> None:
        return None

    @hookimpl
    def recrod(self, decision: Decision) -> None:
        return None


def test_every_mistake_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        Implementations([registered(Two(), "first"), registered(NoHook(), "second")])
    assert [problem.path for problem in refused.value.problems].count("plugins.second") == 1
    told = str(refused.value)
    assert all(word in told for word in ("'authorize'", "'recrod'", "no hook"))


# ---- what is accepted -----------------------------------------------------------------------------------------------


def test_two_equal_blocks_are_both_asked_in_the_order_of_the_file() -> None:
    words = ("b", "a", "same", "same")
    blocks = [registered(Good(word=word), f"n{place}") for place, word in enumerate(words)]
    assert blocks[2].block != blocks[3].block
    assert len({entry.block for entry in blocks}) == 4
    found = Implementations(blocks).of("authorize")
    assert [impl.plugin for impl in found] == ["n0", "n1", "n2", "n3"]
    assert [impl.function(Request("chat")).why for impl in found] == list(words)


class Everywhere(Sink):
    """A typed base with a hook beside its own."""

    @hookimpl
    async def record(self, decision: Decision) -> None:
        return None

    @hookimpl
    def authorize(self, request: Request) -> None:
        return None

    @hookimpl
    async def stop(self) -> None:
        return None


def test_an_implementation_says_whose_it_is() -> None:
    found = Implementations([registered(Everywhere(), group="sinks")])
    assert found.hooks("sinks.mine") == ("authorize", "record", "stop")
    impl = found.at("sinks.mine", "record")
    assert (impl.plugin, impl.path, impl.distribution, impl.prefix) == ("mine", "sinks.mine", "acme-rules", "probe")
    with pytest.raises(KeyError):
        found.at("sinks.mine", "narrow")


def test_a_bad_class_refuses_the_load_of_a_whole_file() -> None:
    text = """
        [plugins.mine]
        kind = "mine"
        [providers.local]
        kind = "echo"
        [targets.one]
        provider = "local"
        model = "one-1"
        [routes.chat]
        targets = ["one"]
    """
    with pytest.raises(ConfigError) as refused:
        Gateway.from_text(text, kinds={"plugins.mine": Unmarked})
    (problem,) = refused.value.problems
    assert (problem.code, problem.path) == ("bad_plugin", "plugins.mine")
    assert "'(host)'" in problem.message
    assert Gateway.from_text(text, kinds={"plugins.mine": Good}).policy
