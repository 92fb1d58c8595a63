# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The transport of [DEFAULT] transport_url, and no part of that URL in what is said of it."""

import oslo_messaging
from oslo_config import cfg

UNREADABLE = "it cannot be read as a URL; write a # or a / of the password as %23 or %2F"


def rpc_transport(conf: cfg.ConfigOpts) -> oslo_messaging.Transport:
    """Return a transport, which connects nothing yet; raises a MessagingException."""
    try:
        return oslo_messaging.get_rpc_transport(conf)
    # It quotes what it took for the port: the password, as far as it goes before a # or a /.
    except ValueError:
        raise oslo_messaging.InvalidTransportURL("", UNREADABLE) from None
