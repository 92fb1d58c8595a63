# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of standbys, which Nova does not have."""

from oslo_config import cfg

OPTS = [
    cfg.StrOpt(
        "protect",
        default="none",
        choices=[
            ("none", "only instances whose flavors ask for a standby"),
            (
                "preferred",
                (
                    "instances get a standby where there is room, and are placed without a standby"
                    " elsewhere"
                ),
            ),
            ("required", "an instance without a standby is not placed"),
        ],
        help="""
Which instances get a standby: room on a host of another failure domain.

If the failure domain of an instance dies, its evacuation finds this room free. The extra spec
berthmaster:failover of a flavor sets the same for the instances of the flavor: none, preferred or
required. Standbys need claims and the filters that bound vCPUs, memory and disk. A change applies
to instances that are placed or moved afterwards; instances with a standby keep it until they end.
""",
    ),
    cfg.ListOpt(
        "projects",
        default=[],
        help="""
Ids of the projects to whose instances the option protect applies.

Empty means all projects. The extra spec berthmaster:failover of a flavor applies to all projects.
""",
    ),
    cfg.BoolOpt(
        "keeper",
        default=True,
        help="""
Let this scheduler keep the standbys right: make standbys that are missing, move those that no
longer hold, and end the standbys of instances that are gone.

Only one of the schedulers does this at a time. If no scheduler may do this, room that is held for
instances that are gone is never given back. If there is no instance to protect, the keeper costs
one query for each interval.
""",
    ),
    cfg.IntOpt(
        "keeper_interval",
        default=10,
        min=1,
        help="""
Seconds between two looks of the keeper at all standbys.

An instance may be without a standby for about this time after its host, or the host of its standby,
has changed.
""",
    ),
]
