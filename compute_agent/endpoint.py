# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The methods that operators' tools call on the topic 'compute', in the namespace 'berthmaster'.

It is served under a name of our own, see scheduler.rpc.host_client. All answers are made of what
JSON knows. What the methods take is in their signatures, against which arguments are checked.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import oslo_messaging
from oslo_log import log

from compute_agent.host_operations import HostOperations, NotAllowed, NotPossible
from compute_agent.virt.driver import DriverError
from inventory import services
from inventory.engine import DatabaseUnavailable
from inventory.refusals import InUse, Malformed, NotReported, OperationRefused, Unknown
from scheduler.rpc import failures
from scheduler.rpc.context import RequestContext
from scheduler.rpc.failures import InvalidInput, SchedulerFailure, ServiceUnavailable
from scheduler.rpc.host_client import NAMESPACE, VERSION

LOG = log.getLogger(__name__)
LONGEST = 255
COMPUTE = services.COMPUTE[0]
Row = dict[str, Any]
_FAILURES: dict[type[OperationRefused], type[SchedulerFailure]] = {
    Unknown: failures.ComputeHostNotFound,
    Malformed: failures.InvalidInput,
    InUse: failures.ComputeServiceInUse,
    NotAllowed: failures.Forbidden,
    NotPossible: failures.Unsupported,
    NotReported: failures.Unsupported,
}


def _served(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method be called over RPC: its arguments are checked, its errors are known to callers.

    The method gets a RequestContext and keyword arguments of the types bool and str.
    """
    _, _, *takes = inspect.signature(method).parameters.values()

    # Not by the names self and context: a caller may call any argument so.
    @oslo_messaging.expected_exceptions(SchedulerFailure)  # type: ignore[untyped-decorator]
    @functools.wraps(method)
    def serve(endpoint: "HostEndpoint", context: Any, /, **arguments: Any) -> Any:
        caller = RequestContext.from_dict(context)
        caller.for_logging()
        with _failures_named(method.__name__, caller):
            return method(endpoint, caller, **_checked(arguments, takes))

    return serve  # type: ignore[no-any-return]  # oslo.messaging has no types


class HostEndpoint:
    """What operators ask of an agent. host is by default the agent's own."""

    target = oslo_messaging.Target(namespace=NAMESPACE, version=VERSION)

    def __init__(self, does: HostOperations) -> None:
        self._does = does

    @_served
    def ping(self, caller: RequestContext, *, arg: str | None = None) -> Row:
        """Answer who this is."""
        return {"service": "berthmaster-agent", "host": self._does.agent, "arg": arg}

    @_served
    def host_list(self, caller: RequestContext, *, zone: str | None = None) -> list[Row]:
        """Answer inventory.host_usage.listed()."""
        return self._does.host_list(zone)

    @_served
    def host_describe(self, caller: RequestContext, *, host: str | None = None) -> list[Row]:
        """Answer inventory.host_usage.describe()."""
        return self._does.describe(host)

    @_served
    def set_host_enabled(
        self,
        caller: RequestContext,
        *,
        enabled: bool,
        reason: str | None = None,
        host: str | None = None,
    ) -> Row:
        """Enable or disable a host; answer its switches."""
        if not enabled:
            return self._does.disable(caller, host, reason, COMPUTE)
        _refuse(reason, "only a host that is being disabled has one")
        return self._does.enable(caller, host, COMPUTE)

    @_served
    def host_maintenance_mode(
        self,
        caller: RequestContext,
        *,
        mode: bool,
        reason: str | None = None,
        host: str | None = None,
    ) -> Row:
        """Begin or end maintenance of a host; answer its switches."""
        if not mode:
            _refuse(reason, "the end of maintenance has none")
        return self._does.maintenance(caller, host, mode, reason)

    @_served
    def host_power_action(
        self, caller: RequestContext, *, action: str, host: str | None = None
    ) -> Row:
        """Start, reboot or shut down one of the agent's own hosts."""
        return self._does.act_on_power(caller, host, action)

    @_served
    def get_host_uptime(self, caller: RequestContext, *, hypervisor: str | None = None) -> Row:
        """Answer inventory.hypervisors.uptime() of one of the agent's own."""
        return self._does.uptime(hypervisor)

    @_served
    def service_list(self, caller: RequestContext, *, binary: str | None = None) -> list[Row]:
        """Answer inventory.services.listed()."""
        return self._does.service_list(binary)

    @_served
    def service_enable(
        self, caller: RequestContext, *, host: str | None = None, binary: str = COMPUTE
    ) -> Row:
        """Enable a service; answer its switches."""
        return self._does.enable(caller, host, binary)

    @_served
    def service_disable(
        self,
        caller: RequestContext,
        *,
        reason: str | None = None,
        host: str | None = None,
        binary: str = COMPUTE,
    ) -> Row:
        """Disable a service; answer its switches."""
        return self._does.disable(caller, host, reason, binary)

    @_served
    def service_force_down(
        self,
        caller: RequestContext,
        *,
        forced_down: bool = True,
        host: str | None = None,
        binary: str = COMPUTE,
    ) -> Row:
        """Count a service as down, or not any more; answer its switches."""
        return self._does.force_down(caller, host, forced_down, binary)

    @_served
    def service_delete(
        self,
        caller: RequestContext,
        *,
        host: str | None = None,
        binary: str = COMPUTE,
        forget_guests: bool = False,
    ) -> Row:
        """Delete a service that has ended; answer what went with it."""
        return self._does.delete(caller, host, binary, forget_guests)

    @_served
    def hypervisor_list(self, caller: RequestContext, *, matching: str | None = None) -> list[Row]:
        """Answer inventory.hypervisors.listed()."""
        return self._does.hypervisor_list(matching)

    @_served
    def hypervisor_show(self, caller: RequestContext, *, hypervisor: str | None = None) -> Row:
        """Answer inventory.hypervisors.show()."""
        return self._does.hypervisor(hypervisor)

    @_served
    def hypervisor_stats(self, caller: RequestContext) -> dict[str, int]:
        """Answer inventory.hypervisors.stats()."""
        return self._does.hypervisor_stats()

    @_served
    def hypervisor_servers(
        self, caller: RequestContext, *, hypervisor: str | None = None
    ) -> list[Row]:
        """Answer inventory.hypervisors.servers()."""
        return self._does.servers(hypervisor)


def _refuse(reason: str | None, why: str) -> None:
    if reason is not None:
        raise Malformed("reason", why)


def _checked(arguments: Mapping[str, Any], takes: list[inspect.Parameter]) -> dict[str, Any]:
    """Return the arguments; raises InvalidInput, with the name of the one that is wrong."""
    known = {each.name: each for each in takes}
    for name in sorted(arguments.keys() - known.keys()):
        raise InvalidInput(f"{name[:LONGEST]!r}: there is no such argument")
    for name, parameter in known.items():
        if name not in arguments:
            if parameter.default is parameter.empty:
                raise InvalidInput(f"{name}: is missing")
        elif problem := _problem(arguments[name], parameter):
            raise InvalidInput(f"{name}: {problem}")
    return dict(arguments)


def _problem(value: Any, parameter: inspect.Parameter) -> str | None:
    """Return what is wrong with a value for a parameter."""
    if parameter.annotation is bool:
        return None if isinstance(value, bool) else "must be true or false"
    if value is None and parameter.default is None:
        return None
    if not isinstance(value, str):
        return "must be a text"
    if len(value) > LONGEST or not value.isprintable():
        return f"must be one line of at most {LONGEST} characters"
    return None


@contextmanager
def _failures_named(method: str, caller: RequestContext) -> Iterator[None]:
    """Turn errors into those that a caller knows; each leaves a line in the log."""
    try:
        yield
        return
    except SchedulerFailure as error:
        cause, failure = error.reason, error
    except OperationRefused as error:
        cause, failure = str(error), _FAILURES[type(error)](str(error))
    except DriverError as error:
        cause, failure = str(error), ServiceUnavailable(f"The hypervisor failed: {error}")
    except DatabaseUnavailable as error:
        cause, failure = str(error), ServiceUnavailable(f"The agent's database {error.brief}.")
    # Not up there: oslo.log adds the error to whatever is logged while one is handled.
    LOG.info("Refused %s of %s: %s", method, caller.request_id, cause)
    raise failure
