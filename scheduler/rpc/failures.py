# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Failures as they travel to a caller, under the names and in the module that Nova knows.

    SchedulerFailure
     +-- NoValidHost           no destination for at least one instance
     |    +-- MaxRetriesExceeded    no build succeeded on as many hosts as may be tried
     +-- InvalidInput          the arguments cannot be read; the reason names the field
     +-- ServiceUnavailable    database or broker are gone, or the deadline has passed
     +-- ComputeHostNotFound   there is no host, service or hypervisor of that name
     +-- ComputeServiceInUse   the host is still needed, or still there
     +-- Forbidden             an option of the agent does not allow it
     +-- Unsupported           the driver of the host has no way to do it

A caller rebuilds a failure from its class, its module, its positional arguments and its attribute
``kwargs``. All texts may reach a tenant.
"""

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from oslo_messaging import RemoteError


class SchedulerFailure(Exception):
    """The root of what our RPC methods raise; ``reason`` says why, in one short sentence."""

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

    __module__ = "nova.exception"
    prefix = "No valid host was found. "
    code = 500


class MaxRetriesExceeded(NoValidHost):
    """An instance failed to build as often as it may be tried; conductors raise it, not we."""

    __module__ = "nova.exception"
    prefix = "Exceeded maximum number of retries. "


class InvalidInput(SchedulerFailure):
    """The arguments are malformed; nothing was decided or claimed."""

    __module__ = "nova.exception"
    prefix = "Invalid input received: "
    code = 400


class ServiceUnavailable(SchedulerFailure):
    """The service cannot answer now; the same request may succeed later."""

    __module__ = "nova.exception"
    prefix = "Service is unavailable at this time. "
    code = 503


class ComputeHostNotFound(SchedulerFailure):
    """What an operator asked for does not exist."""

    __module__ = "nova.exception"
    prefix = "Compute host could not be found: "
    code = 404


class ComputeServiceInUse(SchedulerFailure):
    """What an operator wants to be gone is in use."""

    __module__ = "nova.exception"
    prefix = "Compute service is still in use: "
    code = 409


class Forbidden(SchedulerFailure):
    """The configuration of the host does not allow what an operator wants."""

    __module__ = "nova.exception"
    prefix = "Forbidden: "
    code = 403


class Unsupported(SchedulerFailure):
    """The host cannot do what an operator wants. Nova has NotImplementedError for it."""

    prefix = "Not supported: "
    code = 501


_REBUILT = {
    each.__name__: each
    for each in (
        NoValidHost,
        MaxRetriesExceeded,
        InvalidInput,
        ServiceUnavailable,
        ComputeHostNotFound,
        ComputeServiceInUse,
        Forbidden,
        Unsupported,
    )
}


def from_remote(error: "RemoteError") -> Exception:
    """Return the failure that a remote error stands for, or the error itself if none of ours.

    Only the classes of this module are ever built: what a server names is looked up, not imported.
    """
    failure = _REBUILT.get(str(error.exc_type))
    if failure is None:
        return error  # type: ignore[no-any-return]  # oslo.messaging has no types
    return failure(str(error.value).removeprefix(failure.prefix))
