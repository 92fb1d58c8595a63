# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Choose the concurrency backend before any library is imported.

Eventlet must patch modules before they are imported, and oslo.config imports many of them. So the
option is read here with the standard library alone.
"""

import configparser
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

BACKENDS = ("eventlet", "threading")
DEFAULT = "eventlet"
# The default backend, as in Nova since 34.
AUTO = "auto"
OPTION = "concurrency_backend"
VARIABLE = "BERTHMASTER_CONCURRENCY_BACKEND"
DIRECTORIES = ("~/.berthmaster", "~", "/etc/berthmaster", "/etc")


def chosen_backend(program: str, argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the backend that the environment or else the last configuration file sets.

    Raise ValueError for an unknown one. Files that cannot be read or parsed are skipped, since
    oslo.config reports them, with the line.
    """
    choice, source = environ.get(VARIABLE, ""), VARIABLE
    if not choice:
        choice, source = DEFAULT, "the default"
        for path in config_files(program, argv):
            found = _read(path)
            if found is not None:
                choice, source = found, str(path)
    if choice == AUTO:
        return DEFAULT
    if choice not in BACKENDS:
        raise ValueError(
            f"option [DEFAULT] {OPTION} = {choice!r} in {source}: must be one of "
            + ", ".join((*BACKENDS, AUTO))
        )
    return choice


def config_files(program: str, argv: Sequence[str]) -> list[Path]:
    """Return the files that oslo.config will read for these arguments, in the same order."""
    named = list(_named(argv))
    options = {option for option, _ in named}
    files: list[Path] = []
    if "--config-file" not in options:
        files += [*_first("berthmaster.conf"), *_first(f"{program}.conf")]
    if "--config-dir" not in options:
        for directory in (*_first("berthmaster.conf.d"), *_first(f"{program}.conf.d")):
            files += _inside(directory)
    for option, path in named:
        files += [path] if option == "--config-file" else _inside(path)
    return files


def _named(argv: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield option and path of the files and directories among the arguments."""
    for argument, following in zip(argv, [*argv[1:], ""], strict=False):
        option, equals, value = argument.partition("=")
        path = value if equals else following
        if option in ("--config-file", "--config-dir") and path:
            yield option, Path(path).expanduser()


def _inside(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.conf"))


def _first(name: str) -> list[Path]:
    # Unlike those of pathlib these functions do not raise for a user without a readable home.
    candidates = (Path(os.path.expanduser(directory), name) for directory in DIRECTORIES)
    return [path for path in candidates if os.path.exists(path)][:1]


def _read(path: Path) -> str | None:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read(path)
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None
    return parser.defaults().get(OPTION)
