# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for hosts that take one flavor at a time."""

import numpy as np

from inventory.errors import counted
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.hosts.row_index import EVERY
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.instance import Instance


class TypeAffinityFilter(BaseHostFilter):
    """Keep the hosts that are empty or have instances of the requested flavor only.

    Flavors are compared by id, and by name where an id is unknown. A host with an instance of which
    neither is known is refused.
    """

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        flavor, count = spec.flavor, hosts.instances.count
        same = count(("flavor_id", flavor.id), hosts.size)
        same = same + count(("flavor_name", flavor.name), hosts.size)
        mask = np.asarray(same == count(EVERY, hosts.size), np.bool_)
        if flavor.id is None:
            # Instances of a known id are not counted by name.
            for row in np.flatnonzero(~mask).tolist():
                mask[row] = all(_is_of(each, flavor) for each in hosts.instances.on(row).values())
        return mask

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        verdicts = [_is_of(each, spec_obj.flavor) for each in host_state.instances.values()]
        name = spec_obj.flavor.name
        own = "that of the request" if name is None else repr(name)
        return (
            f"has {counted(verdicts.count(False), 'instance')} of other flavors than"
            f" {own} and {verdicts.count(None)} of unknown flavor"
        )


def _is_of(instance: Instance, flavor: Flavor) -> bool | None:
    """Return whether an instance is of a flavor, None where that is unknown."""
    identity, name = instance.flavor_identity
    if flavor.id is not None and identity is not None:
        return identity == flavor.id
    return None if name is None or flavor.name is None else name == flavor.name
