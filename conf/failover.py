# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of standbys, which Nova does not have."""

from oslo_config import cfg

OPTS = [
    cfg.StrOpt(
        "protect",
        default="none",
        choices=[
            ("none", "only instances whose flavors say so"),
            ("preferred", "a standby where there is room; without one an instance is placed, too"),
            ("required", "an instance without a standby is not placed"),
        ],
        help="""
Which instances get a standby: room on a host of another failure domain.

If the failure domain of an instance dies, its evacuation finds this room free. The extra spec
berthmaster:failover of a flavor says it for its instances: none, preferred or required. Standbys
need claims and the filters that bound vCPUs, memory and disk. A change is about instances that are
placed or moved afterwards; those that have a standby keep it until they end.
""",
    ),
    cfg.ListOpt(
        "projects",
        default=[],
        help="""
The ids of the projects whose instances protect is about.

Empty means all projects. Flavors with the extra spec berthmaster:failover count for all projects.
""",
    ),
    cfg.BoolOpt(
        "keeper",
        default=True,
        help="""
Let this scheduler keep standbys where they hold: make those that lack, and end those of instances
that are gone.

One scheduler of all does so at a time. If none may, room that is held for instances that are gone
is never given back. Without any instance to protect it costs a query for each interval.
""",
    ),
    cfg.IntOpt(
        "keeper_interval",
        default=10,
        min=1,
        help="""
Seconds between two looks of the keeper at all standbys.

This is about how long an instance may be without a standby after its host, or that of its standby,
has changed.
""",
    ),
]
