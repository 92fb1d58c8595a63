# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the libvirt that a URI leads to is that of this machine."""

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

LOCALHOST = {"localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost"}


def is_local(uri: str, host: str, my_ip: str) -> bool:
    """Tell whether a URI names no machine or certainly this one; nobody is asked for names.

    host and my_ip are what the options say of this machine. The former may be any text, so it
    counts only if it begins as the machine's own name does.
    """
    named = (urlsplit(uri).hostname or "").rstrip(".")
    if not named or named in LOCALHOST or _is_loopback(named):
        return True
    own = socket.gethostname().lower()
    short = own.partition(".")[0]
    names = {own, short, my_ip.lower()}
    if host.lower().partition(".")[0] == short:
        names.add(host.lower())
    return named in names


def _is_loopback(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
