# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Every scenario file beside this one: a fleet, requests, and where their instances go and why.

The fleet is written into a database as agents do it, plug-ins are loaded as the configuration of
the scenario says, and requests and answers are encoded and decoded as on their way to a conductor.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from inventory.engine import Database
from scheduler.decision.types import Decision, Refusal
from scheduler.host_cache.cache import HostCache
from scheduler.objects.selection import Selection
from scheduler.plugins import load_driver
from scheduler.select_destinations.destinations import Destinations
from scheduler.wire.arguments import (
    SelectArguments,
    decode_select_arguments,
    encode_select_arguments,
)
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from scheduler.wire.replies import decode_destinations, encode_destinations
from tests.databases import a_conf, a_uuid
from tests.scenarios.building import Words, build_fleet, build_spec

FILES = sorted(Path(__file__).parent.glob("*.yaml"))
KEYS = {"scenario", "configuration", "hosts", "aggregates", "cell", "requests"}
STEP_KEYS = {"what", "request", "instances", "hosts", "alternates", "refused", "steps", "limits"}


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_scenario(path: Path, database: Database) -> None:
    scenario = yaml.safe_load(path.read_text())
    assert scenario.keys() <= KEYS
    build_fleet(database, scenario)
    destinations = serving(database, scenario)
    for step in scenario["requests"]:
        assert step.keys() <= STEP_KEYS, step["what"]
        check(destinations, step)


def serving(database: Database, scenario: Words) -> Destinations:
    """Return the scheduler of a scenario, short of its RPC server."""
    conf = a_conf()
    # Nothing is claimed here, so the filters are those that the scenario names.
    conf.set_override("enabled", False, "claims")
    for group, options in scenario.get("configuration", {}).items():
        for name, value in options.items():
            conf.set_override(name, value, group=None if group == "DEFAULT" else group)
    cell = scenario.get("cell")
    cache = HostCache(database, cell_uuid=a_uuid(cell) if cell else None)
    return Destinations(database, cache, load_driver(conf))


def check(destinations: Destinations, step: Words) -> None:
    """Make one request and compare all that the scenario says about its outcome."""
    what, caller = step["what"], RequestContext(request_id=step["what"])
    asked = over_the_wire(step)
    decision, explained = destinations.rehearse(asked, caller)
    refusals = [refusal for each in explained.verdicts for refusal in each.refusals]
    answer = answered(destinations, asked, caller)
    assert [each[0].service_host for each in answer] == step["hosts"], (what, refusals)
    if "refused" in step:
        assert reasons_by_host(refusals) == step["refused"], what
    if "alternates" in step:
        spare = [[each.service_host for each in selections[1:]] for selections in answer]
        assert spare == step["alternates"], what
    if "steps" in step:
        assert [str(each) for each in steps(decision)] == step["steps"], what
    if "limits" in step:
        assert [limits(selections[0]) for selections in answer] == step["limits"], what


def over_the_wire(step: Words) -> SelectArguments:
    uuids = [a_uuid(name) for name in step["instances"]]
    spec = build_spec(step["request"], uuids)
    alternates = "alternates" in step
    primitive = encode_select_arguments(SelectArguments(spec, uuids, True, alternates))
    return decode_select_arguments(json.loads(json.dumps(primitive)))


def answered(
    destinations: Destinations, asked: SelectArguments, caller: RequestContext
) -> list[list[Selection]]:
    """Return the answer as the caller reads it; none for NoValidHost."""
    try:
        answer = destinations.select(asked, caller)
    except NoValidHost:
        return []
    return decode_destinations(json.loads(json.dumps(encode_destinations(answer, asked))))


def reasons_by_host(refusals: list[Refusal]) -> dict[str, dict[str, str]]:
    """Return {host: {filter: reason}}."""
    found: dict[str, dict[str, str]] = {}
    for each in refusals:
        found.setdefault(each.host, {})[each.filter] = each.reason
    return found


def steps(decision: Decision) -> Any:
    """Return the steps of the last instance that was decided about."""
    return decision.shortage.steps if decision.shortage else decision.placements[-1].steps


def limits(selection: Selection) -> dict[str, Any]:
    """Return the limits that are set; of the one for NUMA its two ratios."""
    found = {
        name: getattr(selection.limits, name)
        for name in ("vcpu", "memory_mb", "disk_gb")
        if getattr(selection.limits, name) is not None
    }
    numa = selection.limits.numa_topology
    ratios = [numa.cpu_allocation_ratio, numa.ram_allocation_ratio] if numa else None
    return found | ({"numa_topology": ratios} if ratios else {})


def test_there_is_a_scenario_for_each_kind_of_request() -> None:
    kinds = "boot multi-create soft-groups hard-groups resize cold-migrate live-migrate evacuate"
    kinds += " rebuild unshelve forced-host zone isolated-images numa-pinning huge-pages pci retry"
    assert set(kinds.split()) <= {path.stem for path in FILES}
