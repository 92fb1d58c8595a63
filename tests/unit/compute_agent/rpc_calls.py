# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of the agent's RPC methods, as oslo.messaging makes them."""

from typing import Any

import oslo_messaging

CONTEXT = {"request_id": "req-1", "user_name": "root"}
METHODS = (
    "ping",
    "config_show",
    "host_list",
    "host_describe",
    "set_host_enabled",
    "host_maintenance_mode",
    "host_power_action",
    "get_host_uptime",
    "service_list",
    "service_enable",
    "service_disable",
    "service_force_down",
    "service_delete",
    "hypervisor_list",
    "hypervisor_show",
    "hypervisor_stats",
    "hypervisor_servers",
)


def call(endpoint: Any, method: str, context: Any = CONTEXT, /, **arguments: Any) -> Any:
    """Call as oslo.messaging does; raise what would reach the caller."""
    try:
        return getattr(endpoint, method)(context, **arguments)
    except oslo_messaging.ExpectedException as error:
        raise error.exc_info[1] from None
