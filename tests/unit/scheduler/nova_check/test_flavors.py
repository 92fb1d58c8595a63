# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which flavors of a Nova cloud a check finds that are refused here."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg

from scheduler.nova_check import flavors
from tests.fixtures import agent
from tests.nova_tables import NovaTables

SIZE = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[NovaTables]:
    """The API database, with a flavor that is in order."""
    made = NovaTables(tmp_path / "api", api=True)
    made.add("flavors", id=1, name="m1.tiny", **SIZE)
    made.add("flavor_extra_specs", flavor_id=1, key="resources:VGPU", value="1")
    made.add("flavor_extra_specs", flavor_id=1, key="hw:cpu_policy", value="shared")
    yield made
    made.close()


@pytest.fixture
def conf(tmp_path: Path, api: NovaTables) -> cfg.ConfigOpts:
    return agent.options(tmp_path, api_database={"connection": api.url})


def found(conf: cfg.ConfigOpts) -> list[tuple[str, str, str]]:
    return [(each.state, each.subject, each.text) for each in flavors.check(conf)]


def test_flavors_in_order_are_counted(conf: cfg.ConfigOpts) -> None:
    assert found(conf) == [("ok", "flavors", "1 flavor, all understood")]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("resources:VGPU", "a few", "no number of 0 or more"),
        ("resources:CUSTOM_CARD", "-1", "no number of 0 or more"),
        ("trait:CUSTOM_FAST", "preferred", "neither required nor forbidden"),
    ],
)
def test_what_placement_would_not_understand_is_named(
    conf: cfg.ConfigOpts, api: NovaTables, key: str, value: str, problem: str
) -> None:
    api.add("flavors", id=2, name="m1.odd", **SIZE)
    api.add("flavor_extra_specs", flavor_id=2, key=key, value=value)
    ((state, subject, text),) = found(conf)
    assert (state, subject) == ("warning", "flavor m1.odd")
    assert text.startswith("is refused here: ")
    assert key in text
    assert text.endswith(problem)


def test_a_database_that_cannot_be_read_is_said_by_the_check_of_the_cloud(
    tmp_path: Path, conf: cfg.ConfigOpts, api: NovaTables
) -> None:
    api.close()
    (tmp_path / "api").write_text("no database")
    assert found(conf) == []
    conf.set_override("connection", None, group="api_database")
    assert found(conf) == []
