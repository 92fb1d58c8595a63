# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Choose the concurrency backend before any library is imported.

Eventlet must patch modules before they are imported, and oslo.config imports many of them. So the
option is read here with the standard library alone.
"""

import configparser
from collections.abc import Mapping, Sequence
from pathlib import Path

from conf.config_files import default_and_named

BACKENDS = ("eventlet", "threading")
DEFAULT = "eventlet"
# The default backend, as in Nova since 34.
AUTO = "auto"
OPTION = "concurrency_backend"
VARIABLE = "BERTHMASTER_CONCURRENCY_BACKEND"


def chosen_backend(program: str, argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the backend that the environment or else the last configuration file sets.

    Raise ValueError for an unknown one. Files that cannot be read or parsed are skipped, since
    oslo.config reports them, with the line.
    """
    choice, source = environ.get(VARIABLE, ""), VARIABLE
    if not choice:
        choice, source = DEFAULT, "the default"
        for path in default_and_named(program, argv):
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


def _read(path: Path) -> str | None:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read(path)
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None
    return parser.defaults().get(OPTION)
