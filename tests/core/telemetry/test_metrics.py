"""What is counted, under which labels, and how it is written."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from narrows.decision import AttemptRow, Decision, Excluded
from narrows.telemetry import Elsewhere, Known, Metrics, Timings
from narrows.telemetry.metrics import MOST_CODES, ZEROES
from narrows.telemetry.metrics_exposition import exposed
from narrows.telemetry.metrics_table import TABLE, Metric
from tests.support.metrics import Scrape

KNOWN: Final = Known({"chat": ("residency", "mine")}, ("eu", "us"), (("residency", "narrow"), ("mine", "narrow")))
NOTHING: Final = Elsewhere({}, {}, 0, 0)
QUICK: Final = Timings(policy=0.00006, first_chunk=0.2, total=1.5)
ROW: Final = AttemptRow(
    n=1, target="eu", provider="vendor", kind="echo", failure_class="ok", status=200,
    input_tokens=7, output_tokens=11, cached_tokens=3, cost_micro_usd=1,
)  # fmt: skip
ANSWERED: Final = Decision(
    id="dec_1", ts=0.0, policy="p", principal="anonymous", tenant=None, route="chat",
    outcome="answered", status=200, code="ok", attempts=(ROW,),
)  # fmt: skip
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0"


def scrape(metrics: Metrics, elsewhere: Elsewhere = NOTHING, accept: str = "") -> Scrape:
    return Scrape(exposed(metrics.families(elsewhere), accept)[1].decode())


def removed(*codes: str, constraint: str = "mine") -> Decision:
    return replace(ANSWERED, excluded=tuple(Excluded("us", constraint, code, "why") for code in codes))


# ---- labels ------------------------------------------------------------------------------------------------------


def test_what_is_not_configured_is_other() -> None:
    metrics = Metrics(KNOWN)
    before = scrape(metrics)
    strange = replace(ROW, target="nobody's", failure_class="timeout")
    metrics.decided(
        replace(removed("gone", constraint="nobody's"), route="nobody's", code="made_up", attempts=(strange,),
                blocked_fallback=True),
        QUICK,
    )  # fmt: skip
    after = scrape(metrics)
    assert "nobody's" not in after.text
    assert "made_up" not in after.text
    assert after("requests_total", route="other", code="other") == 1
    assert after("excluded_targets_total", route="other", constraint="other", code="gone") == 1
    assert after("attempts_total", {"target": "other", "class": "timeout"}) == 1
    assert after("cost_usd_total", target="other") == 0.000001
    assert after("requests_total", route="chat", code="ok") == before("requests_total", route="chat", code="ok") == 0


def test_a_plugin_cannot_mint_series_with_its_codes() -> None:
    metrics = Metrics(KNOWN)
    metrics.decided(removed("attribute_mismatch", constraint="residency"), QUICK)
    for number in range(10 * MOST_CODES):
        metrics.decided(removed(f"mine.code_{number}"), QUICK)
    found = scrape(metrics)
    codes = {dict(labels)["code"] for name, labels in found.values if name == "narrows_excluded_targets_total"}
    assert codes == {"attribute_mismatch", "other", *(f"mine.code_{number}" for number in range(MOST_CODES))}
    assert found("excluded_targets_total", route="chat", constraint="mine", code="other") == 9 * MOST_CODES
    assert found("excluded_targets_total", route="chat", constraint="mine", code="mine.code_0") == 1


@pytest.mark.parametrize("code", ["tell me a secret", "ümlaut", "x" * 65, "a\nb", 'a"b'])
def test_a_code_that_is_no_word_is_other(code: str) -> None:
    metrics = Metrics(KNOWN)
    metrics.decided(removed(code), QUICK)
    assert scrape(metrics)("excluded_targets_total", route="chat", constraint="mine", code="other") == 1


def test_what_is_configured_is_there_from_the_start() -> None:
    found = scrape(Metrics(KNOWN))
    assert found("requests_total", route="chat", code="ok") == 0
    assert found("blocked_fallback_total", route="chat", constraint="residency") == 0
    assert found("attempts_total", {"target": "us", "class": "content_policy"}) == 0
    assert found("cost_usd_total", target="us") == 0
    assert found("contract_violations_total", plugin="mine", hook="narrow") == 0
    assert found("plugin_errors_total", plugin="mine", hook="narrow") == 0
    assert found("policy_duration_seconds_count") == 0


def test_but_not_thousands_of_series_that_nobody_has_seen() -> None:
    metrics = Metrics(replace(KNOWN, targets=tuple(f"t{number}" for number in range(ZEROES + 1))))
    assert not [
        name for name, _ in scrape(metrics).values if name in ("narrows_attempts_total", "narrows_cost_usd_total")
    ]
    metrics.decided(replace(ANSWERED, attempts=(replace(ROW, target="t7"),)), QUICK)
    assert scrape(metrics)("attempts_total", {"target": "t7", "class": "ok"}) == 1


def test_a_later_configuration_adds_names_and_keeps_counts() -> None:
    metrics = Metrics(KNOWN)
    metrics.decided(ANSWERED, QUICK)
    metrics.know(Known({"more": ()}, ("new",), ()))
    metrics.decided(replace(ANSWERED, route="more", attempts=(replace(ROW, target="new"),)), QUICK)
    found = scrape(metrics)
    assert found("requests_total", route="chat", code="ok") == found("requests_total", route="more", code="ok") == 1
    assert found("attempts_total", {"target": "new", "class": "ok"}) == 1


# ---- values ------------------------------------------------------------------------------------------------------


def test_tokens_and_money_of_each_attempt_are_counted() -> None:
    metrics = Metrics(KNOWN)
    other = replace(ROW, n=2, target="us", cost_micro_usd=300_000, cached_tokens=0)
    for _ in range(3):
        metrics.decided(replace(ANSWERED, attempts=(ROW, other)), QUICK)
    found = scrape(metrics)
    assert [found("tokens_total", target="eu", type=one) for one in ("input", "output", "cached")] == [21, 33, 9]
    assert found("cost_usd_total", target="us") == 0.9  # in floats, 0.3 + 0.3 + 0.3 is not
    assert found("cost_usd_total", target="eu") == 0.000003


def test_seconds_fall_into_their_buckets() -> None:
    metrics = Metrics(KNOWN)
    for total in (0.01, 0.011, 299.0, 301.0):
        metrics.decided(ANSWERED, Timings(policy=0.00006, first_chunk=None, total=total))
    found = scrape(metrics)
    name = "request_duration_seconds"
    assert [found(f"{name}_bucket", route="chat", le=bound) for bound in ("0.01", "0.025", "160.0", "300.0", "+Inf")] == [
        1, 2, 2, 3, 4,
    ]  # fmt: skip
    assert found(f"{name}_count", route="chat") == 4
    assert found(f"{name}_sum", route="chat") == pytest.approx(600.021)
    assert found("policy_duration_seconds_bucket", le="5e-05") == 0
    assert found("policy_duration_seconds_bucket", le="0.0001") == 4
    assert not [one for one, _ in found.values if one.startswith("narrows_time_to_first_chunk")]


def test_what_was_never_judged_has_no_time_of_judging() -> None:
    metrics = Metrics(KNOWN)
    metrics.decided(ANSWERED, Timings(policy=None, first_chunk=None, total=1.0))
    assert scrape(metrics)("policy_duration_seconds_count") == 0


def test_a_blocked_fallback_counts_once_for_each_constraint() -> None:
    metrics = Metrics(KNOWN)
    rows = tuple(Excluded(target, name, "code", "why") for target in ("us", "eu") for name in ("residency", "mine"))
    metrics.decided(replace(ANSWERED, excluded=rows, blocked_fallback=True), QUICK)
    metrics.decided(replace(ANSWERED, excluded=rows), QUICK)
    found = scrape(metrics)
    assert [found("blocked_fallback_total", route="chat", constraint=name) for name in ("residency", "mine")] == [1, 1]
    assert found("excluded_targets_total", route="chat", constraint="mine", code="code") == 4


def test_what_money_removed_blocks_nothing() -> None:
    metrics = Metrics(replace(KNOWN, hooks=(*KNOWN.hooks, ("purse", "budget"))))
    rows = tuple(Excluded("us", name, "unaffordable", "why") for name in ("purse", "mine"))
    metrics.decided(replace(ANSWERED, excluded=rows, blocked_fallback=True), QUICK)
    found = scrape(metrics)
    assert found("excluded_targets_total", route="chat", constraint="purse", code="unaffordable") == 1
    assert found("blocked_fallback_total", route="chat", constraint="mine") == 1
    assert not any("purse" in dict(labels).values() for name, labels in found.values if "blocked" in name)


def test_what_others_count_is_read_at_the_scrape() -> None:
    elsewhere = Elsewhere({("mine", "narrow"): 2}, {("mine", "rank"): 3}, dropped=5, queued=7)
    found = scrape(Metrics(KNOWN), elsewhere)
    assert found("contract_violations_total", plugin="mine", hook="narrow") == 2
    assert found("plugin_errors_total", plugin="mine", hook="rank") == 3
    assert found("ledger_dropped_total") == 5
    assert found("ledger_queue_entries") == 7


def test_two_of_them_never_mix() -> None:
    one, other = Metrics(KNOWN), Metrics(KNOWN)
    one.decided(ANSWERED, QUICK)
    assert scrape(one)("requests_total", route="chat", code="ok") == 1
    assert scrape(other)("requests_total", route="chat", code="ok") == 0


# ---- the exposition ------------------------------------------------------------------------------------------------


@pytest.fixture
def used() -> Metrics:
    """Something in every family."""
    metrics = Metrics(KNOWN)
    metrics.decided(replace(removed("mine.code"), blocked_fallback=True), QUICK)
    return metrics


@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_every_metric_of_the_table_is_exposed_with_its_labels(used: Metrics, metric: Metric) -> None:
    found = scrape(used)
    suffix = "_count" if metric.kind == "histogram" else ""
    labels = {frozenset(dict(labels)) for name, labels in found.values if name == metric.name + suffix}
    assert labels == {frozenset(metric.labels)}
    (family,) = [one for one in found.families if one.name == metric.name.removesuffix("_total")]
    assert family.documentation == metric.help
    assert (family.type, metric.name.startswith("narrows_")) == (metric.kind.replace("info", "gauge"), True)


def test_nothing_else_is_exposed(used: Metrics) -> None:
    assert [one.name for one in scrape(used).families] == [metric.name.removesuffix("_total") for metric in TABLE]


def test_both_formats_say_the_same(used: Metrics) -> None:
    families = used.families(NOTHING)
    (plain, text), (open_type, open_text) = exposed(families, "text/plain"), exposed(families, OPEN_METRICS)
    assert plain.startswith("text/plain; version=0.0.4")
    assert open_type.startswith("application/openmetrics-text; version=1.0.0")
    assert open_text.endswith(b"# EOF\n")
    assert Scrape(text.decode()).values == Scrape(open_text.decode()).values


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*",
            "openmetrics",
        ),
        ("text/html, APPLICATION/OpenMetrics-Text", "openmetrics"),
        ("application/openmetrics-text; version=canary", "openmetrics"),
        ("text/plain; version=canary", "text/plain"),
        ("*/*", "text/plain"),
        ("\x00,;=,;q=canary", "text/plain"),
    ],
)
def test_any_accept_is_answered_and_none_is_repeated(used: Metrics, accept: str, kind: str) -> None:
    content_type, body = exposed(used.families(NOTHING), accept)
    assert kind in content_type
    assert "canary" not in content_type
    Scrape(body.decode())


def test_names_with_quotes_and_slashes_are_written_so_that_they_can_be_read() -> None:
    name = 'a "name" \\ with {braces}, =signs'
    metrics = Metrics(Known({name: ()}, (), ()))
    metrics.decided(replace(ANSWERED, route=name, attempts=()), QUICK)
    for accept in ("", OPEN_METRICS):
        assert scrape(metrics, accept=accept)("requests_total", route=name, code="ok") == 1


def test_a_moment_is_kept_while_counting_goes_on(used: Metrics) -> None:
    """It is written in another thread."""
    families = used.families(NOTHING)
    before = exposed(families, "")
    used.decided(ANSWERED, QUICK)
    assert exposed(families, "") == before


def test_a_host_that_shares_metrics_between_processes_gets_no_files_of_ours(tmp_path: Path) -> None:
    """With PROMETHEUS_MULTIPROC_DIR set, prometheus_client's own counters live in files, shared by name."""
    program = Path(__file__).with_name("two_gateways.py")
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("1.0 0.0\n", "", 0)
    assert list(tmp_path.iterdir()) == []
