"""The laws of DESIGN section 4, on real blocks of every kind and a third party's, compiled from random files.

L1 left(D | D') = left(D) & left(D'), in any order. L2 who says more is left no more. L3 silence under `floor` is all
values said. L4 carrying leaves no more. L5 free values leave no more than silence, where silence is served. L6 what
`when` leaves alone is the widest for every request that says it.
"""

from __future__ import annotations

from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from narrows import Request
from narrows.demands import attribute_rules, is_free
from narrows.demands import left as left_of
from tests.properties.routes import Ruled, every_route, requests, ruled, says

LAW = settings(max_examples=120, deadline=None)


@LAW
@given(st.data(), ruled(), requests(), st.randoms(use_true_random=False))
def test_l1_more_demands_leave_the_intersection_in_any_order(
    data: st.DataObject, route: Ruled, request: Request, order: Random
) -> None:
    first = route.demanded(request, data.draw(says(route)), route.floors)
    second = route.demanded(data.draw(requests()), data.draw(says(route)))
    both = route.left(first) & route.left(second)
    assert route.left(first | second) == both
    assert route.left(first | second, order) == both
    assert route.left(first, order) == route.left(first)


@LAW
@given(st.data(), ruled(), requests())
def test_l2_who_says_more_is_left_no_more(data: st.DataObject, route: Ruled, request: Request) -> None:
    less, further = data.draw(says(route)), data.draw(says(route))
    more = {name: less.get(name, frozenset()) | further.get(name, frozenset()) for name in {*less, *further}}
    said = route.left(route.demanded(request, more))
    assert said <= route.left(route.demanded(request, less))
    assert said <= route.left(route.demanded(request, {}))


@LAW
@given(st.data(), ruled(), requests())
def test_l3_silence_under_floor_is_every_value_said(data: st.DataObject, route: Ruled, request: Request) -> None:
    said = data.draw(says(route))
    floors = {name: values for name, values in route.floors.items() if name not in said}
    silent = route.left(route.demanded(request, said, floors))
    assert silent == route.left(route.demanded(request, {**said, **floors}))
    assert silent <= route.left(route.demanded(request, said))


@LAW
@given(st.data(), ruled(), requests())
def test_l4_carrying_leaves_no_more(data: st.DataObject, route: Ruled, request: Request) -> None:
    """Carried demands are a set from earlier requests; whatever this one says, they can only take away."""
    earlier = route.demanded(data.draw(requests()), data.draw(says(route)))
    carried = data.draw(st.sets(st.sampled_from(sorted(earlier, key=repr)))) if earlier else set()
    now = route.demanded(request, data.draw(says(route)), route.floors)
    assert route.left(now | carried) <= route.left(now)
    assert route.left(now | carried) == route.left(now) & route.left(frozenset(carried))


@LAW
@given(st.data(), ruled(), requests())
def test_l5_free_values_leave_no_more_than_silence(data: st.DataObject, route: Ruled, request: Request) -> None:
    """For every caller, whatever it is granted, and for every body: rules that read it are judged with it."""
    floors = route.floors
    assume(floors)
    name = data.draw(st.sampled_from(sorted(floors)))
    assume(name not in route.route.silence_refused)
    granted = data.draw(st.integers(0, route.route.pool.full))
    readers = attribute_rules(route.route.rules, name)
    free = {
        value
        for value in sorted(floors[name])
        if is_free(route.route.pool, granted, readers, request, name, value, floors[name])
    }
    silent = route.left(route.demanded(request, {}, floors))
    may = {target.name for target in route.route.pool.members(granted)}
    others = {other: values for other, values in floors.items() if other != name}
    for said in data.draw(st.lists(st.frozensets(st.sampled_from(sorted(free)), min_size=1))) if free else ():
        assert route.left(route.demanded(request, {name: said}, others)) & may <= silent


@LAW
@given(st.data(), ruled(), requests())
def test_l5_what_demands_nothing_is_a_privilege(data: st.DataObject, route: Ruled, request: Request) -> None:
    """A value is free only if some rule demands more of who says it than of who says nothing."""
    name, values = data.draw(st.sampled_from(sorted(route.values.items())))
    readers = attribute_rules(route.route.rules, name)
    assume(readers)
    for value in values:
        said = {name: frozenset({value})}
        more = any(rule.demanded(request, said) - rule.demanded(request, {}) for rule in readers)
        pool = route.route.pool
        assert more or not is_free(pool, pool.full, readers, request, name, value, frozenset(values))
        assert more == is_free(pool, pool.full, readers, request, name, value, None)


@LAW
@given(st.data(), ruled(), requests())
def test_l6_when_alone_is_the_widest(data: st.DataObject, route: Ruled, request: Request) -> None:
    """What a guarantee is proved for holds for every request that says it, whatever else it says or is silent on."""
    when, further = data.draw(says(route)), data.draw(says(route))
    said = {name: when.get(name, frozenset()) | further.get(name, frozenset()) for name in {*when, *further}}
    floors = {name: values for name, values in route.floors.items() if name not in said}
    rules = [rule for rule in route.route.rules if not rule.reads_body]
    widest = {target.name for target in route.route.pool.members(left_of(route.route.pool, rules, request, when))}
    assert route.left(route.demanded(request, said, floors)) <= widest


def test_the_routes_ask_the_question() -> None:
    """Where silence is served, some values are free and others would leave more: a law over neither would say nothing."""
    free: list[bool] = []
    for route in every_route():
        pool, request = route.route.pool, Request("chat")
        for name, values in route.floors.items():
            readers = attribute_rules(route.route.rules, name)
            if readers and name not in route.route.silence_refused:
                free += [is_free(pool, pool.full, readers, request, name, value, values) for value in values]
    assert min(free.count(True), free.count(False)) > 15
