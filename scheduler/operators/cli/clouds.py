# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Clouds by their names: each stands for configuration files, and for no others."""

import configparser
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from inventory.errors import alternatives, nearest, some
from scheduler.operators.cli.base import ListCommand, list_rows
from scheduler.operators.cli.table_format import Worded, titled

VARIABLE = "BERTHMASTER_CLOUD"
_NAME = "clouds.conf"
# What a section may have, each with one path or several.
_OPTIONS = ("config_file", "config_dir")
# Which options oslo.config reads of the environment, before those of files; and the one that the
# command sets for itself.
_ENVIRONMENT = re.compile("OS_.+__.+")
QUEUE_NAMES = "OS_OSLO_MESSAGING_RABBIT__USE_QUEUE_MANAGER"
COLUMNS = titled("name current configuration file")


class Cloud(NamedTuple):
    """A named cloud: the arguments that name its configuration, and the file that has the name."""

    name: str
    arguments: list[str]
    file: Path


class CloudError(Exception):
    """An unknown cloud, or a file of clouds that cannot be used; the text is one line."""


def chosen(options: Any) -> Cloud | None:
    """Return the cloud that options of the program or the environment name; raise CloudError."""
    name = options.cloud
    if name and options.configuration:
        raise CloudError(
            "--cloud cannot be used with --config-file or --config-dir, since both name a"
            " configuration"
        )
    if name is None and not options.configuration:
        name = os.environ.get(VARIABLE)
    if not name:
        return None
    found = known()
    if name not in found:
        hint = nearest(name, found, "see 'berthmaster cloud list'")
        source = "" if options.cloud else f", which {VARIABLE} names"
        raise CloudError(f"there is no cloud {name!r}{source}; {hint}")
    return found[name]


def ignore_environment() -> list[str]:
    """Drop options from the environment, for this process and its children; return their names.

    They may be those of another cloud than the one that was named.
    """
    found = sorted(
        name for name in os.environ if _ENVIRONMENT.fullmatch(name) and name != QUEUE_NAMES
    )
    for name in found:
        del os.environ[name]
    return found


def known() -> Mapping[str, Cloud]:
    """Return the clouds by name; those in the file of the user come first. Raise CloudError."""
    found: dict[str, Cloud] = {}
    for path in files():
        found = {each.name: each for each in _clouds_in(path)} | found
    return found


def files() -> list[Path]:
    own = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return [Path(own, "berthmaster", _NAME), Path("/etc/berthmaster", _NAME)]


def _clouds_in(path: Path) -> Iterator[Cloud]:
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read_string(path.read_text(encoding="utf-8-sig"), str(path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise CloudError(f"cannot read {path}: {error.strerror}") from None
    except (configparser.Error, ValueError) as error:
        raise CloudError(f"{path} cannot be used: {' '.join(str(error).split())}") from None
    for name in parser.sections():
        arguments = []
        for option, text in parser[name].items():
            if option not in _OPTIONS:
                hint = nearest(option, _OPTIONS, f"it may be {alternatives(_OPTIONS)}")
                raise CloudError(f"{path}, cloud {name}: there is no option {option!r}; {hint}")
            for each in filter(None, map(str.strip, text.replace(",", "\n").splitlines())):
                place = path.parent / os.path.expanduser(each)
                arguments.append(f"--{option.replace('_', '-')}={place}")
        if not arguments:
            raise CloudError(f"{path}, cloud {name}: the cloud needs {alternatives(_OPTIONS)}")
        yield Cloud(name, arguments, path)


class CloudList(ListCommand):
    """List the clouds that have names, with their configuration files."""

    titles = COLUMNS

    def take_action(self, args: Any) -> tuple[Any, Any]:
        current = chosen(self.app.options)
        found = known()
        if not found:
            looked = " nor ".join(map(str, files()))
            self.nothing = f"no cloud has a name: there is neither {looked}"
        rows = [
            {
                "name": each.name,
                "current": "*" if each == current else "",
                "configuration": Worded([text.partition("=")[2] for text in each.arguments], some),
                "file": str(each.file),
            }
            for each in found.values()
        ]
        return list_rows(COLUMNS, sorted(rows, key=lambda row: str(row["name"])))
