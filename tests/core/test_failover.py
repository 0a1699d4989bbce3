"""The failure table and the attempt loop it drives: what moves, what stops, how often, and never back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.failover import (
    MOVING,
    WORDS,
    Disposition,
    FailoverRule,
    Next,
    Retry,
    Stop,
    backoff,
    disposition,
    may_move,
    merge,
    next_step,
)
from narrows.types import Classified, FailureClass, Target

F = FailureClass
STOPPING = frozenset(F) - MOVING
OPEN = FailoverRule(endpoint_dead=True, context_length=True)


def target(name: str, provider: str = "p", window: int | None = None) -> Target:
    return Target(name, provider, "openai_compatible", "m", context_window=window)


A, B, C = target("a", "one"), target("b", "one"), target("c", "two")


def differ(here: Target, there: Target) -> bool:
    return here.provider != there.provider


def step(
    failure: FailureClass | Classified,
    *,
    rule: FailoverRule | None = None,
    here: Target = A,
    left: tuple[Target, ...] = (B, C),
    retried: int = 0,
    started: bool = False,
) -> Retry | Next | Stop:
    classified = failure if isinstance(failure, Classified) else Classified(failure)
    return next_step(
        rule or FailoverRule(),
        classified,
        here=here,
        left=left,
        retried=retried,
        cap=8.0,
        credentials_differ=differ,
        started=started,
    )


# ---- the table ---------------------------------------------------------------------------------------------------


def test_three_classes_move_and_four_stop() -> None:
    assert {F.TIMEOUT, F.RATE_LIMITED, F.SERVER_ERROR} == MOVING
    assert {failure for failure in F if disposition(failure) is Disposition.STOP} == STOPPING
    assert len(STOPPING) == 4


# ---- the route's option ------------------------------------------------------------------------------------------


def test_left_out_is_the_three_classes_and_empty_is_none() -> None:
    assert FailoverRule.from_option(None) == FailoverRule(MOVING, False, False, 1)
    assert FailoverRule.from_option([]) == FailoverRule(frozenset(), False, False, 1)


def test_the_option_narrows_and_opts_in() -> None:
    rule = FailoverRule.from_option(["rate_limited", "endpoint_dead"], max_retries=3)
    assert rule == FailoverRule(frozenset({F.RATE_LIMITED}), endpoint_dead=True, context_length=False, max_retries=3)
    assert FailoverRule.from_option(WORDS) == FailoverRule(MOVING, endpoint_dead=True, context_length=True)


@pytest.mark.parametrize("word", ["content_policy", "authentication", "invalid_request", "", "Timeout", "all"])
def test_any_other_word_is_refused_by_name(word: str) -> None:
    with pytest.raises(ValueError, match=repr(word)):
        FailoverRule.from_option(["timeout", word])
    assert FailoverRule.from_option(["timeout"]).moves == {F.TIMEOUT}


# ---- several answers ---------------------------------------------------------------------------------------------


def merged(*answers: Classified) -> Classified:
    return merge((f"plugins.{number}", answer) for number, answer in enumerate(answers))


def test_nobody_answered_stops() -> None:
    assert merge([]) == Classified(F.INVALID_REQUEST, evidence="unanswered")


@given(st.lists(st.builds(Classified, st.sampled_from(F), st.booleans()), min_size=1))
def test_a_refusal_beats_everything_and_any_stop_beats_any_move(answers: list[Classified]) -> None:
    found = merged(*answers)
    assert found in answers  # the facts are the winner's own
    classes = {answer.failure_class for answer in answers}
    if F.CONTENT_POLICY in classes:
        assert found.failure_class is F.CONTENT_POLICY
    elif classes & STOPPING:
        assert found.failure_class in STOPPING
    else:
        assert found == answers[0]
    # in any order the same is permitted
    again = merged(*reversed(answers))
    for rule in (FailoverRule(), OPEN):
        assert may_move(rule, found, A, C, True) == may_move(rule, again, A, C, True)


def test_a_move_wins_only_alone() -> None:
    rate, dead = Classified(F.RATE_LIMITED, retry_after=3.0), Classified(F.AUTHENTICATION, endpoint_dead=True)
    assert merged(rate) is rate
    assert merged(rate, dead) is dead
    assert (
        merged(dead, Classified(F.INVALID_REQUEST)).failure_class is F.INVALID_REQUEST
    )  # no route can opt this one in


# ---- may a request move ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", list(F))
def test_by_default_the_class_alone_decides(failure: FailureClass) -> None:
    for dead in (False, True):
        assert may_move(FailoverRule(), Classified(failure, dead), A, C, True) is (failure in MOVING)


def test_a_narrowed_route_moves_less() -> None:
    rule = FailoverRule.from_option(["timeout"])
    assert may_move(rule, Classified(F.TIMEOUT), A, B, False)
    assert not may_move(rule, Classified(F.SERVER_ERROR), A, B, False)


def test_a_dead_endpoint_moves_only_by_option_and_only_to_another_credential() -> None:
    dead = Classified(F.AUTHENTICATION, endpoint_dead=True)
    missing = Classified(F.INVALID_REQUEST, endpoint_dead=True)
    for answer in (dead, missing):
        assert may_move(OPEN, answer, A, C, credentials_differ=True)
        assert not may_move(OPEN, answer, A, B, credentials_differ=False)
        assert not may_move(FailoverRule(), answer, A, C, credentials_differ=True)
    assert not may_move(OPEN, Classified(F.AUTHENTICATION), A, C, credentials_differ=True)


@pytest.mark.parametrize(
    ("here", "there", "allowed"),
    [(8_000, 8_001, True), (8_000, 8_000, False), (8_000, 4_000, False), (None, 8_000, False), (8_000, None, False)],
)
def test_an_overlong_prompt_moves_only_to_a_strictly_larger_declared_window(
    here: int | None, there: int | None, allowed: bool
) -> None:
    failure = Classified(F.CONTEXT_LENGTH)
    assert may_move(OPEN, failure, target("x", window=here), target("y", window=there), True) is allowed
    assert not may_move(FailoverRule(), failure, target("x", window=here), target("y", window=there), True)


@pytest.mark.parametrize("dead", [False, True])
def test_a_refusal_never_moves(dead: bool) -> None:
    refusal = Classified(F.CONTENT_POLICY, endpoint_dead=dead)
    forced = FailoverRule(frozenset(F), endpoint_dead=True, context_length=True)  # no option can build this rule
    assert not may_move(forced, refusal, target("x", window=1), target("y", window=2), True)


# ---- waiting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "retry_after", "seconds"),
    [
        (1, None, 0.5),
        (2, None, 1.0),
        (4, None, 4.0),
        (9, None, 8.0),
        (10_000, None, 8.0),
        (0, None, 0.5),
        (1, 3.0, 3.0),
        (1, 0.1, 0.5),
        (1, 86_400.0, 8.0),
        (1, -1.0, 0.5),
        (1, float("nan"), 0.5),
        (1, float("inf"), 8.0),
    ],
)
def test_backoff_doubles_heeds_the_hint_and_is_capped(attempt: int, retry_after: float | None, seconds: float) -> None:
    assert backoff(attempt, retry_after, cap=8.0) == seconds


# ---- the next step -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [F.TIMEOUT, F.SERVER_ERROR])
def test_a_fault_is_repeated_first_and_then_left(failure: FailureClass) -> None:
    assert step(failure) == Retry(0.5)
    assert step(failure, retried=1) == Next(B, (C,))
    assert step(failure, rule=FailoverRule(max_retries=0)) == Next(B, (C,))
    assert step(failure, retried=1, left=()) == Stop()


def test_a_throttle_is_left_at_once_and_repeated_only_at_the_last() -> None:
    assert step(F.RATE_LIMITED, rule=FailoverRule(max_retries=3)) == Next(B, (C,))
    assert step(Classified(F.RATE_LIMITED, retry_after=2.0), left=()) == Retry(2.0)
    assert step(F.RATE_LIMITED, left=(), retried=1) == Stop()


@pytest.mark.parametrize("failure", sorted(STOPPING))
def test_a_stop_is_neither_repeated_nor_moved(failure: FailureClass) -> None:
    assert step(failure) == Stop()
    assert step(F.SERVER_ERROR, retried=1) == Next(B, (C,))  # the same candidates are there for a move


@pytest.mark.parametrize("failure", list(F))
def test_after_the_first_byte_nothing_moves(failure: FailureClass) -> None:
    assert step(Classified(failure, endpoint_dead=True), rule=OPEN, started=True) == Stop()


def test_what_is_passed_over_is_not_left_behind_for_later() -> None:
    dead = Classified(F.AUTHENTICATION, endpoint_dead=True)
    assert step(dead, rule=OPEN, left=(B, C)) == Next(C, ())  # B has the credential that is dead
    small, same, large = target("s", window=10), target("t", window=20), target("u", window=30)
    failed_at = target("h", window=20)
    assert step(F.CONTEXT_LENGTH, rule=OPEN, here=failed_at, left=(small, same, large)) == Next(large, ())
    assert step(F.CONTEXT_LENGTH, rule=OPEN, here=failed_at, left=(small, same)) == Stop()


# ---- the loop ----------------------------------------------------------------------------------------------------


@dataclass
class Loop:
    """The attempt loop of the pipeline in a few lines, on scripted failures."""

    rule: FailoverRule
    outcome: Callable[[Target], Classified | None]
    entered: list[Target] = field(default_factory=list)
    calls: list[Target] = field(default_factory=list)
    moves: list[tuple[Classified, Target, Target]] = field(default_factory=list)

    def run(self, order: tuple[Target, ...]) -> Classified | None:
        here, left, retried = order[0], order[1:], 0
        self.entered.append(here)
        while True:
            self.calls.append(here)
            failure = self.outcome(here)
            if failure is None:
                return None
            match next_step(
                self.rule, failure, here=here, left=left, retried=retried, cap=1.0, credentials_differ=differ
            ):
                case Retry():
                    retried += 1
                case Next(there, left):
                    self.moves.append((failure, here, there))
                    here, retried = there, 0
                    self.entered.append(here)
                case Stop():
                    return failure


outcomes = st.none() | st.builds(Classified, st.sampled_from(F), st.booleans(), st.none() | st.floats(0, 99))
rules = st.builds(FailoverRule.from_option, st.none() | st.lists(st.sampled_from(WORDS)), st.integers(0, 3))
orders = st.lists(
    st.tuples(st.sampled_from(("one", "two", "three")), st.none() | st.integers(1, 4)), min_size=1, max_size=6
)


@given(rules, orders, st.data())
def test_the_loop_is_bounded_and_never_goes_back(
    rule: FailoverRule, order: list[tuple[str, int | None]], data: st.DataObject
) -> None:
    targets = tuple(target(str(number), *each) for number, each in enumerate(order))
    loop = Loop(rule, lambda _: data.draw(outcomes))
    loop.run(targets)
    assert len(loop.calls) <= len(targets) * (1 + rule.max_retries)
    assert [each.name for each in loop.entered] == sorted({each.name for each in loop.entered})  # forwards, each once
    for failure, here, there in loop.moves:
        assert failure.failure_class is not F.CONTENT_POLICY
        moved_by_class = failure.failure_class in rule.moves
        moved_by_key = rule.endpoint_dead and failure.endpoint_dead and here.provider != there.provider
        moved_by_size = rule.context_length and (there.context_window or 0) > (here.context_window or 99)
        assert moved_by_class or moved_by_key or moved_by_size


def test_a_throttled_first_candidate_is_called_once_and_the_second_answers() -> None:
    loop = Loop(FailoverRule(max_retries=3), lambda here: Classified(F.RATE_LIMITED) if here is A else None)
    assert loop.run((A, B)) is None
    assert loop.calls == [A, B]


def test_a_refusal_leaves_the_healthy_second_candidate_uncalled() -> None:
    loop = Loop(OPEN, lambda here: Classified(F.CONTENT_POLICY) if here is A else None)
    assert loop.run((A, C)) == Classified(F.CONTENT_POLICY)
    assert loop.calls == [A]
