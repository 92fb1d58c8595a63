# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The conductor's loop against a scheduler, a clock and a chance of the test's own."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest

from scheduler.client.backoff import RetryPolicy
from scheduler.client.conductor import BuildFailed, Conductor
from scheduler.objects.request_spec import SchedulerRetries, TriedHost
from scheduler.objects.selection import Selection
from scheduler.wire.arguments import decode_select_arguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import InvalidInput, MaxRetriesExceeded, NoValidHost, ServiceUnavailable
from scheduler.wire.legacy_requests import read_legacy
from tests.builders import INSTANCE, a_group, a_request
from tests.unit.scheduler.wire import wire_samples

CALLER = RequestContext("req-1")
SILENCE = ServiceUnavailable("Silence.")


def on(*hosts):
    """Return an answer for one instance: the destination, then alternates."""
    return [[Selection(host, f"{host}-node") for host in hosts]]


class Scene:
    """A scheduler that gives these answers in turn, each after some seconds, and a clock."""

    def __init__(self, *answers, each_takes=0.0, **policy):
        self._answers = iter(answers)
        self._each_takes = each_takes
        self.time = 1000.0
        self.asked = []
        self.timeouts = []
        self.pauses = []
        self.built = []
        self.conductor = Conductor(
            self, RetryPolicy(**policy), lambda: self.time, self.sleep, lambda: 0.0
        )

    def select_encoded(self, context, arguments, timeout):
        self.asked.append(copy.deepcopy((context, arguments)))
        self.timeouts.append(timeout)
        self.time += min(self._each_takes, timeout)
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, pause):
        self.pauses.append(pause)
        self.time += pause

    def place(self, context=CALLER, uuids=(INSTANCE,), **options):
        return self.conductor.place(context, a_request(), uuids, **options)

    def build(self, spec=None, bad=(), context=CALLER):
        """Build; it fails on the bad hosts. Return the host where it did not."""

        def build(selection):
            self.built.append(selection.service_host)
            if selection.service_host in bad:
                raise BuildFailed(f"{selection.service_host} broke")

        chosen = self.conductor.build(context, spec or a_request(), INSTANCE, build)
        assert chosen.service_host == self.built[-1]
        return chosen.service_host

    @property
    def specs(self):
        return [decode_select_arguments(arguments).spec for _, arguments in self.asked]

    @property
    def retries(self):
        """What the scheduler was sent: attempts and hosts tried, for each request."""
        return [
            (spec.retry.num_attempts, [each.host for each in spec.retry.hosts]) if spec.retry else 0
            for spec in self.specs
        ]


def test_an_answer_is_handed_on():
    scene = Scene(on("h1", "h2"))
    assert scene.place(return_alternates=True) == on("h1", "h2")
    ((context, arguments),) = scene.asked
    assert context == CALLER
    assert (arguments["instance_uuids"], arguments["return_objects"]) == ([INSTANCE], True)
    assert arguments["return_alternates"] is True
    assert scene.pauses == []


def test_the_same_request_is_sent_again_until_there_is_an_answer():
    scene = Scene(SILENCE, SILENCE, SILENCE, on("h1"), first_pause=1, longest_pause=3)
    assert scene.place() == on("h1")
    assert len(scene.asked) == 4
    assert all(each == scene.asked[0] for each in scene.asked)
    assert scene.pauses == [1, 2, 3]


def test_a_request_id_is_made_once_and_not_for_others():
    scene = Scene(SILENCE, SILENCE, on("h1"), on("h1"))
    caller = RequestContext(user_id="u1")
    scene.place(caller)
    scene.place(caller)
    first, second, third, other = [context for context, _ in scene.asked]
    assert first == second == third
    assert first.request_id.startswith("req-")
    assert other.request_id != first.request_id
    assert (first.user_id, caller.request_id) == ("u1", None)


@pytest.mark.parametrize("refusal", [NoValidHost("Full."), InvalidInput("x"), KeyError("x")])
def test_what_a_scheduler_has_decided_is_not_asked_again(refusal):
    scene = Scene(refusal)
    with pytest.raises(type(refusal)) as caught:
        scene.place()
    assert caught.value is refusal
    assert len(scene.asked) == 1


def test_at_the_deadline_it_says_that_the_request_may_be_repeated():
    patience = {"attempt_timeout": 10, "deadline": 34, "first_pause": 1}
    scene = Scene(*[SILENCE] * 9, each_takes=10, **patience)
    with pytest.raises(ServiceUnavailable) as caught:
        scene.place()
    # 10 s, a pause of 1 s, 10 s, 2 s, 10 s, and the next pause would end too late.
    assert scene.timeouts == [10, 10, 10]
    assert scene.time == 1033
    assert caught.value.reason == (
        "Request req-1 is not answered in attempt 3, the last before the deadline of 34 s; the"
        " request may be repeated with the same instance uuids. The last failure: Silence."
    )
    assert caught.value.__cause__ is SILENCE


def test_the_last_attempt_ends_with_the_deadline():
    patience = {"attempt_timeout": 10, "deadline": 15, "first_pause": 1}
    scene = Scene(*[SILENCE] * 9, each_takes=10, **patience)
    with pytest.raises(ServiceUnavailable):
        scene.place()
    assert scene.timeouts == [10, 4]
    assert scene.time == 1015


def test_a_deadline_before_the_timeout_counts():
    scene = Scene(SILENCE, each_takes=9, deadline=2)
    with pytest.raises(
        ServiceUnavailable, match="in attempt 1, the last before the deadline of 2 s"
    ):
        scene.place()
    assert scene.timeouts == [2]


def test_a_build_that_succeeds():
    scene = Scene(on("h1"))
    assert scene.build() == "h1"
    assert scene.retries == [(1, [])]


def test_a_build_that_fails_is_tried_on_another_host():
    scene = Scene(on("h1"), on("h2"), on("h3"))
    assert scene.build(bad={"h1", "h2"}) == "h3"
    assert scene.retries == [(1, []), (2, ["h1"]), (3, ["h1", "h2"])]
    assert scene.specs[1].retry.hosts == [TriedHost("h1", "h1-node")]
    assert {context.request_id for context, _ in scene.asked} == {"req-1"}
    assert [arguments["return_alternates"] for _, arguments in scene.asked] == [False] * 3


def captured(step):
    """Return the retry of a step of the captured progression."""
    retry = step["filter_properties"]["retry"]
    flavor = {"vcpus": 1, "memory_mb": 1, "root_gb": 1}
    return read_legacy({"instance_type": flavor}, {"retry": retry}).retry


def test_attempts_are_counted_as_in_nova():
    steps = wire_samples.sample("legacy_retry_progression")["steps"]
    scene = Scene(*([[Selection(host, host)]] for host in ("compute1", "compute2", "compute3")))
    with pytest.raises(MaxRetriesExceeded) as caught:
        scene.build(bad={"compute1", "compute2", "compute3"})
    first, second, third = [spec.retry for spec in scene.specs]
    assert [first, second] == [captured(steps[1]), captured(steps[4])]
    # The sample has the third attempt with its host, and the fourth, which is refused.
    assert (third.num_attempts, third.hosts) == (3, captured(steps[5]).hosts)
    ours = caught.value.reason.replace("compute3 broke", "None")
    assert ours == steps[-1]["kwargs"]["reason"]


def test_a_request_id_lasts_for_all_attempts():
    scene = Scene(on("h1"), SILENCE, on("h2"))
    scene.build(bad={"h1"}, context=RequestContext())
    assert len({context.request_id for context, _ in scene.asked}) == 1


def test_no_more_hosts_than_allowed_are_tried():
    scene = Scene(on("h1"), on("h2"), on("h3"), max_attempts=2)
    with pytest.raises(MaxRetriesExceeded) as caught:
        scene.build(bad={"h1", "h2", "h3"})
    assert scene.built == ["h1", "h2"]
    assert caught.value.reason == (
        f"Exceeded max scheduling attempts 2 for instance {INSTANCE}. Last exception: h2 broke"
    )
    assert caught.value.__cause__.reason == "h2 broke"


@pytest.mark.parametrize(
    ("changes", "most"), [({}, 1), ({"force_hosts": ["h1"]}, 3), ({"force_nodes": ["n1"]}, 3)]
)
def test_where_there_is_only_one_attempt_the_scheduler_hears_of_none(changes, most):
    scene = Scene(on("h1"), max_attempts=most)
    with pytest.raises(MaxRetriesExceeded, match=r"attempts 1 for .* Last exception: h1 broke"):
        scene.build(a_request(**changes), bad={"h1"})
    assert scene.retries == [0]
    assert Scene(on("h1"), max_attempts=most).build(a_request(**changes)) == "h1"


def test_attempts_of_an_earlier_conductor_count():
    retry = SchedulerRetries(2, [TriedHost("h1", "n1"), TriedHost("h2", "n2")])
    scene = Scene(on("h3"))
    with pytest.raises(MaxRetriesExceeded, match="h3 broke"):
        scene.build(a_request(retry=retry), bad={"h3"})
    assert scene.retries == [(3, ["h1", "h2"])]


def test_an_instance_without_attempts_left_is_not_even_asked_for():
    scene = Scene()
    with pytest.raises(MaxRetriesExceeded, match="Last exception: None"):
        scene.build(a_request(retry=SchedulerRetries(3)))
    assert scene.asked == []


def test_an_error_without_another_host_says_why_one_was_needed():
    scene = Scene(on("h1"), NoValidHost("Full."))
    with pytest.raises(NoValidHost, match="Full") as caught:
        scene.build(bad={"h1"})
    assert not isinstance(caught.value, MaxRetriesExceeded)
    assert caught.value.__cause__.reason == "h1 broke"


@pytest.mark.parametrize("most", [1, 3])
def test_other_errors_of_a_build_pass_unchanged(most):
    scene = Scene(on("h1"), max_attempts=most)
    error = KeyError("mine")

    def build(selection):
        raise error

    with pytest.raises(KeyError) as caught:
        scene.conductor.build(CALLER, a_request(), INSTANCE, build)
    assert caught.value is error
    assert len(scene.asked) == 1


def test_a_silent_scheduler_is_asked_again_in_every_attempt():
    scene = Scene(SILENCE, on("h1"), SILENCE, on("h2"))
    assert scene.build(bad={"h1"}) == "h2"
    assert scene.retries == [(1, [])] * 2 + [(2, ["h1"])] * 2


def test_alternates_are_used_where_that_is_wanted_and_then_the_scheduler_again():
    scene = Scene(on("h1", "h2"), on("h3"), use_alternates=True)
    assert scene.build(bad={"h1", "h2"}) == "h3"
    assert scene.built == ["h1", "h2", "h3"]
    assert scene.retries == [(1, []), (3, ["h1", "h2"])]
    assert [arguments["return_alternates"] for _, arguments in scene.asked] == [True] * 2


def test_alternates_count_as_attempts():
    scene = Scene(on("h1", "h2", "h3"), use_alternates=True, max_attempts=2)
    with pytest.raises(MaxRetriesExceeded, match="h2 broke"):
        scene.build(bad={"h1", "h2"})
    assert scene.built == ["h1", "h2"]


@pytest.mark.parametrize("most", [1, 3])
def test_a_driver_that_selects_nothing_is_no_host(most):
    with pytest.raises(NoValidHost, match="selected nothing"):
        Scene([], max_attempts=most).build()


def test_the_spec_of_the_caller_stays_as_it_is():
    group = a_group(hosts=["h9"])
    spec = a_request(
        num_instances=3, instance_uuid=None, retry=SchedulerRetries(), instance_group=group
    )
    before = copy.deepcopy(spec)
    scene = Scene(on("h1"), on("h2"))
    scene.build(spec, bad={"h1"})
    assert spec == before
    assert [(each.instance_uuid, each.num_instances) for each in scene.specs] == [(INSTANCE, 1)] * 2


def test_many_threads_share_one():
    class Echo:
        def select_encoded(self, context, arguments, timeout):
            return on(*arguments["instance_uuids"])

    conductor = Conductor(Echo())
    uuids = [f"00000000-0000-0000-0000-{number:012d}" for number in range(200)]

    def build(uuid):
        tried = []

        def fail_once(selection):
            tried.append(selection.service_host)
            if len(tried) == 1:
                raise BuildFailed("once")

        return conductor.build(RequestContext(), a_request(), uuid, fail_once).service_host, tried

    with ThreadPoolExecutor(16) as pool:
        assert [*pool.map(build, uuids)] == [(uuid, [uuid] * 2) for uuid in uuids]
