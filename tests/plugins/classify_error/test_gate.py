"""The gate of issue 3: how many recorded failures the generic classifier reads right. Printed by `benchmarks.classify`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.classify import CASES, MOVES, Case, by_plain_status, judge, load, report
from narrows.types import FailureClass, Target
from narrows_plugins.classify_error import phrases, words, wrappers
from narrows_plugins.classify_error.generic import ErrorClasses, classify

EVERY = load()
GATE = tuple(case for case in EVERY if case.gated)
CLEAR = tuple(case for case in GATE if not case.ambiguous)


def test_the_gate_holds_the_139_rows_it_is_about() -> None:
    assert len(EVERY) == 269
    assert len(GATE) == 139


def test_at_least_nineteen_of_twenty_are_accepted() -> None:
    score = judge(GATE, classify)
    assert score.accepted / score.rows >= 0.95, score.misses
    assert judge(GATE, by_plain_status).accepted / score.rows < 0.7  # the set is not one that a status map passes


@pytest.mark.parametrize("expected", [FailureClass.CONTENT_POLICY, FailureClass.AUTHENTICATION])
def test_no_refusal_and_no_key_fault_moves(expected: FailureClass) -> None:
    chosen = [case for case in CLEAR if case.expected is expected]
    assert len(chosen) >= 10
    answers = {case.id: classify(case.failure) for case in chosen}
    assert all(answer is not None for answer in answers.values())
    assert [name for name, answer in answers.items() if answer is not None and answer.failure_class in MOVES] == []


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("own dialect", [c for c in EVERY if c.failure.phase == "response" and not c.gated]),
        ("stream events", [c for c in EVERY if c.failure.phase == "stream_event"]),
        ("finishes", [c for c in EVERY if c.failure.phase == "finish"]),
    ],
)
def test_the_other_rows_do_not_get_worse(name: str, chosen: list[Case]) -> None:
    score = judge(chosen, classify)
    assert score.accepted / score.rows >= 0.95, score.misses
    assert score.wrongly_moved == ()


def test_every_answer_says_what_kind_of_proof_decided() -> None:
    kinds = {"transport", "detail", "code", "type", "message", "status", "finish", "body"}
    for case in EVERY:
        answer = classify(case.failure)
        assert answer is not None, case.id
        assert answer.evidence in kinds, case.id


def test_no_rule_names_a_case_or_a_whole_message() -> None:
    rules = "\n".join(Path(module.__file__ or "").read_text(encoding="utf-8") for module in (phrases, words, wrappers))
    rules = rules.lower()
    for row in map(json.loads, CASES.read_text(encoding="utf-8").splitlines()):
        assert row["id"] not in rules
        for message in _texts(row["body"]):
            assert len(message) < 40 or message.lower() not in rules, message


def test_the_report_prints_the_gate() -> None:
    printed = report(EVERY)
    assert "GATE" in printed
    assert "/139" in printed
    assert "gate, unambiguous content_policy moved: 0" in printed


def _texts(node: object) -> list[str]:
    if isinstance(node, str):
        return [node]
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [text for child in inner for text in _texts(child)]


def test_the_block_answers_as_the_function_does() -> None:
    block = ErrorClasses()
    somewhere = Target("t", "p", "openai_compatible", "m")
    for case in EVERY:
        assert block.classify_error(case.failure, somewhere) == classify(case.failure)
