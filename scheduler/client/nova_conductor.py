# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Query Nova's conductor for the state of instances.

The conductors at one broker have one database. In a cloud of several cells it may be that of
another cell than the instance's, so a missing row proves nothing.
"""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import oslo_messaging

from scheduler.messaging.transport import disconnect
from scheduler.wire.context import RequestContext

TOPIC = "conductor"
VERSION = "3.0"
# Seconds.
TIMEOUT = 5.0
# The oldest versions of these objects: every conductor of Nova can answer in them.
_VERSIONS = {"Instance": "2.0", "InstanceMapping": "1.0"}


class NoConductor(Exception):
    """No conductor of Nova answered."""


@dataclass(frozen=True, slots=True)
class InstanceState:
    """The state of an instance in Nova's terms; exists is false when it was deleted."""

    exists: bool = True
    host: str | None = None
    vm_state: str | None = None
    task_state: str | None = None


DELETED = InstanceState(exists=False)


class NovaConductor:
    """Calls the conductors on a transport of its own."""

    def __init__(self, transport: oslo_messaging.Transport, timeout: float = TIMEOUT) -> None:
        target = oslo_messaging.Target(topic=TOPIC, version=VERSION)
        self._transport = transport
        self._client = oslo_messaging.get_rpc_client(transport, target, timeout=timeout, retry=0)

    def instance(self, uuid: str) -> InstanceState | None:
        """Return the state of an instance, None if it is unknown; raise NoConductor."""
        try:
            data = self._fetch("Instance", "get_by_uuid", uuid, expected_attrs=[])
            if data is not None:
                return _state(data)
            # Nova makes the mapping before it asks a scheduler, and the instance only afterwards.
            mapping = self._fetch("InstanceMapping", "get_by_instance_uuid", uuid)
        except _Unreadable:
            return None
        return DELETED if mapping is None else None

    def close(self) -> None:
        disconnect(self._transport)

    def _fetch(self, name: str, method: str, uuid: str, **options: Any) -> dict[str, Any] | None:
        """Return the fields of an object, None if it is not in the database."""
        context = RequestContext(request_id=f"req-{uuid4()}", is_admin=True).to_dict()
        try:
            answer = self._client.call(
                # An instance that was deleted differs from one that is in another cell.
                {**context, "read_deleted": "yes"},
                "object_class_action_versions",
                objname=name,
                objmethod=method,
                object_versions={name: _VERSIONS[name]},
                args=[uuid],
                kwargs=options,
            )
        except oslo_messaging.RemoteError as error:
            if error.exc_type == f"{name}NotFound":
                return None
            raise _Unreadable from None
        except oslo_messaging.MessagingException as error:
            raise NoConductor(" ".join(str(error).split())) from error
        # Built-in ones that the conductor raised, and those of libraries.
        except Exception as error:
            raise _Unreadable from error
        data = answer.get("nova_object.data") if isinstance(answer, dict) else None
        if not isinstance(data, dict):
            raise _Unreadable
        return data


class _Unreadable(Exception):
    """The conductor answered with something else than the object."""


def _state(data: dict[str, Any]) -> InstanceState | None:
    if data.get("deleted"):
        return DELETED
    states = [data.get(name) for name in ("host", "vm_state", "task_state")]
    if "task_state" not in data or not all(isinstance(each, str | None) for each in states):
        return None
    return InstanceState(True, *states)
