# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command line application: global options, configuration, exit status."""

import argparse
import gc
import logging
import os
import re
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from importlib import metadata
from itertools import pairwise
from typing import Any

from cliff.app import App
from cliff.command import Command
from cliff.display import DisplayCommandBase
from oslo_config import cfg

from conf.plain_text import escaped
from inventory.errors import NotFound, nearest
from scheduler.operators.cli import clouds
from scheduler.operators.cli.arguments import (
    DATABASE_TIMEOUT,
    add_configuration,
    add_named,
    operator,
    seconds,
)
from scheduler.operators.cli.base import column_key, refuse_arguments
from scheduler.operators.cli.command_list import Commands, Help, print_help

PROGRAM = "berthmaster"
# The option without which a command works on a database of its own.
_CONNECTION = ("database", "connection")


class _EscapingFormatter(logging.Formatter):
    """Writes errors, warnings and logs so that texts of tenants change nothing in a terminal."""

    def __init__(self, formatter: logging.Formatter | None) -> None:
        super().__init__()
        self._formatter = formatter or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(escaped, self._formatter.format(record).split("\n")))


class BerthmasterApp(App):  # type: ignore[misc]  # cliff has no types
    """Runs the commands that are registered in the namespace berthmaster.cli.

    The exit status is 0 for a command that succeeded, 1 for one that failed, and 2 for a wrong
    command line.
    """

    NAME = PROGRAM
    # Warnings only; -v adds what the services log as well.
    DEFAULT_VERBOSE_LEVEL = 0
    # Libraries that log with -vv only. oslo.log calls a module such as oslo_db.api oslo.db.api.
    QUIET = ("oslo", "oslo_db", "oslo_messaging", "amqp", "kombu", "stevedore", "alembic")

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(
            description="Operate a Berthmaster scheduler, or ask it for a host.",
            version=metadata.version(PROGRAM),
            command_manager=Commands("berthmaster.cli"),
            deferred_help=True,
            interactive_app_factory=_shell,
        )
        self.command_manager.add_command("help", Help)
        self.conf = conf
        self.LOG = _Errors(App.LOG, {"app": self})
        # The one that was named, if any.
        self.cloud: clouds.Cloud | None = None
        self._has_named_cloud = False
        # Of the command that is run, for the audit log.
        self.command_name = ""
        self._last_status = 0

    def run(self, argv: list[str]) -> int:
        """Run a command, or a shell of commands if none is given; return the exit status.

        The status of a shell is that of its last command.
        """
        status = int(super().run(rename_options(argv)))
        return self._last_status if self.interpreter else status

    def get_fuzzy_matches(self, cmd: str) -> list[str]:
        """Return none, so that an unknown command ends with the error of find_command()."""
        return []

    def run_subcommand(self, argv: list[str]) -> int:
        self._has_named_cloud = False
        self._last_status = int(super().run_subcommand(argv))
        return self._last_status

    def build_option_parser(self, *args: Any, **kwargs: Any) -> argparse.ArgumentParser:
        # Options of commands, such as simulate --config, are no abbreviations of these.
        kwargs["argparse_kwargs"] = {"allow_abbrev": False, **(kwargs.get("argparse_kwargs") or {})}
        parser: argparse.ArgumentParser = super().build_option_parser(*args, **kwargs)
        parser.error = partial(refuse_arguments, parser)  # type: ignore[method-assign]  # argparse has no other seam
        for option, metavar, what in (
            ("--config-file", "PATH", "Configuration file"),
            ("--config-dir", "DIR", "Directory of configuration files"),
        ):
            what = f"{what} to read, by default that of the daemons"
            add_configuration(parser, option, metavar=metavar, what=what)
        what = f"Cloud to work on, as '{PROGRAM} cloud list' names it (default: {clouds.VARIABLE})."
        add_named(parser, "--cloud", "clouds", what, metavar="NAME")
        help_text = (
            f"Seconds to wait for a database that does not answer (default: {DATABASE_TIMEOUT:g})."
        )
        parser.add_argument("--database-timeout", type=seconds, metavar="S", help=help_text)
        parser.add_argument(
            "--operator",
            type=operator,
            default=os.environ.get("BERTHMASTER_OPERATOR") or None,
            metavar="NAME",
            help="Name of the operator who makes the changes, for the audit log (default:"
            " BERTHMASTER_OPERATOR of the environment, or the name of the account).",
        )
        return parser

    def configure_logging(self) -> None:
        """Keep the libraries quiet unless the user asks for more with -v."""
        root = logging.getLogger()
        others = [*root.handlers]
        super().configure_logging()
        for handler in root.handlers:
            # Those of the program in which the command runs, as in tests, write as before.
            if handler not in others:
                handler.setFormatter(_EscapingFormatter(handler.formatter))
        level = logging.DEBUG if self.options.verbose_level > 1 else logging.ERROR
        for name in self.QUIET:
            logging.getLogger(name).setLevel(level)

    def prepare_to_run_command(self, cmd: Command) -> None:
        """Make a command refuse unknown columns, which cliff ignores next to a known one.

        The name of the command is kept. From here on there is garbage to collect, but not among
        what was imported.
        """
        self.command_name = cmd.cmd_name
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        if isinstance(cmd, DisplayCommandBase):
            produce = cmd.produce_output

            def checked(args: Any, columns: Sequence[str], data: Any) -> Any:
                _check_columns("show", args.columns, columns)
                _check_columns("sort by", getattr(args, "sort_columns", ()), columns)
                return produce(args, columns, data)

            cmd.produce_output = checked

    def print_help_if_requested(self) -> None:
        if self.options.deferred_help:
            print_help(self)
            raise SystemExit(0)

    def initialize_app(self, argv: list[str]) -> None:
        """Read the configuration that the command will use."""
        self.print_help_if_requested()
        # The demonstration has a configuration of its own.
        if argv[:1] in (["help"], ["complete"], ["demo"], ["cloud"]):
            return
        from conf import config_files, loading

        try:
            self.cloud = read_chosen(self.conf, self.options, self.stderr)
        except (loading.ConfigError, clouds.CloudError) as error:
            self.stderr.write(f"{PROGRAM}: {error}\n")
            raise SystemExit(1) from error
        if not (config_files.paths(self.conf) or loading.is_given(self.conf, *_CONNECTION)):
            self.stderr.write(f"{PROGRAM}: {config_files.none_found(PROGRAM)}\n")

    def name_cloud(self) -> None:
        """Say which cloud a command is about to change, where there may be another one; once."""
        if self._has_named_cloud:
            return
        self._has_named_cloud = True
        try:
            if self.cloud is not None:
                self.stderr.write(f"Changing cloud {self.cloud.name}.\n")
            elif clouds.known():
                self.stderr.write("Changing a cloud that was not named with --cloud.\n")
        except clouds.CloudError as error:
            self.stderr.write(f"{error}\n")


class _Errors(logging.LoggerAdapter):  # type: ignore[type-arg]  # generic for types only
    """Repeats in commands that an error names how this one was told which cloud it is about."""

    def process(self, msg: Any, kwargs: Any) -> tuple[str, Any]:
        options = getattr(self.extra["app"], "options", None) if self.extra else None
        cloud = getattr(options, "cloud", None)
        given = [f"--cloud={cloud}"] if cloud else getattr(options, "configuration", None) or []
        named = f"'{shlex.join([PROGRAM, *given])} " if given else f"'{PROGRAM} "
        return str(msg).replace(f"'{PROGRAM} ", named), kwargs


def read_chosen(conf: cfg.ConfigOpts, options: Any, stream: Any = None) -> clouds.Cloud | None:
    """Read the configuration that options of the program name; return the cloud, if it has a name.

    The stream gets a line about options in the environment, which a named cloud does not have.
    Raise ConfigError and CloudError.
    """
    # Here, with all options, since help needs none.
    from conf import loading

    cloud = clouds.chosen(options)
    ignored = clouds.ignore_environment() if cloud else []
    if ignored and cloud and stream:
        is_are = "is" if len(ignored) == 1 else "are"
        names = ", ".join(ignored)
        stream.write(
            f"{names} of the environment {is_are} ignored: cloud {cloud.name} has its own files\n"
        )
    arguments = cloud.arguments if cloud else options.configuration
    loading.read(conf, PROGRAM, arguments, metadata.version(PROGRAM), only_named=cloud is not None)
    loading.check(conf)
    return cloud


def _check_columns(purpose: str, names: Sequence[str], columns: Sequence[str]) -> None:
    """Raise NotFound for a name that is not that of a column in any spelling that cliff accepts."""

    known = {*map(column_key, columns)}
    for name in names:
        if column_key(name) not in known:
            listed = f"the columns are {', '.join(columns)}"
            hint = nearest(name, columns, "")
            raise NotFound(
                f"there is no column {name!r} to {purpose}; {listed}{hint and f'; {hint}'}"
            )


def _shell(*arguments: Any) -> Any:
    # It takes a while to import, so cliff imports it late, too.
    from cliff.interactive import InteractiveApp

    # cmd2 would take the arguments of the process, --config-file for one, for commands.
    argv, sys.argv = sys.argv, sys.argv[:1]
    try:
        shell = InteractiveApp(*arguments)
    finally:
        sys.argv = argv
    app = arguments[0]
    # Nothing prompts where the commands come from a file.
    if shell.prompt and app.cloud is not None:
        shell.prompt = f"({PROGRAM} {app.cloud.name}) "
    return shell


# Options of commands that the application has as well, with other names for them.
_RENAMED = {
    ("decision", "replay"): (re.compile(r"^--config-(?=(file|dir)(=|$))"), "--settings-"),
    ("audit", "list"): (re.compile(r"^--operator(?=(=|$))"), "--by"),
}


def rename_options(argv: list[str]) -> list[str]:
    """Rename options after some commands to those of the command, which cliff would not see."""
    for at, words in enumerate(pairwise(argv), start=2):
        if words in _RENAMED:
            pattern, name = _RENAMED[words]
            return [*argv[:at], *(pattern.sub(name, each) for each in argv[at:])]
    return argv
