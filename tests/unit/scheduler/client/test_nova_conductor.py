# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_conductor: what a conductor is asked, and what its answers mean."""

from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from scheduler.client.nova_conductor import DELETED, InstanceState, NoConductor, NovaConductor
from scheduler.messaging.server import RpcServer

UUID = "9f2cf4fb-58b9-4a41-a8d5-3cc0c6d0b6a1"
ACTIVE = {"deleted": False, "host": "c1", "vm_state": "active", "task_state": None, "id": 7}


class InstanceNotFound(Exception):
    """As Nova names it."""


class InstanceMappingNotFound(Exception):
    """As Nova names it."""


class StandIn:
    """Answers for objects as a conductor does; raises what it has no answer for."""

    target = oslo_messaging.Target(version="3.0")

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[Any] = []

    @oslo_messaging.expected_exceptions(Exception)
    def object_class_action_versions(
        self, context: dict[str, Any], objname: str, objmethod: str, **rest: Any
    ) -> Any:
        self.asked.append((context["read_deleted"], context["is_admin"], objname, objmethod, rest))
        answer = self.answers[objname]
        if isinstance(answer, Exception):
            raise answer
        return answer


Ask = Callable[[StandIn], InstanceState | None]


@pytest.fixture
def ask() -> Iterator[Ask]:
    """What asks a stand-in about the instance."""
    cfg.CONF([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, url="kombu+memory:///")

    def asked(stand_in: StandIn) -> InstanceState | None:
        server = RpcServer(transport, "conductor", "c", [stand_in], 1)
        server.start()
        try:
            return NovaConductor(transport, 30.0).instance(UUID)
        finally:
            server.drain()

    yield asked
    transport.cleanup()


def primitive(data: Any) -> dict[str, Any]:
    return {"nova_object.name": "Instance", "nova_object.data": data}


def test_the_state_of_an_instance_is_read(ask: Ask) -> None:
    stand_in = StandIn(Instance=primitive(ACTIVE))
    assert ask(stand_in) == InstanceState(True, "c1", "active", None)
    asked = {"object_versions": {"Instance": "2.0"}, "args": [UUID]}
    kwargs = {"kwargs": {"expected_attrs": []}}
    assert stand_in.asked == [("yes", True, "Instance", "get_by_uuid", {**asked, **kwargs})]


def test_an_instance_that_was_deleted_does_not_exist(ask: Ask) -> None:
    assert ask(StandIn(Instance=primitive({**ACTIVE, "deleted": True}))) == DELETED


def test_an_instance_without_a_mapping_does_not_exist(ask: Ask) -> None:
    nothing = StandIn(Instance=InstanceNotFound(), InstanceMapping=InstanceMappingNotFound())
    assert ask(nothing) == DELETED


@pytest.mark.parametrize(
    "answers",
    [
        # In another cell, or not made yet.
        {"Instance": InstanceNotFound(), "InstanceMapping": primitive({"queued_for_delete": True})},
        # A conductor of a cell has no access to the database of the API.
        {"Instance": InstanceNotFound(), "InstanceMapping": RuntimeError("no connection")},
        {"Instance": RuntimeError("odd")},
        {"Instance": InstanceMappingNotFound()},
        {"Instance": None},
        {"Instance": primitive(None)},
        {"Instance": primitive({})},
        {"Instance": primitive({**ACTIVE, "host": 3})},
    ],
)
def test_other_answers_tell_nothing(ask: Ask, answers: dict[str, Any]) -> None:
    assert ask(StandIn(**answers)) is None


def test_nobody_may_answer() -> None:
    cfg.CONF([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, url="kombu+memory:///")
    with pytest.raises(NoConductor):
        NovaConductor(transport, 0.1).instance(UUID)
    transport.cleanup()
