# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the caller can be told to do with Nova's clients, and how it tells what they raised."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import nova.conf
import oslo_messaging
from nova import baserpc, exception
from nova import context as nova_context
from nova.objects import base
from nova.scheduler import rpcapi

from tests.peer import answers, moves, specs

CONF = nova.conf.CONF
Answer = dict[str, Any]


class Commands:
    """Nova's clients of the scheduler; each public method but obey() is a command."""

    def __init__(self) -> None:
        self._context = nova_context.get_context()
        self._scheduler = rpcapi.SchedulerAPI()

    def obey(self, line: str) -> Answer:
        """Obey one command and answer it."""
        words = json.loads(line)
        self._context = nova_context.RequestContext(is_admin=False, **words.pop("context"))
        method: Callable[..., Any] = getattr(self, words.pop("do"))
        try:
            return {"result": method(**words)}
        except Exception as error:
            return {"failure": failure(error)}

    def cap(self, version: str | None) -> None:
        """Let the client be one with another [upgrade_levels] scheduler."""
        CONF.set_override("scheduler", version, group="upgrade_levels")
        self._scheduler = rpcapi.SchedulerAPI()

    def select_destinations(
        self,
        spec: Mapping[str, Any],
        instance_uuids: list[str],
        move: Mapping[str, Any] | None = None,
        return_objects: bool = True,
        return_alternates: bool = True,
        build: bool = False,
        numa_host: str | None = None,
    ) -> Answer:
        """Ask for hosts for instances that are built, or for one that is moved.

        With build the answer is used up by builds that fail; numa_host is the topology of a host
        that is to have room for the first of them.
        """
        asked = specs.request_spec(self._context, instance_uuids[0], spec)
        if move is not None:
            asked = moves.prepare(self._context, asked, move)
        found = self._scheduler.select_destinations(
            self._context, asked, instance_uuids, return_objects, return_alternates
        )
        result = {"answer": answers.read(found)}
        if build:
            result["builds"] = [
                answers.build(self._context, asked, uuid, each)
                for uuid, each in zip(instance_uuids, found, strict=True)
            ]
        if numa_host is not None:
            result["fits"] = answers.fits_numa(asked, found[0], numa_host)
        return result

    def update_aggregates(self, aggregates: list[Mapping[str, Any]]) -> None:
        """Tell of aggregates, as the API does."""
        found = [specs.an_aggregate(each) for each in aggregates]
        self._scheduler.update_aggregates(self._context, found)

    def delete_aggregate(self, aggregate: Mapping[str, Any]) -> None:
        """Tell of the end of an aggregate."""
        self._scheduler.delete_aggregate(self._context, specs.an_aggregate(aggregate))

    def update_instance_info(self, host_name: str, instances: list[Mapping[str, Any]]) -> None:
        """Tell of instances, as a compute host does."""
        found = specs.instances(instances, host_name)
        self._scheduler.update_instance_info(self._context.elevated(), host_name, found)

    def delete_instance_info(self, host_name: str, instance_uuid: str) -> None:
        """Tell of the end of an instance."""
        self._scheduler.delete_instance_info(self._context.elevated(), host_name, instance_uuid)

    def sync_instance_info(self, host_name: str, instance_uuids: list[str]) -> None:
        """Tell of all instances of a host."""
        self._scheduler.sync_instance_info(self._context.elevated(), host_name, instance_uuids)

    def ping(self, arg: Any) -> Any:
        """Call what every service of Nova answers."""
        return baserpc.BaseAPI(rpcapi.RPC_TOPIC).ping(self._context, arg)

    def get_backdoor_port(self, host: str) -> Any:
        """Ask a scheduler for the port of its backdoor."""
        return baserpc.BaseAPI(rpcapi.RPC_TOPIC).get_backdoor_port(self._context, host)

    def receive(self, primitive: Mapping[str, Any], timeout: int) -> Any:
        """Read an object as it may come in an answer, with so many seconds for a conductor."""
        CONF.set_override("rpc_response_timeout", timeout)
        try:
            found = base.NovaObjectSerializer().deserialize_entity(self._context, dict(primitive))
        finally:
            CONF.clear_override("rpc_response_timeout")
        return answers.selection(found)


def failure(error: Exception) -> Answer:
    """Return by what a caller would know an error, and what it says."""
    kinds = {
        "NoValidHost": exception.NoValidHost,
        "NovaException": exception.NovaException,
        "RemoteError": oslo_messaging.RemoteError,
        "MessagingTimeout": oslo_messaging.MessagingTimeout,
        "RPCVersionCapError": oslo_messaging.RPCVersionCapError,
    }
    caught = next((name for name, kind in kinds.items() if isinstance(error, kind)), None)
    message = error.format_message() if caught in ("NoValidHost", "NovaException") else str(error)
    return {
        "caught_as": caught,
        "class": type(error).__name__,
        "module": type(error).__module__,
        "message": message,
        "kwargs": getattr(error, "kwargs", {}),
        "traceback": "".join(traceback.format_exception(error)),
    }
