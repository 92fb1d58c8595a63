# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which concurrency backend to use, found out before anything else is imported.

Patching for eventlet must come before the modules it patches are imported, and oslo.config imports
many of them. So the option is read here with the standard library alone.
"""

import configparser
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

BACKENDS = ("eventlet", "threading")
DEFAULT = "eventlet"
# As Nova has it since 34: as if nothing was set.
AUTO = "auto"
OPTION = "concurrency_backend"
VARIABLE = "BERTHMASTER_CONCURRENCY_BACKEND"
DIRECTORIES = ("~/.berthmaster", "~", "/etc/berthmaster", "/etc")


def chosen_backend(program: str, argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the backend: the environment first, then the configuration files, last one wins.

    AUTO is the default one. Raises ValueError for a name that is none of them. Files that cannot be
    read or parsed are passed over: oslo.config reports them a moment later, with the line.
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
    """Return the files that oslo.config will read for these arguments, in its order."""
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
    """Yield option and path of what the arguments name, in their order."""
    for argument, following in zip(argv, [*argv[1:], ""], strict=False):
        option, equals, value = argument.partition("=")
        path = value if equals else following
        if option in ("--config-file", "--config-dir") and path:
            yield option, Path(path).expanduser()


def _inside(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.conf"))


def _first(name: str) -> list[Path]:
    # Unlike their sisters in pathlib these raise nothing for a user who has no home, or none that
    # may be looked into.
    candidates = (Path(os.path.expanduser(directory), name) for directory in DIRECTORIES)
    return [path for path in candidates if os.path.exists(path)][:1]


def _read(path: Path) -> str | None:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read(path)
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None
    return parser.defaults().get(OPTION)
