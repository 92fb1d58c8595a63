# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The machine and the versions that figures were measured with."""

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.nova import ROOT
from tests.fixtures.availability import PEER
from tests.fixtures.daemons.process import search_path

LIBRARIES = ("numpy", "oslo.messaging", "eventlet", "SQLAlchemy", "libvirt-python", "ortools")
# The daemons, and what tells of their version.
DAEMONS = {
    "RabbitMQ": ("/usr/lib/rabbitmq/bin/rabbitmqctl", "version"),
    "MariaDB": ("mariadbd", "--version"),
    "libvirt": ("libvirtd", "--version"),
}
VERSION = re.compile(r"\d+(\.\d+)+")


def machine() -> dict[str, Any]:
    """Return what the machine is: figures of another one are not to be compared with these."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": f"{platform.system()} {_number(platform.release())}",
        "distribution": platform.freedesktop_os_release().get("PRETTY_NAME"),
    }


def versions() -> dict[str, str | None]:
    """Return the versions of what takes part, None for what is not here."""
    found: dict[str, str | None] = {"Berthmaster": ours(), "Python": platform.python_version()}
    found |= {name: _library(name) for name in LIBRARIES}
    found |= {name: _number(_said(command)) for name, command in DAEMONS.items()}
    return found | {"Nova": _nova()}


def ours() -> str | None:
    """Return our own revision, or our version where there is no repository."""
    described = _said(("git", "-C", str(ROOT), "describe", "--always", "--dirty"))
    return described.strip() or _library("berthmaster")


def _cpu() -> str:
    """Return the model, or else the architecture: not all processors say their model."""
    information = Path("/proc/cpuinfo")
    text = information.read_text() if information.exists() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model[1].strip() if model else platform.machine()


def _library(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _nova() -> str | None:
    places = [str(each) for each in PEER.glob("lib/python*/site-packages")]
    found = next(iter(metadata.distributions(name="nova", path=places)), None)
    return found.version if found else None


@cache
def _said(command: Sequence[str]) -> str:
    """Return what a program prints, nothing if it is not here or fails."""
    environment = {**os.environ, "PATH": search_path()}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _number(text: str) -> str | None:
    """Return the first thing in a text that is the number of a version."""
    found = VERSION.search(text)
    return found[0] if found else None
