# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Start logging, also by files that were made for Nova; say in one line what cannot be used."""

import logging
import sys
from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log

# The top-level packages, which all our loggers are below of.
OURS = ("compute_agent", "conf", "inventory", "scheduler")
NOVA = "nova"
LOG = log.getLogger(__name__)


class LogSetupError(Exception):
    """Logging cannot be started; the text names the option."""


def start(conf: cfg.ConfigOpts, program: str, version: str) -> None:
    """Start logging; raises LogSetupError."""
    try:
        _set_up(conf, program, version)
    except cfg.Error as error:
        raise LogSetupError(str(error)) from error
    # Whatever the classes that a file names raise.
    except Exception as error:
        raise LogSetupError(_explain(conf, error)) from error
    follow_nova(conf)
    if conf.log_config_append and not _lets_info_through():
        print(
            f"{program}: no messages of level INFO are logged, so that decisions are missing in"
            f" the log: give {conf.log_config_append} a logger with qualname = scheduler, and one"
            " with qualname = compute_agent for agents",
            file=sys.stderr,
        )


def reload(conf: cfg.ConfigOpts, mutate: Callable[[], object]) -> None:
    """Read the options again; where log_config_append cannot be used, log as before.

    oslo.log takes all handlers away before it reads the file, and raises what is wrong with it.
    Raises cfg.Error.
    """
    # Without the places that are kept free for parents.
    known = [logging.root, *logging.root.manager.loggerDict.values()]
    loggers = [each for each in known if isinstance(each, logging.Logger)]
    before = [(each, each.level, each.handlers, each.propagate) for each in loggers]
    try:
        mutate()
    except cfg.Error:
        raise
    # As in start().
    except Exception as error:
        for each, level, handlers, propagate in before:
            each.setLevel(level)
            each.handlers, each.propagate = handlers, propagate
        LOG.error("Logging goes on as before: %s", " ".join(_explain(conf, error).split()))
        return
    follow_nova(conf)
    in_use = {handler for each in loggers for handler in each.handlers}
    for handler in {handler for _, _, handlers, _ in before for handler in handlers} - in_use:
        # The library does so, but for those that have come back after a failure.
        handler.close()


def follow_nova(conf: cfg.ConfigOpts) -> None:
    """Give our loggers the level and handlers of the logger nova in log_config_append.

    Such files often let only warnings of all others through, or nothing.
    """
    theirs = logging.getLogger(NOVA)
    if not conf.log_config_append or not (theirs.level or theirs.handlers):
        return
    ours = [logging.getLogger(name) for name in OURS]
    if any(each.level or each.handlers for each in ours):
        return
    for each in ours:
        each.setLevel(theirs.level)
        each.handlers[:] = theirs.handlers
        each.propagate = theirs.propagate


def _set_up(conf: cfg.ConfigOpts, program: str, version: str) -> None:
    try:
        log.setup(conf, program, version)
    except OSError as error:
        # The directory may be one of another user, as in a nova.conf; a file alone is meant for us.
        if not conf.log_dir or conf.log_config_append:
            raise
        problem = f"cannot write {error.filename}: {error.strerror}"
        for name in ("log_dir", "log_file"):
            conf.set_override(name, None)
        log.setup(conf, program, version)
        log.getLogger(__name__).warning(
            "Logging to standard output instead of [DEFAULT] log_dir: %s", problem
        )


def _explain(conf: cfg.ConfigOpts, error: Exception) -> str:
    if conf.log_config_append:
        return (
            f"option [DEFAULT] log_config_append = {conf.log_config_append!r} cannot be used:"
            f" {type(error).__name__}: {error}"
        )
    if isinstance(error, OSError):
        return f"options log_dir and log_file: cannot write {error.filename}: {error.strerror}"
    if isinstance(error, RuntimeError) and conf.use_journal:
        return (
            "option [DEFAULT] use_journal needs the Python bindings of systemd, which are not"
            " installed: install the package systemd-python, or remove the option, since"
            " systemd takes standard output into the journal anyway"
        )
    if isinstance(error, TypeError) and (conf.use_syslog or conf.use_journal):
        return f"option [DEFAULT] syslog_log_facility = {conf.syslog_log_facility!r}: {error}"
    if isinstance(error, ValueError):
        # The only option that oslo.log does not check.
        levels = ",".join(conf.default_log_levels)
        return f"option [DEFAULT] default_log_levels = {levels!r}: {error}"
    return f"logging cannot be started: {type(error).__name__}: {error}"


def _lets_info_through() -> bool:
    logger: logging.Logger | None = logging.getLogger(OURS[-1])
    if logger is None or not logger.isEnabledFor(logging.INFO):
        return False
    while logger is not None:
        if any(
            each.level <= logging.INFO and not isinstance(each, logging.NullHandler)
            for each in logger.handlers
        ):
            return True
        logger = logger.parent if logger.propagate else None
    return False
