# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Canonical names of architectures, hypervisors and guest modes."""

from collections.abc import Mapping

ARCHITECTURES = {
    **dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"),
    "amd64": "x86_64",
}
HYPERVISORS = {"xapi": "xen"}
MODES = {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}


def canonical(name: str, aliases: Mapping[str, str]) -> str:
    """Return Nova's name in lower case; unknown names stay."""
    text = name.lower()
    return aliases.get(text, text)
