# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which configuration files a process reads, in their order, and which of them it may not read.

Only the standard library is imported at the top, see conf/daemon/concurrency.py.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oslo_config import cfg

PROJECT = "berthmaster"
DIRECTORIES = ("~/.berthmaster", "~", "/etc/berthmaster", "/etc")
_FILE, _DIRECTORY = "--config-file", "--config-dir"


def default_and_named(program: str, argv: Sequence[str], only_named: bool = False) -> list[Path]:
    """Return the files that oslo.config will read for these arguments, in the same order.

    With only_named just the arguments count.
    """
    named = list(named_files(argv))
    options = {_FILE, _DIRECTORY} if only_named else {option for option, _ in named}
    files: list[Path] = []
    if "--config-file" not in options:
        files += [*_first("berthmaster.conf"), *_first(f"{program}.conf")]
    if "--config-dir" not in options:
        for directory in (*_first("berthmaster.conf.d"), *_first(f"{program}.conf.d")):
            files += _inside(directory)
    for option, path in named:
        files += [path] if option == "--config-file" else _inside(path)
    return files


def named_files(argv: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield option and path of the files and directories among the arguments."""
    for argument, following in zip(argv, [*argv[1:], ""], strict=False):
        option, equals, value = argument.partition("=")
        path = value if equals else following
        if option in ("--config-file", "--config-dir") and path:
            yield option, Path(path).expanduser()


def _first(name: str) -> list[Path]:
    # Unlike those of pathlib these functions do not raise for a user without a readable home.
    candidates = (Path(os.path.expanduser(directory), name) for directory in DIRECTORIES)
    return [path for path in candidates if os.path.exists(path)][:1]


def paths(conf: "cfg.ConfigOpts") -> list[str]:
    """Return the files that conf has read, in their order: those named in arguments come last."""
    named = _named(conf)
    options = {option for option, _ in named}
    files: list[str | Path] = [] if _FILE in options else [*conf.default_config_files]
    if _DIRECTORY not in options:
        files += [each for directory in conf.default_config_dirs for each in _inside(directory)]
    for option, path in named:
        files += [path] if option == _FILE else _inside(path)
    return [*map(str, files)]


def given(conf: "cfg.ConfigOpts") -> list[str]:
    """Return the arguments with which another process reads the same files."""
    return [f"{option}={path}" for option, path in _named(conf)]


def _named(conf: "cfg.ConfigOpts") -> list[tuple[str, Path]]:
    # Here, since it imports more than the standard library.
    from conf import private_apis

    return list(named_files(private_apis.command_line(conf)))


def unreadable(program: str, argv: Sequence[str], only_named: bool) -> list[Path]:
    """Return files and directories that would be read and that this user may not read.

    oslo.config skips most of them without a word. Where no file is found, they may also be in
    directories that cannot be looked into. With only_named just the arguments count.
    """
    named = list(named_files(argv))
    options = {option for option, _ in named}
    refused = [path for _, path in named if path.exists() and not _may_read(path)]
    hidden: list[Path] = []
    found = bool(named)
    for option, ending in ((_FILE, ".conf"), (_DIRECTORY, ".conf.d")):
        if only_named or option in options:
            continue
        for name in dict.fromkeys((PROJECT, program)):
            places = [Path(os.path.expanduser(each), name + ending) for each in DIRECTORIES]
            there = next((each for each in places if os.path.exists(each)), None)
            hidden += [each for each in places if _is_hidden(each)]
            found = found or there is not None
            if there is not None and not _may_read(there):
                refused.append(there)
    return refused or ([] if found else hidden)


def not_in_utf8(program: str, argv: Sequence[str], only_named: bool) -> list[Path]:
    """Return the files that would be read and are no text in UTF-8."""
    found = []
    for path in filter(Path.is_file, default_and_named(program, argv, only_named)):
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            found.append(path)
    return found


def none_found(program: str) -> str:
    """Return the notice that no default configuration file was found, with the names looked for."""
    names = [name + ending for name in (PROJECT, program) for ending in (".conf", ".conf.d")]
    return (
        "there is no configuration file, so the defaults are used: no"
        f" {', '.join(dict.fromkeys(names))} in {', '.join(DIRECTORIES)}; name a file with"
        " --config-file, a directory with --config-dir or a cloud with --cloud"
    )


def with_readers(path: Path) -> str:
    """Return a path with owner, group and mode of what keeps a user from reading it."""
    for place in (path, *path.parents):
        try:
            found = place.stat()
        except OSError:
            continue
        of = "" if place == path else f"{place}: "
        return f"{path} ({of}{_owners(place, found)}, {stat.filemode(found.st_mode)})"
    return str(path)


def _owners(place: Path, found: os.stat_result) -> str:
    try:
        return f"{place.owner()}:{place.group()}"
    # Of an account that is gone.
    except KeyError:
        return f"{found.st_uid}:{found.st_gid}"


def _may_read(path: Path) -> bool:
    return os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0))


def _is_hidden(path: Path) -> bool:
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _inside(directory: str | Path) -> list[Path]:
    return sorted(Path(directory).expanduser().glob("*.conf"))
