# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The one name of an architecture, a hypervisor or a mode of guests that has several."""

from collections.abc import Mapping

ARCHITECTURES = {
    **dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"),
    "amd64": "x86_64",
}
HYPERVISORS = {"xapi": "xen"}
MODES = {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}


def canonical(name: str, aliases: Mapping[str, str]) -> str:
    """Return the name that Nova knows it by, in lower case; one that is not known stays."""
    text = name.lower()
    return aliases.get(text, text)
