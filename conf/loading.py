# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Read the configuration of a process and refuse a bad value with one line."""

import logging as standard_logging
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from oslo_config import cfg
from oslo_db import options as database_options
from oslo_log import log
from oslo_messaging import opts as messaging_options

from conf import config_files, opts, urls

_LOCATION = re.compile(
    r"Value for option (?P<name>\S+) from LocationInfo\(.*detail='(?P<file>[^']*)'\)"
    r" is not valid: (?P<why>.*)",
    re.DOTALL,
)
UNKNOWN_NAME = "a $ in it is followed by the name of no option; a $ that means itself is written $$"
_BY_DEFAULT = (cfg.Locations.opt_default, cfg.Locations.set_default)


class ConfigError(Exception):
    """A configuration that cannot be used; its text is one line for the operator."""


def prepare(conf: cfg.ConfigOpts) -> None:
    """Register all options on conf, logging's included, before its arguments are parsed."""
    opts.set_defaults()
    opts.register(conf)
    log.register_options(conf)


def load(conf: cfg.ConfigOpts, program: str, argv: Sequence[str], version: str) -> None:
    """Read the configuration, start logging and check the value of every option.

    Raises ConfigError naming option, value and file.
    """
    read(conf, program, argv, version)
    try:
        log.setup(conf, program, version)
    except (cfg.Error, log.LogConfigError) as error:
        raise ConfigError(explain(error, conf)) from error
    except OSError as error:
        raise ConfigError(
            f"options log_dir and log_file: cannot write {error.filename}: {error.strerror}"
        ) from error
    except ValueError as error:
        # The one thing that oslo.log reads without a check of its own.
        levels = ",".join(conf.default_log_levels)
        raise ConfigError(f"option [DEFAULT] default_log_levels = {levels!r}: {error}") from error
    # Messages of the libraries about their own deprecations say nothing an operator can act on.
    standard_logging.captureWarnings(False)
    check(conf)


def read(conf: cfg.ConfigOpts, program: str, argv: Sequence[str], version: str) -> None:
    """Register the options, parse argv and the files it names; raises ConfigError."""
    prepare(conf)
    parse(conf, program, argv, version)


def parse(conf: cfg.ConfigOpts, program: str, argv: Sequence[str], version: str) -> None:
    """Parse argv and the files it names, in place of what was parsed before."""
    try:
        conf(list(argv), project="berthmaster", prog=program, version=version)
    except cfg.Error as error:
        raise ConfigError(explain(error)) from error


def is_given(conf: cfg.ConfigOpts, group: str, option: str) -> bool:
    """Return whether somebody chose the value of an option, be it the default one."""
    location = conf.get_location(option, None if group == "DEFAULT" else group)
    return location is not None and location.location not in _BY_DEFAULT


def source(conf: cfg.ConfigOpts, group: str, option: str) -> str:
    """Return where the value of an option comes from, a file as a rule, in words."""
    try:
        location = conf.get_location(option, None if group == "DEFAULT" else group)
    # One whose value refers to an option that does not exist; defaults refer to none.
    except (cfg.NoSuchOptError, cfg.NoSuchGroupError):
        location = cfg.LocationInfo(cfg.Locations.user, "")
    if location is not None and location.location is cfg.Locations.user:
        found = config_files.setting(conf, _names(group, option))
        return found.file if found else str(location.detail)
    return str(location.detail) if location and location.detail else "the defaults"


def rehearse(program: str, argv: Sequence[str]) -> None:
    """Read the files as they are now and check them, without an effect; raises ConfigError."""
    conf = cfg.ConfigOpts()
    read(conf, program, argv, version="")
    check(conf)


def check(conf: cfg.ConfigOpts) -> None:
    """Read every option of ours and of oslo.db once; raises ConfigError."""
    check_values(conf, [*opts.list_opts(), *database_options.list_opts()])
    # Here, since whoever connects would say which host does not answer: a part of the password.
    if urls.is_ambiguous(conf.database.connection):
        where = source(conf, "database", "connection")
        raise ConfigError(f"option [database] connection in {where}: {urls.AMBIGUOUS}")


def check_values(conf: cfg.ConfigOpts, listed: Iterable[tuple[str, Iterable[cfg.Opt]]]) -> None:
    """Read options once by group, which is what makes oslo.config look at their values.

    Deprecated names are reported in the log on the way, each once. Raises ConfigError.
    """
    for group, options in listed:
        for option in options:
            try:
                value = conf[option.dest] if group == "DEFAULT" else conf[group][option.dest]
            # What follows the $ may be the rest of a password.
            except (cfg.NoSuchOptError, cfg.NoSuchGroupError):
                where = source(conf, group, option.dest)
                problem = f"option [{group}] {option.name} in {where}: {UNKNOWN_NAME}"
                raise ConfigError(problem) from None
            except cfg.Error as error:
                raise ConfigError(explain(error, conf, group, option)) from error
            if why := _complaint(value, option):
                where = source(conf, group, option.dest)
                raise ConfigError(f"option [{group}] {option.name} = {value} in {where}: {why}")


def _complaint(value: Any, option: cfg.Opt) -> str | None:
    """Return what is wrong with a value that oslo.config accepts."""
    if value is None and option.default is not None:
        return "Needs a value"
    if isinstance(value, float) and not math.isfinite(value):
        return "Must be a finite number"
    return None


def explain(
    error: Exception,
    conf: cfg.ConfigOpts | None = None,
    group: str = "",
    option: cfg.Opt | None = None,
) -> str:
    """Return one line that says which option, value and file an error is about."""
    found = _LOCATION.match(str(error))
    if not found:
        return " ".join(str(error).split())
    names = config_files.names(group, option) if option else [(group, found["name"])]
    place = config_files.setting(conf, names) if conf else None
    place = place or config_files.find(found["file"], names)
    where, value, path = group or "?", "?", found["file"]
    if place:
        where, value, path = place.section, repr(place.text), place.file
    why = " ".join(found["why"].split())
    return f"option [{where}] {found['name']} = {value} in {path}: {why}"


def _names(group: str, name: str) -> list[config_files.Name]:
    """Return the names under which files may have an option, also where a library has it."""
    libraries = (*database_options.list_opts(), *messaging_options.list_opts())
    for section, options in (*opts.list_opts(), *libraries):
        for option in options:
            if (section or "DEFAULT") == group and option.dest == name:
                return config_files.names(group, option)
    return [(group, name)]
