# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What commands have in common: the configuration, the database, agents, KEY=VALUE arguments."""

import argparse
import getpass
import os
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, TypeVar
from uuid import uuid4

from cliff.app import App
from cliff.columns import FormattableColumn
from oslo_config import cfg

from conf.service import liveness_limit
from inventory.idempotency import write_once
from inventory.names import some
from scheduler.cli.database import database_of
from scheduler.rpc.context import RequestContext
from scheduler.rpc.host_client import HostClient

T = TypeVar("T")
# Seconds.
LONGEST_WAIT = 3600
# What a column of a whole number holds.
LARGEST = 2**31 - 1


def conf_of(app: App) -> cfg.ConfigOpts:
    """Return the configuration of a command's application."""
    conf: cfg.ConfigOpts = app.conf
    return conf


def pair(text: str) -> tuple[str, str]:
    """Return (key, value) of KEY=VALUE, for argparse."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def positive(text: str) -> int:
    """Return a whole number of 1 or more, for argparse."""
    return whole(text, 1)


def not_negative(text: str) -> int:
    """Return a whole number of 0 or more, for argparse."""
    return whole(text, 0)


def whole(text: str, least: int, most: int = LARGEST) -> int:
    """Return a whole number of a range; raises ArgumentTypeError, as argparse wants it."""
    # Of more digits than int() takes none is in the range.
    value = int(text) if re.fullmatch(r"\s*-?[0-9]{1,20}\s*", text) else None
    if value is None or not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
    return value


def seconds(text: str) -> float:
    """Return a time to wait, for argparse; what messages cannot be given is refused."""
    wrong = f"{text!r} is not a number of seconds above 0 and up to {LONGEST_WAIT}"
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(wrong) from None
    if not 0 < value <= LONGEST_WAIT:
        raise argparse.ArgumentTypeError(wrong)
    return value


def checked_together(
    parser: argparse.ArgumentParser, problem: Callable[[argparse.Namespace], str | None]
) -> None:
    """Let a parser refuse arguments of which each is right, and that together mean nothing.

    It refuses them as it refuses a wrong one, with what problem() returns.
    """
    parse = parser.parse_args

    def parse_args(*arguments: Any) -> Any:
        found = parse(*arguments)
        wrong = problem(found)
        if wrong is not None:
            parser.error(wrong)
        return found

    parser.parse_args = parse_args  # type: ignore[assignment,method-assign]


def limit_of(app: App) -> int:
    """Return the age in seconds up to which a heartbeat counts as alive."""
    return liveness_limit(conf_of(app))


def read(app: App, work: Callable[..., T], *arguments: Any) -> T:
    """Return work(connection, *arguments), run in a transaction that writes nothing."""
    with database_of(app) as database:
        return database.read(lambda connection: work(connection, *arguments))


def write(app: App, work: Callable[..., T], *arguments: Any) -> T:
    """Return work(connection, *arguments), committed once."""
    with database_of(app) as database:
        return write_once(database, lambda connection: work(connection, *arguments))


def ask_agent(app: App, agent: str, method: str, timeout: float | None, **arguments: Any) -> Any:
    """Return what an agent answers to one call, made in the name of who runs the command."""
    caller = RequestContext(request_id=f"req-{uuid4()}", user_name=_user(), is_admin=True)
    with closing(HostClient(conf_of(app))) as client:
        return client.call(caller, agent, method, timeout, **arguments)


def _user() -> str:
    try:
        return getpass.getuser()
    # A user without an entry and without a name in the environment, as in some containers.
    except (KeyError, OSError):
        return str(os.getuid())


def add_reaching_agent(parser: argparse.ArgumentParser, timeout: float | None = None) -> None:
    """Add the arguments of commands for which an agent has to answer."""
    parser.add_argument(
        "--agent",
        metavar="NAME",
        help="[DEFAULT] host of the agent that looks after it, where that is another name.",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=timeout,
        metavar="S",
        help=f"Seconds to wait ({timeout or 'rpc_response_timeout'}).",
    )


def add_reason(parser: argparse.ArgumentParser) -> None:
    """Add the argument for why something is done."""
    parser.add_argument("--reason", metavar="TEXT", help="Why, for whoever looks at it later.")


def add_compute_service(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a service, by default that of an agent."""
    parser.add_argument("host", help="Name of the host, as service list shows it.")
    parser.add_argument(
        "--binary", default="nova-compute", help="Which of its services (nova-compute)."
    )


def shown(row: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    """Return a row as cliff shows one."""
    return list(row), list(row.values())


class Names(FormattableColumn):  # type: ignore[misc]  # cliff has no types
    """Names of which people see the first few; programs have all of them."""

    def human_readable(self) -> str:
        return some(self._value)


class Properties(FormattableColumn):  # type: ignore[misc]  # cliff has no types
    """Values by key, as they are set: KEY=VALUE."""

    def human_readable(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self._value.items())


def readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose lists and mappings people can read as well."""

    def column(value: Any) -> Any:
        if isinstance(value, list):
            return Names(value)
        return Properties(value) if isinstance(value, dict) else value

    return {key: column(value) for key, value in row.items()}


def is_for_programs(parsed_args: Any) -> bool:
    """Tell whether a list is printed for programs, which are to have all of it."""
    return parsed_args.formatter in ("json", "yaml")


def table(titles: Mapping[str, str], rows: list[dict[str, Any]]) -> tuple[Any, Any]:
    """Return rows as cliff lists them; titles are those of the columns by key, in their order.

    What is not set is an empty text.
    """
    lines = [["" if row[key] is None else row[key] for key in titles] for row in rows]
    return list(titles.values()), lines
