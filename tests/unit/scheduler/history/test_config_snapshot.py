# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.history.config_snapshot."""

import json

import pytest
from oslo_config import cfg

from scheduler import plugins
from scheduler.drivers import BaseDriver
from scheduler.filters import BaseHostFilter
from scheduler.history.config_snapshot import given, restored
from tests.databases import a_conf


class TheirFilter(BaseHostFilter):
    """A filter that asks for options of its own, one of which is a secret."""

    most = 0
    password = ""
    options = (("most", "theirs", "most"), ("password", "theirs", "password"))


THEIRS = (cfg.IntOpt("most", default=20), cfg.StrOpt("password", default="x", secret=True))
NAMED = f"{__name__}.TheirFilter"


def a_conf_with(settings):
    """Return a configuration in which somebody has set this."""
    conf = a_conf()
    for group, values in settings.items():
        for name, value in values.items():
            conf.set_override(name, value, None if group == "DEFAULT" else group)
    return conf


def kept(conf):
    """Return what is kept of a configuration, as it comes out of the database."""
    return json.loads(json.dumps(given(conf, plugins.load_driver(conf))))


def what_decides(driver):
    """Return all that makes a driver decide as it does."""
    plan = driver.plan
    parts = [getattr(driver, attribute) for attribute, _, _ in driver.parts]
    plugs = [*plan.filters, *plan.request_filters, *plan.weighers]
    return (
        [(type(each), vars(each)) for each in plugs],
        (plan.host_subset_size, plan.shuffle_best),
        [type(driver), *map(type, parts)],
        [{n: getattr(d, n) for n, _, _ in d.options} for d in (driver, *parts)],
    )


SETTINGS = {
    "nothing": {},
    "weights": {"filter_scheduler": {"ram_weight_multiplier": -1.1, "host_subset_size": 3}},
    "a list of filters": {
        "filter_scheduler": {
            "enabled_filters": [
                *("RamFilter", "CoreFilter", "DiskFilter"),
                *("IoOpsFilter", "ComputeFilter"),
            ],
            "available_filters": ["nova.scheduler.filters.all_filters"],
            "max_io_ops_per_host": 3,
        },
        "DEFAULT": {"service_down_time": 5, "report_interval": 7},
    },
    "other groups": {
        "metrics": {"weight_setting": ["cpu.percent=-1.0", "x=2"], "required": False},
        "filter_scheduler": {"weight_classes": ["nova.scheduler.weights.all_weighers"]},
        "DEFAULT": {"default_availability_zone": "home"},
    },
    "another driver": {
        "scheduler": {"driver": "multi", "compute_scheduler_driver": "simple_scheduler",
                      "max_cores": 4},
    },
    "as Essex had it": {"filter_scheduler": {"compute_fill_first_cost_fn_weight": -2.0}},
}  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_what_was_given_makes_the_same_driver_again(settings):
    conf = a_conf_with(settings)
    found = kept(conf)
    assert found == settings
    driver, again = plugins.load_driver(conf), plugins.load_driver(restored(found))
    assert what_decides(again) == what_decides(driver)
    if settings:
        assert what_decides(again) != what_decides(plugins.load_driver(a_conf()))
    # And what is kept of it is the same again.
    assert kept(restored(found)) == settings


@pytest.mark.parametrize("metal", [False, True])
def test_filters_that_are_implied_are_kept_in_the_list(metal):
    option = "baremetal_enabled_filters" if metal else "enabled_filters"
    chosen = {option: ["ComputeFilter", "DiskFilter"]}
    if metal:
        chosen["use_baremetal_filters"] = True
    conf = a_conf_with({"filter_scheduler": chosen})
    found = kept(conf)
    whole = ["CoreFilter", "RamFilter", "ComputeFilter", "DiskFilter"]
    assert found == {"filter_scheduler": chosen | {option: whole}}
    again = plugins.load_driver(restored(found))
    assert what_decides(again) == what_decides(plugins.load_driver(conf))
    assert kept(restored(found)) == found


def test_a_list_of_filters_that_was_kept_before_any_were_implied_is_whole():
    of_nova = {"filter_scheduler": {"enabled_filters": ["ComputeFilter"]}}
    driver = plugins.load_driver(restored(of_nova))
    assert [each.name for each in driver.plan.filters] == ["ComputeFilter"]
    assert given(restored(of_nova), driver) == of_nova


def test_what_does_not_decide_is_not_kept():
    conf = a_conf_with(
        {
            "database": {"connection": "mysql+pymysql://berthmaster:secret@db/berthmaster"},
            "scheduler": {"max_attempts": 7},
            "trusted_computing": {"attestation_auth_blob": "secret"},
            "metrics": {"weight_multiplier": 2.0},
            "DEFAULT": {"host": "s1"},
        }
    )
    # No MetricsWeigher among these.
    conf.set_override("weight_classes", ["RAMWeigher"], "filter_scheduler")
    assert kept(conf) == {"filter_scheduler": {"weight_classes": ["RAMWeigher"]}}


def test_a_default_that_somebody_chose_is_kept():
    conf = a_conf_with({"filter_scheduler": {"host_subset_size": 1}})
    assert kept(conf) == {"filter_scheduler": {"host_subset_size": 1}}


@pytest.fixture
def theirs():
    """Return a configuration with a filter of a third party, which has options of its own."""
    conf = a_conf_with({"filter_scheduler": {"enabled_filters": [NAMED]}})
    conf.register_opts(THEIRS, "theirs")
    return conf


def test_options_of_others_are_kept_in_any_case_but_for_secrets(theirs):
    assert kept(theirs)["theirs"] == {"most": 20}


def test_options_of_others_are_there_again_without_their_definition(theirs):
    theirs.set_override("most", 30, "theirs")
    settings = kept(theirs)
    settings["theirs"]["password"] = ""
    *_, filter_ = plugins.load_driver(restored(settings)).plan.filters
    assert (filter_.most, filter_.password) == (30, "")


def test_nothing_of_this_machine_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("OS_FILTER_SCHEDULER__HOST_SUBSET_SIZE", "9")
    (tmp_path / ".berthmaster").mkdir()
    file = tmp_path / ".berthmaster" / "berthmaster.conf"
    file.write_text("[filter_scheduler]\nhost_subset_size = 8\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    conf = restored({})
    assert conf.filter_scheduler.host_subset_size == 1
    assert plugins.load_driver(conf).plan.host_subset_size == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [("host_subset_size", "many"), ("host_subset_size", None), ("use_baremetal_filters", [])],
)
def test_a_value_that_is_none_is_named(option, value):
    with pytest.raises(ValueError, match=rf"saved setting.* \[filter_scheduler\] {option} = "):
        restored({"filter_scheduler": {option: value}})


def test_an_option_of_another_release_is_in_nobody_s_way():
    conf = restored({"filter_scheduler": {"of_tomorrow": 1}, "tomorrow": {"at": "noon"}})
    assert conf.tomorrow.at == "noon"


def test_a_driver_that_was_made_by_hand_has_none():
    assert BaseDriver(plugins.Plan()).settings == {}


def test_a_group_that_has_no_options_is_named():
    with pytest.raises(ValueError, match=r"settings of \[filter_scheduler\] are not settings"):
        restored({"filter_scheduler": "host_subset_size"})
