# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.config_shadow.process."""

import pytest

from conf.loading import ConfigError
from scheduler.operators.config_shadow.process import check_shadow, read_shadow
from tests.databases import a_conf, a_uuid


def test_a_shadow_decides_about_the_cell_of_its_scheduler_whatever_its_file_says(tmp_path):
    file = tmp_path / "other.conf"
    file.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[filter_scheduler]\nhost_subset_size = 3\n"
    )
    conf = a_conf()
    conf.set_override("config", str(file), group="shadow")
    conf.set_override("cell_uuid", a_uuid("cell"), group="scheduler")
    found = read_shadow(conf)
    assert found.scheduler.cell_uuid == a_uuid("cell")
    assert found.filter_scheduler.host_subset_size == 3


def test_a_shadow_that_cannot_be_read_is_refused_with_its_option(tmp_path):
    conf = a_conf()
    conf.set_override("config", "/nowhere/shadow.conf", group="shadow")
    with pytest.raises(ConfigError, match=r"option \[shadow\] config = '/nowhere/shadow.conf' in "):
        check_shadow(conf)
