# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Errors as they travel to a caller, under the names and in the module that Nova knows.

    SchedulerFailure
     +-- NoValidHost           no destination for at least one instance
     |    +-- MaxRetriesExceeded    no build succeeded on as many hosts as may be tried
     +-- InvalidInput          the arguments are malformed; the reason names the field
     +-- ServiceUnavailable    database or broker are gone, or the deadline has passed
     |    +-- NoAnswer         the broker took a call, and nobody answered in time
     +-- ComputeHostNotFound   there is no host, service or hypervisor of that name
     +-- ComputeServiceInUse   the host is still in use
     +-- Forbidden             an option of the agent does not allow it
     +-- Unsupported           the driver of the host cannot do it

A caller rebuilds an error from its class, module, positional arguments and attribute ``kwargs``.
All texts may reach a tenant.
"""

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from oslo_messaging import RemoteError


class SchedulerFailure(Exception):
    """Base class of what our RPC methods raise; ``reason`` is one short sentence."""

    prefix: ClassVar[str]
    code: ClassVar[int]

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        self.kwargs: dict[str, Any] = {"reason": reason, "code": self.code}
        super().__init__(self.prefix + reason)

    def __reduce__(self) -> tuple[type["SchedulerFailure"], tuple[str]]:
        # A copy is made from the reason: the prefix must not come twice.
        return type(self), (self.reason,)


class NoValidHost(SchedulerFailure):
    """No host can take the request, or not all of its instances."""

    prefix = "No valid host was found. "
    code = 500


class MaxRetriesExceeded(NoValidHost):
    """No attempt to build an instance is left; raised by conductors, not by schedulers."""

    prefix = "Exceeded maximum number of retries. "


class InvalidInput(SchedulerFailure):
    """The arguments are malformed; nothing was decided or claimed."""

    prefix = "Invalid input received: "
    code = 400


class ServiceUnavailable(SchedulerFailure):
    """The service cannot answer now; the same request may succeed later."""

    prefix = "Service is unavailable at this time. "
    code = 503


class NoAnswer(ServiceUnavailable):
    """The broker took a call, and no server answered in time; only clients raise it."""


class ComputeHostNotFound(SchedulerFailure):
    """A host, service or hypervisor that an operator named does not exist."""

    prefix = "Compute host could not be found: "
    code = 404


class ComputeServiceInUse(SchedulerFailure):
    """A host that an operator wants to delete is in use."""

    prefix = "Compute service is still in use: "
    code = 409


class Forbidden(SchedulerFailure):
    """The configuration of the host, or Nova as the owner of it, does not allow an operation."""

    prefix = "Forbidden: "
    code = 403


class Unsupported(SchedulerFailure):
    """The host cannot do an operation. Nova has NotImplementedError for it."""

    prefix = "Not supported: "
    code = 501


_NOVA_ERRORS = (
    *(NoValidHost, MaxRetriesExceeded, InvalidInput, ServiceUnavailable),
    *(ComputeHostNotFound, ComputeServiceInUse, Forbidden),
)
_BY_NAME = {each.__name__: each for each in (*_NOVA_ERRORS, Unsupported)}
for _error in _NOVA_ERRORS:
    _error.__module__ = "nova.exception"


def from_remote(error: "RemoteError") -> Exception:
    """Return the error of ours that a remote one stands for, or else the remote one.

    Only classes of this module are built: the name that a server sends is looked up, not imported.
    """
    failure = _BY_NAME.get(str(error.exc_type))
    if failure is None:
        return error  # type: ignore[no-any-return]  # oslo.messaging has no types
    return failure(str(error.value).removeprefix(failure.prefix))
