# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.storm: what a seed leads to, and what is made of the logs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import pytest

from benchmarks.history import Answer, Place, Request, Size
from benchmarks.storm import cluster, faults, figures, wishes
from benchmarks.storm.figures import Figures
from inventory.objects.standby import EXTRA_SPEC
from scheduler.wire.arguments import decode_select_arguments

HOSTS = [f"host-{number}" for number in range(20)]


@pytest.mark.parametrize(
    "asked",
    [
        lambda seed: wishes.slots(seed, 50),
        lambda seed: wishes.grouped(seed, 10, 5),
        lambda seed: islice(wishes.mixed(seed, HOSTS), 200),
        lambda seed: islice(wishes.zoned(seed, HOSTS, ("east", "west")), 200),
        lambda seed: islice(wishes.protected(seed, HOSTS), 200),
    ],
)
def test_the_same_seed_asks_for_the_same_and_another_for_something_else(asked) -> None:
    assert list(asked(1)) == list(asked(1))
    first, second = list(asked(1)), list(asked(2))
    assert not {each.request_id for each in first} & {each.request_id for each in second}


def test_different_storms_of_one_seed_have_nothing_in_common() -> None:
    storms = [
        list(wishes.slots(1, 50)),
        wishes.grouped(1, 10, 5),
        list(islice(wishes.mixed(1, HOSTS), 50)),
    ]
    uuids = Counter(uuid for storm in storms for wish in storm for uuid in wish.instances)
    assert max(uuids.values()) == 1


def test_what_is_asked_for_is_what_the_log_says() -> None:
    for wish in islice(wishes.zoned(1, HOSTS, ("east", "west")), 300):
        asked = decode_select_arguments(wish.arguments([("host-1", "host-1")]))
        spec = asked.spec
        assert tuple(asked.instance_uuids) == wish.instances
        assert Size(spec.vcpus, spec.memory_mb, spec.disk_mb) == wish.size
        assert (spec.instance_group is None) == (wish.group is None)
        if wish.group:
            assert spec.instance_group.policy == wish.group.policy
            assert spec.instance_group.rules.get("max_server_per_host", 1) == wish.group.most
            assert set(wish.instances) <= set(spec.instance_group.members)
        assert spec.availability_zone == wish.zone
        if wish.failing:
            assert [each.host for each in spec.retry.hosts] == ["host-1"]


def test_a_protected_instance_is_asked_for_as_such_and_evacuated_from_its_host() -> None:
    found = list(islice(wishes.protected(1, HOSTS), 100))
    assert {each.mode for each in found} == {*wishes.MODES}
    for wish in found:
        asked = decode_select_arguments(replace(wish, host=None, lost="host-1").arguments())
        assert asked.spec.flavor.extra_specs.get(EXTRA_SPEC) == wish.mode
        assert asked.spec.ignore_hosts == ["host-1"]


def test_more_kinds_of_faults_come_once_in_a_while_and_at_the_end() -> None:
    cloud = SimpleNamespace(schedulers={0: None, 1: None})
    breaker = faults.Faults(cloud, 1, 2 * len(faults.KINDS) + 2, {"more": print})
    kinds = [each.kind for each in breaker._plan]
    assert kinds.count("more") == 3
    assert kinds[-1] == "more"


def test_there_is_something_of_everything() -> None:
    found = list(islice(wishes.mixed(1, HOSTS), 500))
    assert {len(each.instances) for each in found} >= {1, 2, 3, 5}
    assert {each.flavor.name for each in found} == {each.name for each in wishes.FLAVORS}
    assert {(each.group.policy, each.group.most) for each in found if each.group} == {
        ("affinity", 1),
        ("anti-affinity", 1),
        ("anti-affinity", 2),
    }
    assert any(each.host for each in found)
    assert any(each.failing for each in found)
    modes = {each.mode for each in found if each.group and each.group.policy == "anti-affinity"}
    assert modes == {*wishes.MODES}


def test_members_of_groups_come_in_any_order_and_others_between_them() -> None:
    found = list(islice(wishes.mixed(1, HOSTS), 500))
    first = next(each.group for each in found if each.group)
    at = [number for number, each in enumerate(found) if each.group == first]
    assert at[-1] - at[0] > len(at)


def test_requests_for_zones_are_those_that_may_go_anywhere() -> None:
    found = list(islice(wishes.zoned(1, HOSTS, ("east", "west")), 500))
    assert {each.zone for each in found} == {"east", "west", None}
    assert not any(each.zone and (each.group or each.host) for each in found)


@pytest.mark.parametrize("kinds", [faults.KINDS, cluster.KINDS])
def test_the_same_seed_breaks_the_same_and_everything_once_in_a_while(kinds: Sequence[str]) -> None:
    def planned(seed: int) -> list[faults.Fault]:
        return list(islice(faults.plan(seed, 4, kinds), 2 * len(kinds)))

    assert planned(1) == planned(1)
    assert planned(1) != planned(2)
    for half in (planned(1)[: len(kinds)], planned(1)[len(kinds) :]):
        assert sorted(each.kind for each in half) == sorted(kinds)


def test_figures() -> None:
    place = Place("alpha", "alpha")
    requests = [Request(f"r{n}", 1, [f"i{n}"], Size(1), began=10.0, attempts=1) for n in range(100)]
    for number, each in enumerate(requests):
        each.answers.append(Answer(10.01 * 1 + number / 1000, 1, "placed", places=(place,)))
    requests[0].answers[0] = Answer(12.0, 1, "NoValidHost")
    requests[1].answers.insert(0, Answer(10.0, 1, "ServiceUnavailable"))
    requests[1].attempts = 2
    logs = ["Selected a for b after 3 conflicts", "after 1 conflicts in 1 ms\nSelected"]
    found = figures.of(requests, logs)
    assert found == Figures(
        seconds=pytest.approx(2.0),
        requests=100,
        attempts=101,
        placed=99,
        refused=1,
        conflicts=4,
        most_conflicts=3,
        p50=pytest.approx(60),
        p99=pytest.approx(109),
        worst=pytest.approx(2000),
    )
    assert "99 instances claimed (50/s)" in found.line()
