# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of asking again, and of building again as Nova counts it."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects import SchedulerRetries, Selection, TriedHost
from scheduler.rpc import retries
from scheduler.rpc.codec.legacy import read_legacy
from scheduler.rpc.retries import RetryPolicy
from tests.builders import a_request
from tests.unit.scheduler.rpc import wire

seconds = st.floats(0.001, 1000)
PROGRESSION = wire.sample("legacy_retry_progression")["steps"]


@given(seconds, seconds, st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_pauses_grow_up_to_the_longest_and_chance_takes_at_most_half(first, longest, chances):
    policy = RetryPolicy(first_pause=first, longest_pause=longest)
    draw = iter(chances).__next__
    for number, pause in enumerate(islice(retries.pauses(policy, draw), len(chances))):
        whole = min(first * 2**number, longest)
        assert whole / 2 * 0.999 <= pause <= whole * 1.001


def test_without_luck_they_double():
    policy = RetryPolicy(first_pause=0.5, longest_pause=3)
    assert [*islice(retries.pauses(policy, lambda: 0), 5)] == [0.5, 1, 2, 3, 3]
    assert [*islice(retries.pauses(policy, lambda: 1), 5)] == [0.25, 0.5, 1, 1.5, 1.5]


def test_they_never_end_nor_overflow():
    assert next(islice(retries.pauses(RetryPolicy(), lambda: 0), 5000, None)) == 10


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_attempts": 0}, "max_attempts is 0, must be at least 1"),
        ({"attempt_timeout": 0}, "attempt_timeout is 0, must be more than 0 s"),
        ({"deadline": -1.5}, r"deadline is -1\.5, must be"),
        ({"first_pause": float("nan")}, "first_pause is nan, must be"),
        ({"longest_pause": 0.0}, r"longest_pause is 0\.0, must be"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        RetryPolicy(**wrong)


@pytest.mark.parametrize(
    ("changes", "most", "expected"),
    [
        ({}, 3, True),
        ({}, 2, True),
        ({}, 1, False),
        ({"force_hosts": ["h1"]}, 3, False),
        ({"force_nodes": ["n1"]}, 3, False),
        ({"force_hosts": ["h1", "h2"], "force_nodes": ["n1"]}, 3, False),
        ({"force_hosts": ["h1", "h2"]}, 3, True),
        ({"force_nodes": ["n1", "n2"]}, 3, True),
        ({"force_hosts": [], "force_nodes": []}, 3, True),
    ],
)
def test_one_attempt_or_one_forced_place_is_never_followed_by_another(changes, most, expected):
    assert retries.may_reschedule(a_request(**changes), most) is expected


def captured(step):
    """Return the retry of a step of the captured progression."""
    retry = step["retry"] if "retry" in step else step["filter_properties"]["retry"]
    flavor = {"vcpus": 1, "memory_mb": 1, "root_gb": 1}
    return read_legacy({"instance_type": flavor}, {"retry": retry}).retry


def test_it_grows_as_in_nova():
    ours = [retries.next_attempt(None)]
    for host in ("compute1", "compute2", "compute3"):
        ours.append(retries.with_tried(ours[-1], Selection(host, host)))
        ours.append(retries.next_attempt(ours[-1]))
    # Compute hosts add a traceback, which no scheduler needs: that step changes nothing here.
    novas = [captured(step) for step in PROGRESSION[1:3] + PROGRESSION[4:]]
    assert captured(PROGRESSION[3]) == novas[1]
    # The sample leaves out the moment before the third host is chosen.
    assert ours[:4] + ours[5:] == novas


def test_what_a_caller_holds_does_not_change():
    retry = SchedulerRetries(1, [TriedHost("h1", "n1")])
    assert retries.with_tried(retry, Selection("h2", "n2")).hosts == [
        TriedHost("h1", "n1"),
        TriedHost("h2", "n2"),
    ]
    assert retries.next_attempt(retry).num_attempts == 2
    assert retry == SchedulerRetries(1, [TriedHost("h1", "n1")])
    assert retries.with_tried(None, Selection("h", "n")).hosts == [TriedHost("h", "n")]


def test_the_reason_is_nova_s():
    uuid = "00000000-0000-0000-1111-000000000001"
    assert retries.exhausted(3, uuid, None) == PROGRESSION[-1]["kwargs"]["reason"]
