# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Check the arguments of an RPC method against its signature, and name its errors for callers."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import oslo_messaging
from oslo_log import log

from compute_agent.virt.driver import DriverError
from inventory.database_errors import DatabaseUnavailable
from inventory.errors import InUse, Malformed, NotFound, NotReported, NovasOwn, OperationRefused
from scheduler.wire import errors
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import InvalidInput, SchedulerFailure, ServiceUnavailable

LOG = log.getLogger(__name__)
MAX_LENGTH = 255
_FAILURES: dict[type[OperationRefused], type[SchedulerFailure]] = {
    NotFound: errors.ComputeHostNotFound,
    Malformed: errors.InvalidInput,
    InUse: errors.ComputeServiceInUse,
    NotReported: errors.Unsupported,
    NovasOwn: errors.Forbidden,
}


def served(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method callable over RPC.

    The method gets a RequestContext and keyword arguments of the types bool and str.
    """
    _, _, *parameters = inspect.signature(method).parameters.values()

    # Positional only: a caller may send arguments that are called endpoint or context.
    @oslo_messaging.expected_exceptions(SchedulerFailure)  # type: ignore[untyped-decorator]
    @functools.wraps(method)
    def serve(endpoint: Any, context: Any, /, **arguments: Any) -> Any:
        caller = RequestContext.from_dict(context)
        caller.for_logging()
        with _translated_errors(method.__name__, caller):
            _check(arguments, parameters)
            return method(endpoint, caller, **arguments)

    return serve  # type: ignore[no-any-return]  # oslo.messaging has no types


def _check(arguments: Mapping[str, Any], parameters: list[inspect.Parameter]) -> None:
    """Raise InvalidInput, with the name of the argument, for the first that is wrong."""
    known = {each.name: each for each in parameters}
    for name in sorted(arguments.keys() - known.keys()):
        raise InvalidInput(f"{name[:MAX_LENGTH]!r}: there is no such argument")
    for name, parameter in known.items():
        if name not in arguments:
            if parameter.default is parameter.empty:
                raise InvalidInput(f"{name}: is missing")
        elif problem := _problem(arguments[name], parameter):
            raise InvalidInput(f"{name}: {problem}")


def _problem(value: Any, parameter: inspect.Parameter) -> str | None:
    """Return what is wrong with a value for a parameter."""
    if parameter.annotation is bool:
        return None if isinstance(value, bool) else "must be true or false"
    if value is None and parameter.default is None:
        return None
    if not isinstance(value, str):
        return "must be a text"
    if len(value) > MAX_LENGTH or not value.isprintable():
        return f"must be one line of at most {MAX_LENGTH} characters"
    return None


@contextmanager
def _translated_errors(method: str, caller: RequestContext) -> Iterator[None]:
    """Log an error and raise the one that callers know for it."""
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
    LOG.info("Refused %s of %s: %s", method, caller.request_id, cause)
    raise failure
