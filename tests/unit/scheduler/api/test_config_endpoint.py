# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The endpoint config_show: who may ask, and what a scheduler says of itself."""

import json
from types import SimpleNamespace

import oslo_messaging
import pytest
from oslo_config import cfg

from conf import opts
from scheduler import plugins
from scheduler.api.config_endpoint import ConfigEndpoint
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import Forbidden, InvalidInput

ADMIN = RequestContext("req-1", is_admin=True).to_dict()


@pytest.fixture
def endpoint():
    """The endpoint of a scheduler with the filters of its options."""
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    conf.set_override("enabled_filters", ["RamFilter", "CoreFilter"], group="filter_scheduler")
    return ConfigEndpoint(conf, SimpleNamespace(driver=plugins.load_driver(conf)))


def test_the_plug_ins_are_those_in_use(endpoint):
    answer = endpoint.config_show(ADMIN)
    # With the filter that claims imply.
    assert answer["in_use"]["filters"] == ["DiskFilter", "RamFilter", "CoreFilter"]
    assert "RAMWeigher" in answer["in_use"]["weighers"]
    (filters,) = (each for each in answer["settings"] if each["option"] == "enabled_filters")
    assert filters["value"] == ["RamFilter", "CoreFilter"]
    assert json.loads(json.dumps(answer)) == answer


@pytest.mark.parametrize(
    ("context", "arguments", "error"),
    [(RequestContext("req-1").to_dict(), {}, Forbidden), (ADMIN, {"x": 1}, InvalidInput)],
)
def test_it_is_for_administrators_who_ask_for_nothing_else(endpoint, context, arguments, error):
    with pytest.raises(oslo_messaging.ExpectedException) as refused:
        endpoint.config_show(context, **arguments)
    assert refused.value.exc_info[0] is error
