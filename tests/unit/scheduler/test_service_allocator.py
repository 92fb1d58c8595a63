# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.service: which configurations have claims allocated in Placement."""

from pathlib import Path

import pytest
from oslo_config import cfg

from conf import opts
from inventory.engine import Database, open_database
from inventory.nova.placement_errors import PlacementMisconfigured
from scheduler.service import build_destinations, load_allocator
from tests.fixtures.whole_nova import write_config

PLACEMENT = {"auth_type": "none", "endpoint": "http://127.0.0.1:1/placement"}


def a_conf(path: Path, **groups: dict[str, object]) -> cfg.ConfigOpts:
    database = {"connection": f"sqlite:///{path}/berthmaster.sqlite"}
    write_config(path / "berthmaster.conf", {"database": database, **groups})
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([f"--config-file={path}/berthmaster.conf"], project="berthmaster")
    return conf


def claims_alternates(conf: cfg.ConfigOpts) -> bool:
    database: Database = open_database(conf)
    try:
        claimer = build_destinations(conf, database).claimer
        return claimer is not None and claimer.settings.alternates
    finally:
        database.close()


def test_claims_are_allocated_where_placement_is_configured(tmp_path: Path) -> None:
    conf = a_conf(tmp_path, placement=PLACEMENT)
    assert load_allocator(conf) is not None
    # Conductors allocate on the alternate that they use.
    assert not claims_alternates(conf)


@pytest.mark.parametrize(
    "groups",
    [
        {},
        {"placement": PLACEMENT, "claims": {"allocations": "off"}},
        {"placement": {"region_name": "one"}},
    ],
)
def test_else_they_are_not_and_alternates_are_claimed(
    tmp_path: Path, groups: dict[str, dict[str, object]]
) -> None:
    conf = a_conf(tmp_path, **groups)
    assert load_allocator(conf) is None
    assert claims_alternates(conf)


def test_without_claims_there_is_nothing_to_allocate(tmp_path: Path) -> None:
    assert load_allocator(a_conf(tmp_path, placement=PLACEMENT, claims={"enabled": False})) is None


def test_a_section_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    conf = a_conf(tmp_path, placement={"auth_type": "no_such_kind"})
    with pytest.raises(PlacementMisconfigured, match=r"\[placement\] auth_type"):
        load_allocator(conf)
