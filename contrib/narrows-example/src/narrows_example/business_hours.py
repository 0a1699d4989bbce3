"""`business_hours`: requests go to the team on duty.

    [constraints.duty]
    kind = "business_hours"
    request_attribute = "shift"
    on_duty = { early = "emea", late = "apac" }     # left out: the value is the team itself

    [targets.hamburg]
    labels = { team = "emea" }

The request says which shift it is. The rule itself never looks at a clock: its verdicts are remembered, and a request
that is judged twice must be judged alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import field_validator

from narrows import CheckedConfig, Constraint, Exclusion, Problem, Request, Target, hookimpl

TEAM: Final = "team"
OFF_DUTY: Final = "off_duty"
"""Our one code. Callers see `business_hours.off_duty`: the core puts the kind in front, so codes cannot collide."""


class BusinessHours(Constraint[str]):
    """Only targets of the team on duty.

    Options: `request_attribute`, what a request says (a shift); `on_duty`, the team of each value. Without `on_duty` the
    value is the team. A target tells its team by `labels = { team = "…" }`.
    """

    request_attribute: str
    on_duty: Mapping[str, str] | None = None

    @field_validator("on_duty")
    @classmethod
    def _one_team_a_value(cls, on_duty: Mapping[str, str] | None) -> Mapping[str, str] | None:
        if on_duty is None:
            return None
        if not on_duty or not all(team.strip() for team in on_duty.values()):
            raise ValueError("write a team for each value, or leave the table out where the value is the team")
        folded = {_fold(value): _fold(team) for value, team in on_duty.items()}
        if len(folded) < len(on_duty):
            raise ValueError("two entries are the same value: case and surrounding space make no difference")
        return folded

    def demands(self, request: Request) -> Iterable[str]:
        """Every value that the request says. Two values are two obligations: more said is never more allowed."""
        return request.attributes.get(self.request_attribute, frozenset())

    def excludes(self, demand: str, target: Target) -> Exclusion | None:
        """`off_duty` for every target that is not certainly the team's."""
        team = self._team(demand)
        if team is None:
            return Exclusion(OFF_DUTY, f"no team is on duty for {demand}")
        # A label may be a list, "may be any of these": only one that can be nothing else will do.
        if {_fold(word) for word in target.label_set(TEAM) or ()} == {team}:
            return None
        return Exclusion(OFF_DUTY, f"team is not {team}, which is on duty for {demand}")

    def problems(self, targets: Sequence[Target]) -> Iterable[str]:
        """At load, once a route: the targets that no request could ever reach, and the lines to add."""
        for target in targets:
            if not target.label_set(TEAM):
                yield f'target {target.name} declares no team. Add to [targets.{target.name}]: labels = {{ team = "…" }}'

    @hookimpl
    def check(self, config: CheckedConfig) -> Iterable[Problem]:
        """At load: declared values that nobody is on duty for."""
        for value in sorted(config.attributes.get(self.request_attribute, ())):
            if self._team(value) is None:
                yield Problem(
                    "nobody_on_duty",
                    f"attribute {self.request_attribute!r} may be {value!r}, and no team is on duty then",
                    path="on_duty",
                    remedy=f'Add {value} = "TEAM", or take the value out of the attribute.',
                )

    def _team(self, value: str) -> str | None:
        value = _fold(value)
        return value if self.on_duty is None else self.on_duty.get(value)


def _fold(word: str) -> str:
    """As the core compares what requests say: without case and surrounding space."""
    return word.strip().casefold()
