# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Prints what Nova's own scheduler asks of Placement for request specs.

Reads a list of words for tests.peer.specs as JSON, and prints for each the spec as it is sent, and
the query; null for what Nova's API or scheduler refuses. More words are: options, by section and
name; fallback, for the query of VCPU in place of PCPU; owned, for computes that report OWNER_NOVA.
It runs in the environment of Nova.
"""

import json
import sys
from typing import Any

import os_traits
from nova import config, context, exception, objects
from nova.scheduler import request_filter, utils

from tests.peer import specs

INSTANCE = "00000000-0000-0000-2222-000000000001"
ALIASES = [
    '{"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}',
    '{"name": "fast", "resource_class": "fast nic", "traits": "CUSTOM_RED,blue"}',
]
# The others ask databases or Neutron.
FILTERS = (
    request_filter.require_image_type_support,
    request_filter.compute_status_filter,
    request_filter.transform_image_metadata,
    request_filter.accelerators_filter,
    request_filter.packed_virtqueue_filter,
    request_filter.ephemeral_encryption_filter,
    request_filter.virtio_sound_filter,
    request_filter.tpm_secret_security_filter,
)


def asked(caller: context.RequestContext, words: dict[str, Any]) -> dict[str, Any] | None:
    left = dict(words)
    options, fallback = left.pop("options", {}), left.pop("fallback", False)
    owned = left.pop("owned", False)
    for section, values in options.items():
        for name, value in values.items():
            request_filter.CONF.set_override(name, value, section)
    try:
        spec = specs.request_spec(caller, INSTANCE, left)
        sent = spec.obj_to_primitive()
        for each in FILTERS:
            each(caller, spec)
        # Whether they do is in a database.
        request_filter._should_filter_by_owner = lambda _: owned
        request_filter.owner_nova_filter(caller, spec)
        found = utils.resources_from_request_spec(caller, spec, None, not fallback)
    except exception.NovaException:
        return None
    finally:
        for section, values in options.items():
            for name in values:
                request_filter.CONF.clear_override(name, section)
    found._limit = None
    return {"spec": sent, "query": found.to_querystring(), "pins": found.cpu_pinning_requested}


def main() -> None:
    config.parse_args(["nova-scheduler"], default_config_files=[])
    request_filter.CONF.set_override("alias", ALIASES, "pci")
    objects.register_all()
    caller = context.RequestContext("user1", "project1", is_admin=True)
    found = [asked(caller, words) for words in json.load(sys.stdin)]
    json.dump({"asked": found, "traits": sorted(os_traits.get_traits())}, sys.stdout)


if __name__ == "__main__":
    main()
