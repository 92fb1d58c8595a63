# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which of the configuration files sets an option, and to what.

oslo.config only tells the last file that has the section.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from oslo_config import cfg

# Section and name, either as oslo.config calls it or as it did in former releases.
Name = tuple[str, str]


class Setting(NamedTuple):
    """An option as a file has it."""

    file: str
    section: str
    text: str


def names(group: str, option: cfg.Opt) -> list[Name]:
    """Return the names under which files may have an option, those that count most first."""
    old = [(each.group or group, each.name or option.dest) for each in option.deprecated_opts]
    return [(group, option.dest), (group, option.name), *old]


def setting(conf: cfg.ConfigOpts, candidates: Sequence[Name]) -> Setting | None:
    """Return what the last of the files that has one of these names says, None if none has."""
    found = (find(path, candidates) for path in reversed(paths(conf)))
    return next((each for each in found if each), None)


def paths(conf: cfg.ConfigOpts) -> list[str]:
    """Return the files that were read for conf, which has parsed its arguments, in their order.

    Where the command line names both files and directories, directories are taken to come last.
    """
    files: list[str] = list(conf.config_file)
    if conf.config_dirs:
        return files + _inside(conf.config_dirs)
    usual = _inside(conf.default_config_dirs)
    return files + usual if files == conf.default_config_files else usual + files


def find(path: str, candidates: Iterable[Name]) -> Setting | None:
    """Return what a file has under one of these names; a section "" is any."""
    parsed: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(path, parsed).parse()
    except (cfg.Error, OSError):
        return None
    for group, name in candidates:
        for section, values in parsed.items():
            if name in values and (not group or _folded(section) == _folded(group)):
                return Setting(path, section, "\n".join(values[name]))
    return None


def _folded(section: str) -> str:
    """Return a section for comparison: letter case counts for one of them only."""
    return section if section == "DEFAULT" else section.lower()


def _inside(directories: Iterable[str]) -> list[str]:
    return [
        str(path)
        for directory in directories
        for path in sorted(Path(directory).expanduser().glob("*.conf"))
    ]
