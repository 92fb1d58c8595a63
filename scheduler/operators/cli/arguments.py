# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments that several commands have, and types of their values for argparse."""

import argparse
import math
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from inventory.errors import Malformed, checked_text

# Seconds.
MAX_TIMEOUT = 3600
DATABASE_TIMEOUT = 10.0
RPC_TIMEOUT = 10.0
# The largest value of an integer column.
MAX_INTEGER = 2**31 - 1


def key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def not_empty(text: str) -> str:
    """Return a text that is not empty, as of a variable that a script has not set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty: give a value, or leave the option out")
    return text


def operator(text: str) -> str:
    """Return the name of an operator, which has to fit into the audit log."""
    try:
        return checked_text("operator", text)
    except Malformed as error:
        raise argparse.ArgumentTypeError(error.problem) from None


def whole_number(text: str, least: int, most: int = MAX_INTEGER) -> int:
    """Return a whole number within the bounds; raise ArgumentTypeError for anything else."""
    # int() refuses texts of thousands of digits with an error of its own.
    value = int(text) if re.fullmatch(r"\s*-?[0-9]{1,20}\s*", text) else None
    if value is None or not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
    return value


positive = partial(whole_number, least=1)
not_negative = partial(whole_number, least=0)


def above_zero(text: str, most: float, what: str) -> float:
    """Return a number above 0, at most most; raise ArgumentTypeError with what it has to be."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value


# A timeout that oslo.messaging and databases accept.
seconds = partial(
    above_zero, most=MAX_TIMEOUT, what=f"a number of seconds above 0 and up to {MAX_TIMEOUT}"
)


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def age_or_time(text: str) -> datetime:
    """Return a time in UTC without its zone, as the database has it."""
    return _moment(text, -1, "an age")


def time_ahead(text: str) -> datetime:
    """Return a time to come as age_or_time() does."""
    return _moment(text, 1, "a time from now")


def _moment(text: str, sign: int, what: str) -> datetime:
    length = re.fullmatch(r"([0-9]{1,6})([smhdw])", text)
    try:
        if length:
            found = datetime.now(UTC) + sign * timedelta(**{_UNITS[length[2]]: int(length[1])})
        else:
            found = datetime.fromisoformat(text)
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    # Some times are before or after all years.
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither {what}, such as 30m, 1h or 2d, nor a time, such as 2026-11-22 or"
            " 2026-11-22T03:40"
        ) from None


def check_combination(
    parser: argparse.ArgumentParser, problem: Callable[[argparse.Namespace], str | None]
) -> None:
    """Make a parser refuse arguments for which problem() returns an error text."""
    parse = parser.parse_args

    def parse_args(*arguments: Any) -> Any:
        parsed = parse(*arguments)
        error = problem(parsed)
        if error is not None:
            parser.error(error)
        return parsed

    parser.parse_args = parse_args  # type: ignore[assignment,method-assign]


def complete(argument: Any, names: str) -> None:
    """Let shells complete an argument by names of a kind, see inventory.queries.name_queries."""
    argument.names = names


def add_named(parser: Any, name: str, names: str, what: str, **settings: Any) -> None:
    """Add an argument for the name of something, which shells complete by names of a kind."""
    complete(parser.add_argument(name, help=what, **settings), names)


def complete_words(argument: Any, words: Iterable[str]) -> None:
    """Let shells complete an argument by words; it takes a list of them, so they are no choices."""
    argument.words = [*words]


def add_flag(parser: Any, name: str, what: str) -> None:
    parser.add_argument(name, action="store_true", help=what)


def add_long(parser: Any) -> None:
    """Add the option with which people see all columns, as programs do."""
    add_flag(
        parser, "--long", "Show all columns; formats other than the table always have all columns."
    )


def add_watch(parser: Any) -> None:
    what = "List again every SECONDS until Ctrl-C (default: 2)."
    parser.add_argument("--watch", nargs="?", type=seconds, const=2.0, metavar="SECONDS", help=what)


def add_repeatable(parser: Any, *names: str, what: str, **settings: Any) -> Any:
    """Add an option that may be given several times, and return it."""
    text = f"{what}; may be given several times."
    return parser.add_argument(*names, action="append", default=[], help=text, **settings)


def add_configuration(parser: Any, option: str, *others: str, **settings: Any) -> Any:
    """Add --config-file or --config-dir; their arguments are kept in one list, in their order."""
    defaults: dict[str, Any] = {"dest": "configuration", "type": f"{option}={{}}".format}
    return add_repeatable(parser, option, *others, **defaults | settings)


def add_host(
    parser: Any, nargs: str | None = None, shown_by: str = "host list", names: str = "hosts"
) -> None:
    add_named(parser, "host", names, f"Name of the host, as '{shown_by}' shows it.", nargs=nargs)


def add_reason(parser: Any) -> None:
    parser.add_argument("--reason", metavar="TEXT", help="Reason to record with the change.")


def add_since(parser: Any, what: str) -> None:
    help_text = (
        f"Earliest time of the {what} to list: an age, such as 30m, 1h or 2d, or a UTC time, such"
        " as 2026-11-22 or 2026-11-22T03:40, which may end with a time zone, such as +02:00."
    )
    parser.add_argument("--since", type=age_or_time, metavar="TIME", help=help_text)


def add_limit(parser: Any, what: str, default: int) -> None:
    """Add the argument that bounds how many rows a report shows."""
    help_text = f"Maximum number of {what} to show (default: {default}); -f json shows all of them."
    parser.add_argument("--limit", type=positive, default=default, metavar="N", help=help_text)


def add_timeout(parser: Any, default: float = RPC_TIMEOUT) -> None:
    what = f"Seconds to wait for the answer (default: {default:g})."
    parser.add_argument("--timeout", type=seconds, default=default, metavar="S", help=what)


def add_time_limit(parser: Any, work: str, default: float) -> None:
    """Add the argument after which work that may last ends, as it does at Ctrl-C."""
    default_text = f"{default:.0f}" if math.isfinite(default) else "none"
    what = (
        f"Seconds after which the {work} ends with what it has found (default: {default_text})."
        f" Ctrl-C ends the {work} at once."
    )
    parser.add_argument("--time-limit", type=seconds, default=default, metavar="S", help=what)


def add_agent(parser: Any, timeout: float = RPC_TIMEOUT) -> None:
    what = (
        "Name of the agent that reports the host, its [DEFAULT] host (default: the agent that"
        " reported the host last)."
    )
    add_named(parser, "--agent", "hosts", what, metavar="NAME")
    add_timeout(parser, timeout)
