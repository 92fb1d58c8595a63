# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Failure domains: hosts that fail together, as their aggregates say."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from inventory.errors import joined
from inventory.objects.aggregate import FAILURE_DOMAIN, Aggregate
from scheduler.hosts.aggregate_metadata import split_values
from scheduler.hosts.columns import Mask
from scheduler.hosts.table import HostTable

# Before the name of a host that is a failure domain for itself.
HOST_PREFIX = "host:"
_SEPARATORS = re.compile(r"[\W_]+")


def named_domains(aggregates: Iterable[Aggregate] | None) -> set[str]:
    """Return the failure domains that the aggregates of a host name: it is in all of them."""
    return split_values(aggregates, FAILURE_DOMAIN) - {""}


def domains_of(hosts: HostTable, row: int) -> tuple[str, ...]:
    """Return the failure domains of a host, sorted; one without any is a domain for itself."""
    named = sorted(named_domains(hosts.get(row, "aggregates")))
    return tuple(named) or (HOST_PREFIX + hosts.get(row, "host"),)


def in_any(hosts: HostTable, domains: Collection[str]) -> Mask:
    """Return which hosts are in any of these failure domains, so that they may fail together."""
    wanted = {*domains}
    named = hosts.memo_values("aggregates", FAILURE_DOMAIN, named_domains, object)
    mask = hosts.spread("aggregates", np.array([not wanted.isdisjoint(each) for each in named]))
    for name in wanted:
        if name.startswith(HOST_PREFIX):
            mask[list(hosts.rows_of_host(name.removeprefix(HOST_PREFIX)))] = True
    return np.asarray(mask, np.bool_)


def doubtful(hosts: HostTable) -> Iterator[str]:
    """Yield what aggregates say of failure domains that was perhaps meant otherwise."""
    aggregates = [each for one in hosts.distinct("aggregates") for each in one or ()]
    alike: dict[str, set[str]] = defaultdict(set)
    for name in named_domains(aggregates):
        alike[_simple(name)].add(name)
    for _, names in sorted(alike.items()):
        if len(names) > 1:
            yield (
                f"Failure domains {joined(map(repr, sorted(names)))} differ by letter case"
                " or separators only: a standby may be in one for an instance in the other. If"
                " these names mean one domain, give all of their aggregates the same"
                f" {FAILURE_DOMAIN}"
            )
    wrong = {
        (each.name or "", key)
        for each in aggregates
        for key in each.metadata
        if key != FAILURE_DOMAIN and _simple(key) == _simple(FAILURE_DOMAIN)
    }
    for name, key in sorted(wrong):
        yield (
            f"Aggregate {name} has a property {key!r}, which names no failure domain: the property"
            f" is {FAILURE_DOMAIN}"
        )


def _simple(name: str) -> str:
    """Return a name without letter case, with one separator for all."""
    return _SEPARATORS.sub("-", name.casefold())
