# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Find and read the configuration files of a process, and refuse a bad value with one line."""

import logging as standard_logging
import math
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from oslo_config import cfg
from oslo_db import options as database_options
from oslo_log import log

from conf import config_files, log_setup, opts, secrets

# Section and name, either as oslo.config calls it or as it did in former releases.
Name = tuple[str, str]
Sections = dict[str, dict[str, list[str]]]
# Paths of files, each with what sections() returns of it.
Files = Sequence[tuple[str, Sections]]


class Setting(NamedTuple):
    file: str
    section: str
    text: str


def option_names(group: str, option: cfg.Opt) -> list[Name]:
    """Return the names of an option in files, those with precedence first."""
    old = [(each.group or group, each.name or option.dest) for each in option.deprecated_opts]
    return [(group, option.dest), (group, option.name), *old]


def files_of(conf: cfg.ConfigOpts) -> Files:
    """Return the files that a process has read, as they are now, those with precedence first."""
    return [(path, sections(path)) for path in reversed(config_files.paths(conf))]


def setting(
    conf: cfg.ConfigOpts, candidates: Sequence[Name], files: Files | None = None
) -> Setting | None:
    """Return the setting of the last file with one of these names, if any.

    files are files_of(conf), if they are known already.
    """
    files = files_of(conf) if files is None else files
    found = (find(path, parsed, candidates) for path, parsed in files)
    return next((each for each in found if each), None)


def sections(path: str) -> Sections:
    """Return the values in a file by section and name, none of one that cannot be read."""
    parsed: Sections = {}
    try:
        cfg.ConfigParser(path, parsed).parse()
    except (cfg.Error, OSError):
        return {}
    return parsed


def find(path: str, parsed: Sections, candidates: Iterable[Name]) -> Setting | None:
    """Return the setting of a file with one of these names; a section "" is any."""
    for group, name in candidates:
        for section, values in parsed.items():
            if name in values and (not group or _folded(section) == _folded(group)):
                return Setting(path, section, "\n".join(values[name]))
    return None


def _folded(section: str) -> str:
    """Return a section for comparison: only DEFAULT depends on letter case."""
    return section if section == "DEFAULT" else section.lower()


_LOCATION = re.compile(
    r"Value for option (?P<name>\S+) from LocationInfo\(.*detail='(?P<file>[^']*)'\)"
    r" is not valid: (?P<why>.*)",
    re.DOTALL,
)
UNKNOWN_NAME = "the text after a $ is not the name of an option; write a literal $ as $$"
BYTE_ORDER_MARK = "the file begins with a byte order mark: save it as UTF-8 without one"
AMBIGUOUS = (
    "the password cannot be distinguished from the host; in the user name and the password, write"
    " @ as %40, : as %3A, / as %2F, ? as %3F and # as %23, and write an @ elsewhere as %40, too"
)
# What columns and dates can be computed with: as seconds it is 68 years.
LARGEST = 2**31 - 1
_BY_DEFAULT = (cfg.Locations.opt_default, cfg.Locations.set_default)


class ConfigError(Exception):
    """The configuration is invalid; the text is one line for the operator."""


def prepare(conf: cfg.ConfigOpts) -> None:
    """Register all options on conf, logging's included, before its arguments are parsed."""
    opts.set_library_defaults()
    opts.register(conf)
    handlers = standard_logging.root.handlers[:]
    log.register_options(conf)
    # The library adds one where there is none: a reload, which reads the files twice, would have
    # all printed that is logged elsewhere by a log_config_append without handlers of the root.
    standard_logging.root.handlers[:] = handlers


def load(conf: cfg.ConfigOpts, program: str, argv: Sequence[str], version: str) -> None:
    """Read the configuration, start logging, check all values; raises ConfigError."""
    read(conf, program, argv, version)
    try:
        log_setup.start(conf, program, version)
    except log_setup.LogSetupError as error:
        raise ConfigError(explain(error, conf)) from error
    # Operators cannot act on deprecations inside libraries.
    standard_logging.captureWarnings(False)
    check(conf)


def read(
    conf: cfg.ConfigOpts, program: str, argv: Sequence[str], version: str, only_named: bool = False
) -> None:
    """Register the options, parse argv and the files it names; raises ConfigError.

    With only_named no others are read, as they are by default.
    """
    prepare(conf)
    parse(conf, program, argv, version, only_named)


def parse(
    conf: cfg.ConfigOpts, program: str, argv: Sequence[str], version: str, only_named: bool = False
) -> None:
    """Parse argv and the files it names, again if need be."""
    if refused := config_files.unreadable(program, argv, only_named):
        raise ConfigError(
            f"this user may not read {', '.join(map(config_files.with_readers, refused))}: run the"
            " program as a user who may read them, or name files of your own with --config-file"
            " and --config-dir"
        )
    # By default oslo.config looks for both.
    places: Any = {"default_config_files": [], "default_config_dirs": []} if only_named else {}
    try:
        conf(list(argv), project=config_files.PROJECT, prog=program, version=version, **places)
    except cfg.Error as error:
        text = explain(error)
        # oslo.config shows the line as it is in Python.
        hint = f"; {BYTE_ORDER_MARK}" if r"'\ufeff" in text else ""
        raise ConfigError(text + hint) from error
    except UnicodeDecodeError as error:
        files = config_files.not_in_utf8(program, argv, only_named)
        raise ConfigError(f"{', '.join(map(str, files))}: save it as UTF-8: {error}") from error


def is_given(conf: cfg.ConfigOpts, group: str, option: str) -> bool:
    """Return whether the value of an option was set, even to the default."""
    location = conf.get_location(option, None if group == "DEFAULT" else group)
    return location is not None and location.location not in _BY_DEFAULT


def source(conf: cfg.ConfigOpts, group: str, option: str) -> str:
    """Return in words where the value of an option comes from, such as a file."""
    try:
        location = conf.get_location(option, None if group == "DEFAULT" else group)
    # A value with a reference to an unknown option, which no default has.
    except (cfg.NoSuchOptError, cfg.NoSuchGroupError):
        location = cfg.LocationInfo(cfg.Locations.user, "")
    if location is not None and location.location is cfg.Locations.user:
        found = setting(conf, _names(group, option))
        return found.file if found else str(location.detail)
    return str(location.detail) if location and location.detail else "the defaults"


def read_apart(program: str, argv: Sequence[str]) -> cfg.ConfigOpts:
    """Return another configuration than that of the process, checked; raises ConfigError."""
    conf = cfg.ConfigOpts()
    read(conf, program, argv, version="")
    check(conf)
    return conf


def check(conf: cfg.ConfigOpts) -> None:
    """Check every option of ours and of oslo.db, and mark secrets; raises ConfigError."""
    secrets.mark_secrets(conf)
    check_values(conf, [*opts.list_opts(), *database_options.list_opts()])
    # Here, since the error of a connection would show a part of the password as the host.
    if is_ambiguous(conf.database.connection):
        where = source(conf, "database", "connection")
        raise ConfigError(f"option [database] connection in {where}: {AMBIGUOUS}")


def check_values(conf: cfg.ConfigOpts, listed: Iterable[tuple[str, Iterable[cfg.Opt]]]) -> None:
    """Read options once by group, since oslo.config checks values only then.

    It logs deprecated names, each once. Raises ConfigError.
    """
    for group, options in listed:
        for option in options:
            try:
                value = conf[option.dest] if group == "DEFAULT" else conf[group][option.dest]
            # Without the value: it may be a password with a $.
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
    """Return what is wrong with a value that oslo.config accepts, if anything."""
    if value is None and option.default is not None:
        return "Needs a value"
    if isinstance(value, float) and not math.isfinite(value):
        return "Must be a finite number"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"Must be no more than {LARGEST}"
    return None


def explain(
    error: Exception,
    conf: cfg.ConfigOpts | None = None,
    group: str = "",
    option: cfg.Opt | None = None,
) -> str:
    """Return one line with the option, the value and the file of an error."""
    found = _LOCATION.match(str(error))
    if not found:
        return " ".join(str(error).split())
    names = option_names(group, option) if option else [(group, found["name"])]
    place = setting(conf, names) if conf else None
    place = place or find(found["file"], sections(found["file"]), names)
    where, path = group or "?", found["file"]
    # An environment variable is named in place of a file.
    value = repr(os.environ[path]) if path in os.environ else "?"
    if place:
        where, value, path = place.section, repr(place.text), place.file
    why = " ".join(found["why"].split())
    return f"option [{where}] {found['name']} = {value} in {path}: {why}"


def _names(group: str, name: str) -> list[Name]:
    """Return the names of an option of ours or of a library in files."""
    # Here, since to import it takes a third of a second of processor.
    from oslo_messaging import opts as messaging_options

    libraries = (*database_options.list_opts(), *messaging_options.list_opts())
    for section, options in (*opts.list_opts(), *libraries):
        for option in options:
            if (section or "DEFAULT") == group and option.dest == name:
                return option_names(group, option)
    return [(group, name)]


def is_ambiguous(url: str) -> bool:
    """Return whether a password that is not percent-encoded may end at several places."""
    rest = url.partition("://")[2]
    # A path alone, as for SQLite, has no host.
    return not rest.startswith("/") and rest.count("@") > 1


def is_ambiguous_list(url: str) -> bool:
    """Return the same of a URL with several hosts, each with a password of its own."""
    rest = url.partition("://")[2]
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    hosts = authority.split(",")
    if authority and "@" in rest[len(authority) :]:
        return True
    if any(host.count("@") > 1 for host in hosts):
        return True
    # A comma in the password would split it into hosts without a password.
    return len(hosts) > 1 and any(
        "@" in host and (":" not in host.split("@")[0] or "@" not in hosts[0]) for host in hosts
    )
