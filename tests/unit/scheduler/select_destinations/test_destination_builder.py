# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.select_destinations.destination_builder."""

import pytest
from oslo_config import cfg

from conf import opts
from scheduler.host_cache.cache import HostCache
from scheduler.select_destinations.destination_builder import configure_cache


@pytest.mark.parametrize(
    ("down_time", "report_interval", "seconds"), [(60, 10, 10.0), (6, 2, 2.0), (10, 10, 25 / 3)]
)
def test_heartbeats_are_read_thrice_before_a_host_counts_as_down(
    database, down_time, report_interval, seconds
):
    conf, cache = cfg.ConfigOpts(), HostCache(database)
    opts.register(conf)
    conf([])
    conf.set_override("service_down_time", down_time)
    conf.set_override("report_interval", report_interval)
    configure_cache(cache, conf)
    assert cache.heartbeat_interval == seconds
