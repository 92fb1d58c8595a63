# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the flavor mix and of FlavorMixWeigher, which Nova does not have."""

import re

from oslo_config import cfg

_MAX = 2**30
# vCPUs, MB of memory, MB of disk, and how often it is asked for.
WeightedSize = tuple[int, int, int, float]
_NUMBERS = re.compile(r"(\d+):(\d+)(?::(\d+))?(?:=(\d+(?:\.\d+)?))?", re.ASCII)


def weighted_size(text: str) -> WeightedSize:
    """Return vCPUs, MB of memory, MB of disk and the weight of a text; raises ValueError.

    The text is VCPUS:MEMORY_MB[:DISK_GB][=WEIGHT], as in 4:8192:40=2.5.
    """
    found = _NUMBERS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not VCPUS:MEMORY_MB[:DISK_GB][=WEIGHT], as in 4:8192:40=2.5")
    vcpus, memory, disk = (int(each or 0) for each in found.groups()[:3])
    weight = float(found[4] or 1)
    if max(vcpus, memory, disk) > _MAX or weight > _MAX:
        raise ValueError(f"{text!r} has a number above {_MAX}")
    if not (vcpus or memory or disk) or not weight:
        raise ValueError(f"{text!r} needs no resources of a host, or its weight is 0")
    return vcpus, memory, 1024 * disk, weight


OPTS = [
    cfg.FloatOpt(
        "weight_multiplier",
        default=0.0,
        help="""
Weight of how little room for usual flavors an instance takes from a host.

A positive weight prefers hosts on which placing the instance costs the fewest copies of the flavors
that are usually requested, and so fills gaps into which nothing else fits. Use this weight alone:
set the weights of CPU, memory and disk to 0. It packs instances, so that the failure of a single
host hits more instances than with the default weights. 0 disables the weight. The metadata key
flavor_mix_weight_multiplier of an aggregate overrides it for the hosts of the aggregate; where
several aggregates do so, the smallest value is used.
""",
    ),
    cfg.ListOpt(
        "flavors",
        item_type=weighted_size,
        default=[],
        sample_default="",
        help="""
Sizes that are usually requested, instead of the sizes of saved decisions.

Each size is VCPUS:MEMORY_MB[:DISK_GB][=WEIGHT], as in 1:2048:10=5, 4:8192:40=2; the weight says how
often the size is requested, compared with the other sizes (default: 1). Empty means that schedulers
count the requested sizes, as [decisions] keep and half_life say; before there are decisions, the
sizes of the existing instances count.
""",
    ),
    cfg.IntOpt(
        "half_life",
        default=2 * 24 * 3600,
        min=3600,
        help="""
Seconds after which a request counts half as much for the flavor mix as a new one.

Older requests count less and less, up to [decisions] max_age and max_number. All schedulers of a
cloud should have the same value.
""",
    ),
]
