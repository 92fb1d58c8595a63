# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is mounted where, as far as the kernel tells it without asking any file system."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")
# How the kernel writes blanks and backslashes in a path.
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system; number is another one whenever something is mounted there anew."""

    point: str
    number: str = ""


ROOT = Mount("/")


def read() -> dict[str, Mount]:
    """Return what is mounted, by the directory; nothing where the kernel does not tell."""
    with suppress(OSError):
        return parse(MOUNTINFO.read_text(errors="surrogateescape"))
    return {}


def parse(text: str) -> dict[str, Mount]:
    """Return what the lines of a mountinfo say; of mounts on one directory the last one covers."""
    found = {}
    for line in text.splitlines():
        number, _, _, _, point, *_ = line.split(" ")
        point = _OCTAL.sub(lambda octal: chr(int(octal[1], 8)), point)
        found[point] = Mount(point, number)
    return found


def of(path: str, mounted: Mapping[str, Mount]) -> Mount:
    """Return the mount that a path leads into, links in it not followed: that might hang."""
    while "/" in path and path not in mounted:
        path = path.rpartition("/")[0]
    return mounted.get(path) or mounted.get("/", ROOT)
