# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Check the flavors of a Nova cloud: requests for some are served by Nova and refused here."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing

from oslo_config import cfg

from inventory.nova.database import NovaDatabase, NovaDatabaseUnavailable
from scheduler.claims.resource_request import resource_request
from scheduler.nova_check.cloud import OK, WARNING, Finding, number
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec

SUBJECT = "flavors"
CURE = "correct the property, or remove it: openstack flavor unset --property"


def check(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    """Yield which flavors have properties that mean nothing to Placement; Nova ignores those."""
    if not conf.api_database.connection:
        return
    try:
        with closing(NovaDatabase("nova_api", conf.api_database.connection)) as api:
            flavors = _flavors(api)
    # The check of the cloud says so.
    except NovaDatabaseUnavailable:
        return
    problems = {each.name: problem for each in flavors if (problem := _problem(each))}
    for name, problem in problems.items():
        yield Finding(WARNING, f"flavor {name}", f"is refused here: {problem}", CURE)
    if not problems:
        yield Finding(OK, SUBJECT, f"{number(len(flavors), 'flavor')}, all understood")


def _flavors(api: NovaDatabase) -> list[Flavor]:
    specs: dict[int, dict[str, str]] = defaultdict(dict)
    for row in api.rows("flavor_extra_specs", "flavor_id", "key", "value"):
        specs[row.flavor_id][row.key] = row.value or ""
    rows = api.rows("flavors", "id", "name", "vcpus", "memory_mb", "root_gb")
    return [
        Flavor(each.vcpus, each.memory_mb, each.root_gb, name=each.name, extra_specs=specs[each.id])
        for each in rows
    ]


def _problem(flavor: Flavor) -> str:
    """Return why a request for a flavor is refused whatever else it asks for, else ""."""
    try:
        resource_request(RequestSpec(flavor=flavor))
    except ValueError as error:
        return str(error)
    return ""
