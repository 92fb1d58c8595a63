# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command line application: global options, configuration, exit status."""

import argparse
import logging
import re
import sys
from collections.abc import Sequence
from importlib import metadata
from itertools import pairwise
from typing import Any

from cliff.app import App
from cliff.command import Command
from cliff.commandmanager import CommandManager
from cliff.display import DisplayCommandBase
from oslo_config import cfg

from conf import loading
from inventory.refusals import Unknown
from scheduler.cli.base import seconds
from scheduler.cli.database import TIMEOUT

PROGRAM = "berthmaster"


class BerthmasterApp(App):  # type: ignore[misc]  # cliff has no types
    """Runs the commands that are registered in the namespace berthmaster.cli.

    The exit status is 0 when a command did what it was asked, 1 when it could not, and 2 when the
    command line itself was wrong.
    """

    NAME = PROGRAM
    # Warnings only; -v adds what the services log as well.
    DEFAULT_VERBOSE_LEVEL = 0
    # Libraries that speak with -vv only. oslo.log calls a module such as oslo_db.api oslo.db.api.
    QUIET = ("oslo", "oslo_db", "amqp", "kombu", "stevedore", "alembic")

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(
            description="Look after a Berthmaster scheduler, or ask it for a host.",
            version=metadata.version(PROGRAM),
            command_manager=CommandManager("berthmaster.cli"),
            deferred_help=True,
            interactive_app_factory=_shell,
        )
        self.conf = conf
        self._last_status = 0

    def run(self, argv: list[str]) -> int:
        """Run a command, or a shell of them where there is none; return the exit status.

        That of a shell is the one of its last command.
        """
        status = int(super().run(_apart(argv)))
        return self._last_status if self.interpreter else status

    def run_subcommand(self, argv: list[str]) -> int:
        self._last_status = int(super().run_subcommand(argv))
        return self._last_status

    def build_option_parser(self, *args: Any, **kwargs: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().build_option_parser(*args, **kwargs)
        for option, what in (("--config-file", "PATH"), ("--config-dir", "DIR")):
            parser.add_argument(
                option,
                action="append",
                default=[],
                metavar=what,
                help="Configuration to read, may be repeated; by default that of the daemons.",
            )
        parser.add_argument(
            "--database-timeout",
            type=seconds,
            metavar="S",
            help=f"Seconds to wait for a database that does not answer ({TIMEOUT:g}).",
        )
        return parser

    def configure_logging(self) -> None:
        """Keep the libraries quiet unless the user asks for more with -v."""
        super().configure_logging()
        level = logging.DEBUG if self.options.verbose_level > 1 else logging.ERROR
        for name in self.QUIET:
            logging.getLogger(name).setLevel(level)

    def prepare_to_run_command(self, cmd: Command) -> None:
        """Let what a command shows be refused where columns are asked for that it has not got.

        cliff passes over these as long as there is one among them that it has.
        """
        if isinstance(cmd, DisplayCommandBase):
            produce = cmd.produce_output

            def checked(parsed_args: Any, columns: Sequence[str], data: Any) -> Any:
                _check_columns(parsed_args.columns, columns)
                return produce(parsed_args, columns, data)

            cmd.produce_output = checked

    def initialize_app(self, argv: list[str]) -> None:
        """Read the configuration that the command will use."""
        arguments = [f"--config-file={path}" for path in self.options.config_file]
        arguments += [f"--config-dir={path}" for path in self.options.config_dir]
        try:
            loading.read(self.conf, PROGRAM, arguments, metadata.version(PROGRAM))
            loading.check(self.conf)
        except loading.ConfigError as error:
            self.stderr.write(f"{PROGRAM}: {error}\n")
            raise SystemExit(1) from error


def _check_columns(asked: Sequence[str], columns: Sequence[str]) -> None:
    """Raise Unknown for a column that is not there in any of the spellings that cliff takes."""

    def plain(name: str) -> str:
        return name.lower().strip().replace(" ", "_")

    known = {plain(each) for each in columns}
    for name in asked:
        if plain(name) not in known:
            told = f"there is no column {name!r} to show; the columns are {', '.join(columns)}"
            raise Unknown(told)


def _shell(*arguments: Any) -> Any:
    """Return what reads commands line by line, without any to begin with."""
    # It takes a while to import, as cliff knows too.
    from cliff.interactive import InteractiveApp

    # cmd2 would take the arguments of the process, --config-file for one, for commands.
    argv, sys.argv = sys.argv, sys.argv[:1]
    try:
        return InteractiveApp(*arguments)
    finally:
        sys.argv = argv


def _apart(argv: list[str]) -> list[str]:
    """Give decision replay a --config-file of its own: behind it, it is no option for all."""
    for at, words in enumerate(pairwise(argv)):
        if words == ("decision", "replay"):
            behind = (
                re.sub(r"^--config-(?=(file|dir)(=|$))", "--settings-", each)
                for each in argv[at + 2 :]
            )
            return [*argv[: at + 2], *behind]
    return argv
