# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The method that returns the configuration of this process to operators."""

from collections.abc import Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg

from conf.settings_in_effect import settings_in_effect
from inventory.objects.field_types import shown
from scheduler.client.agent_client import NAMESPACE, VERSION
from scheduler.select_destinations.destinations import Destinations
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import Forbidden, InvalidInput


class ConfigEndpoint:
    """config_show: options, and the plug-ins in use, which a rejected reload leaves as they were.

    For operators only, as explain_destinations is.
    """

    target = oslo_messaging.Target(namespace=NAMESPACE, version=VERSION)

    def __init__(self, conf: cfg.ConfigOpts, destinations: Destinations) -> None:
        self._conf = conf
        self._destinations = destinations

    @oslo_messaging.expected_exceptions(  # type: ignore[untyped-decorator]
        Forbidden, InvalidInput
    )
    def config_show(self, context: Mapping[str, Any], /, **arguments: Any) -> dict[str, Any]:
        """Return {settings, in_use}: the options, and the names of filters and weighers."""
        caller = RequestContext.from_dict(context)
        caller.for_logging()
        if not caller.is_admin:
            raise Forbidden("Only administrators may see the configuration.")
        for name in arguments:
            raise InvalidInput(f"{shown(name)}: no such argument")
        plan = self._destinations.driver.plan
        in_use = {"filters": plan.filters, "weighers": plan.weighers}
        return {
            "settings": settings_in_effect(self._conf),
            "in_use": {kind: [each.name for each in used] for kind, used in in_use.items()},
        }
