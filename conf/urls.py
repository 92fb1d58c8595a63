# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""URLs with a password that was not percent-encoded, of which a part would be taken for a host."""

import re

AMBIGUOUS = (
    "its password cannot be told from its host; write in user name and password @ as %40, : as %3A,"
    " / as %2F, ? as %3F and # as %23, and an @ elsewhere as %40, too"
)


def is_ambiguous(url: str) -> bool:
    """Return whether a URL of one host has more than one place where its password may end."""
    rest = url.partition("://")[2]
    # A path alone, as SQLite has it, names no host.
    return not rest.startswith("/") and rest.count("@") > 1


def is_ambiguous_list(url: str) -> bool:
    """Return the same of a URL that may have several hosts, each with a password of its own."""
    rest = url.partition("://")[2]
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    hosts = authority.split(",")
    if authority and "@" in rest[len(authority) :]:
        return True
    if any(host.count("@") > 1 for host in hosts):
        return True
    # A comma of the password makes hosts without one of what is around it.
    return len(hosts) > 1 and any(
        "@" in host and (":" not in host.split("@")[0] or "@" not in hosts[0]) for host in hosts
    )
