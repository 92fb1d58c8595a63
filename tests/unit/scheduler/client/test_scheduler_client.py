# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""xxxxxxxxxxxxxxxWhat a client of the scheduler sends, and what it makes of a broker that is not
connected to the message broker."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from conf import upgrade_levels
from conf.loading import ConfigError
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.messaging.server import RpcServer
from scheduler.objects.selection import Selection
from scheduler.wire.arguments import (
    SelectArguments,
    decode_select_arguments,
    encode_select_arguments,
)
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import Forbidden, NoValidHost, ServiceUnavailable
from scheduler.wire.replies import encode_destinations
from tests.builders import INSTANCE, a_request
from tests.fixtures.daemons.process import PATIENCE, wait_until

Connect = Callable[[str], SchedulerClient]
IN_MEMORY = "kombu+memory:///"


class Scheduler:
    """An endpoint that keeps what it is asked."""

    target = oslo_messaging.Target(version="4.5")

    def __init__(self, *answers: Any) -> None:
        self.asked: list[Any] = []
        self._answers = iter(answers)

    @oslo_messaging.expected_exceptions(NoValidHost)
    def select_destinations(self, context: dict[str, Any], **arguments: Any) -> Any:
        # oslo.messaging adds how long the caller waits.
        self.asked.append((context["request_id"], arguments))
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return encode_destinations(answer, decode_select_arguments(arguments))


@pytest.fixture
def level() -> Iterator[Callable[[str], None]]:
    """What sets [upgrade_levels] scheduler."""
    cfg.CONF.register_opts(upgrade_levels.OPTS, group="upgrade_levels")
    yield lambda value: cfg.CONF.set_override("scheduler", value, group="upgrade_levels")
    cfg.CONF.clear_override("scheduler", group="upgrade_levels")


@pytest.fixture
def connect() -> Iterator[Connect]:
    """What returns a client of the broker at a URL; oslo.messaging knows only these options."""
    cfg.CONF([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    clients = []

    def connected(url: str) -> SchedulerClient:
        transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=url)
        clients.append(SchedulerClient(cfg.CONF, transport))
        return clients[-1]

    yield connected
    for client in clients:
        client.close()
    cfg.CONF.reset()


@pytest.fixture
def serve() -> Iterator[Callable[[Scheduler], None]]:
    """What lets a scheduler answer on the broker in memory."""
    servers = []

    def serving(scheduler: Scheduler) -> None:
        transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=IN_MEMORY)
        servers.append(RpcServer(transport, "scheduler", "s1", [scheduler], 4))
        servers[-1].start()

    yield serving
    for server in servers:
        server.drain()


def test_what_is_sent_twice_is_the_same(
    connect: Connect, serve: Callable[[Scheduler], None]
) -> None:
    client = connect(IN_MEMORY)
    scheduler = Scheduler([[Selection("h1", "n1")]], [[Selection("h2", "n2")]])
    serve(scheduler)
    arguments = encode_select_arguments(SelectArguments(a_request(), [INSTANCE], True))
    caller = RequestContext("req-1")
    answers = [client.select_encoded(caller, arguments, 20.0) for _ in range(2)]
    hosts = [answer[0][0].service_host for answer in answers]
    assert hosts == ["h1", "h2"]
    assert scheduler.asked == [("req-1", arguments)] * 2


def test_the_usual_call_sends_no_less(connect: Connect, serve: Callable[[Scheduler], None]) -> None:
    client = connect(IN_MEMORY)
    scheduler = Scheduler([[Selection("h1", "n1"), Selection("h2", "n2")]], NoValidHost("Full."))
    serve(scheduler)
    caller = RequestContext("req-1")
    ((chosen, alternate),) = client.select_destinations(caller, a_request(), [INSTANCE], True)
    assert (chosen.service_host, alternate.service_host) == ("h1", "h2")
    with pytest.raises(NoValidHost, match="Full"):
        client.select_destinations(caller, a_request(), [INSTANCE])
    wanted = [arguments["return_alternates"] for _, arguments in scheduler.asked]
    assert wanted == [True, False]


class Explainer:
    """An endpoint of our own that keeps what it is asked."""

    target = oslo_messaging.Target(namespace="berthmaster", version="1.0")

    def __init__(self) -> None:
        self.asked: list[Any] = []

    @oslo_messaging.expected_exceptions(Forbidden)
    def explain_destinations(self, context: dict[str, Any], **arguments: Any) -> Any:
        self.asked.append(arguments)
        if not context["is_admin"]:
            raise Forbidden("Not you.")
        return {"decision": {}}


def test_an_explanation_is_asked_for_in_a_namespace_of_our_own(
    connect: Connect, serve: Callable[[Any], None]
) -> None:
    client, explainer = connect(IN_MEMORY), Explainer()
    asked = SelectArguments(a_request(), [INSTANCE], True)
    serve(explainer)
    admin = RequestContext("req-1", is_admin=True)
    found = client.explain_destinations(admin, asked, 20.0, most=3, hosts=["h1"], near=1)
    assert found == {"decision": {}}
    extent = {"most": 3, "hosts": ["h1"], "near": 1}
    assert explainer.asked == [encode_select_arguments(asked) | extent]
    with pytest.raises(Forbidden, match="Not you"):
        client.explain_destinations(RequestContext("req-1"), asked)


def test_a_scheduler_of_an_older_release_cannot_explain(
    connect: Connect, serve: Callable[[Any], None]
) -> None:
    client = connect(IN_MEMORY)
    serve(Scheduler())
    with pytest.raises(ServiceUnavailable, match="older release"):
        client.explain_destinations(RequestContext(), SelectArguments(a_request(), [INSTANCE]))


def test_a_scheduler_of_the_release_before_does_not_show_its_configuration(
    connect: Connect, serve: Callable[[Any], None]
) -> None:
    client = connect(IN_MEMORY)
    serve(Explainer())
    with pytest.raises(
        ServiceUnavailable, match="older release answered, which does not know config_sh"
    ):
        client.config_show(RequestContext(), "s1")


@pytest.mark.parametrize(
    ("cap", "arguments"),
    [
        ("auto", {"spec_obj", "instance_uuids", "return_objects", "return_alternates"}),
        ("pike", {"spec_obj", "instance_uuids"}),
        ("4.3", {"spec_obj"}),
        ("liberty", {"request_spec", "filter_properties"}),
    ],
)
def test_a_cap_is_kept_and_the_answer_is_the_same(
    connect: Connect,
    serve: Callable[[Scheduler], None],
    level: Callable[[str], None],
    cap: str,
    arguments: set[str],
) -> None:
    level(cap)
    client = connect(IN_MEMORY)
    scheduler = Scheduler([[Selection("h1", "n1"), Selection("h2", "n2")]])
    serve(scheduler)
    ((chosen, *alternates),) = client.select_destinations(
        RequestContext("req-1"), a_request(), [INSTANCE], True, timeout=PATIENCE
    )
    assert (chosen.service_host, chosen.nodename) == ("h1", "n1")
    assert len(alternates) == ("return_alternates" in arguments)
    ((_, sent),) = scheduler.asked
    assert sent.keys() == arguments


def test_a_cast_keeps_the_cap(
    connect: Connect, serve: Callable[[Scheduler], None], level: Callable[[str], None]
) -> None:
    level("4.4")
    scheduler = Scheduler([[Selection("h1", "n1")]])
    serve(scheduler)
    connect(IN_MEMORY).cast_select_destinations(RequestContext("req-1"), a_request(), [INSTANCE])
    assert wait_until(lambda: scheduler.asked)
    assert scheduler.asked[0][1].keys() == {"spec_obj", "instance_uuids"}


@pytest.mark.parametrize("cap", ["icehouse", "3.0", "5.0"])
def test_a_cap_that_leaves_nothing_to_send_is_refused(
    connect: Connect, level: Callable[[str], None], cap: str
) -> None:
    level(cap)
    expected = (
        rf"option \[upgrade_levels\] scheduler = {cap} in .*: no request .* oldest .* is 4\.0"
    )
    with pytest.raises(ConfigError, match=expected):
        connect(IN_MEMORY)


def test_an_unknown_cap_is_refused(connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "own.conf"
    path.write_text("[upgrade_levels]\nscheduler = queens\n")
    cfg.CONF([f"--config-file={path}"], project="berthmaster")
    with pytest.raises(ConfigError, match=r"option \[upgrade_levels\] scheduler = 'queens' in "):
        connect(IN_MEMORY)


def test_a_caller_waits_as_long_as_the_configuration_says(connect: Connect) -> None:
    client = connect(IN_MEMORY)
    cfg.CONF.set_override("rpc_response_timeout", 1)
    try:
        with pytest.raises(
            ServiceUnavailable, match=r"within 1 s: check that berthmaster-scheduler"
        ):
            client.select_destinations(RequestContext(), a_request(), [INSTANCE])
    finally:
        cfg.CONF.clear_override("rpc_response_timeout")


def test_a_call_without_a_scheduler_fails_in_time(connect: Connect) -> None:
    with pytest.raises(
        ServiceUnavailable, match=r"within 0\.2 s: check that berthmaster-scheduler"
    ):
        connect(IN_MEMORY).select_destinations(
            RequestContext(), a_request(), [INSTANCE], timeout=0.2
        )


def test_a_call_without_a_broker_fails_at_once_without_the_password(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    client = connect(f"rabbit://guest:secret@127.0.0.1:{port}/")
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(ServiceUnavailable, match="transport_url cannot be used") as caught:
            client.select_destinations(RequestContext(), a_request(), [INSTANCE], timeout=PATIENCE)
        assert time.monotonic() - began < PATIENCE / 2
        assert "secret" not in str(caught.value)
