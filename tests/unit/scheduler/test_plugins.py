# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.plugins."""

import os
import subprocess
import sys

import pytest
from oslo_config import cfg
from stevedore import ExtensionManager

from conf.private_apis import registered_options
from scheduler import plugins
from scheduler.drivers.chance import ChanceScheduler
from scheduler.drivers.filter_scheduler import CachingScheduler, FakeScheduler, FilterScheduler
from scheduler.drivers.multi import MultiScheduler
from scheduler.drivers.simple import SimpleScheduler
from scheduler.filters import BaseHostFilter
from scheduler.filters.ram import RamFilter
from scheduler.plugins import PluginError, load_driver, load_filters, load_weighers
from scheduler.request_filters import REQUEST_FILTERS
from scheduler.weighers import BaseHostWeigher
from tests.databases import a_conf
from tests.plugins import Drop, Moody


def the_conf(**filter_scheduler):
    conf = a_conf()
    for name, value in filter_scheduler.items():
        conf.set_override(name, value, group="filter_scheduler")
    return conf


def installed(namespace):
    """Return {name: class} of what is installed under a namespace."""
    return {each.name: each.plugin for each in ExtensionManager(namespace)}


def names(loaded):
    return [each.name for each in loaded]


class ANumber(BaseHostFilter):
    """A filter that asks for settings of two groups."""

    most = 1
    zone = ""
    options = (
        ("most", "filter_scheduler", "host_subset_size"),
        ("zone", "DEFAULT", "default_availability_zone"),
    )


class WithAToken(BaseHostFilter):
    """A filter that registers an option when it is made."""

    conf = None

    def __init__(self):
        super().__init__()
        self.conf.register_opt(cfg.StrOpt("api_token"), group="our_site")


NOT_A_FILTER = 7


def our_site():
    """Return filters, as a function that available_filters names."""
    return [Drop, ANumber]


def half_a_site():
    return [Drop, NOT_A_FILTER]


def no_site():
    raise RuntimeError("not today")


def nothing():
    return None


def test_the_defaults():
    plan = load_driver(the_conf()).plan
    assert names(plan.filters) == the_conf().filter_scheduler.enabled_filters
    # The zone is AvailabilityZoneFilter's business where that is enabled.
    assert names(plan.request_filters) == [
        "PlacementOnly",
        "RequireTenantAggregate",
        "IsolateAggregates",
    ]
    assert names(plan.weighers) == sorted(
        name for name, weigher in installed(plugins.WEIGHERS).items() if weigher.in_all
    )
    assert (plan.host_subset_size, plan.shuffle_best) == (1, False)


def test_the_configured_order_is_kept():
    enabled = ["RamFilter", "AllHostsFilter", "ComputeFilter"]
    assert names(load_filters(the_conf(enabled_filters=enabled))) == enabled
    weighers = ["RAMWeigher", "CPUWeigher", "RAMWeigher"]
    assert names(load_weighers(the_conf(weight_classes=weighers))) == ["RAMWeigher", "CPUWeigher"]


def test_a_filter_that_is_listed_twice_is_one_object_asked_twice():
    first, _, second = load_filters(
        the_conf(enabled_filters=["RamFilter", "DiskFilter", "RamFilter"])
    )
    assert first is second
    assert isinstance(first, RamFilter)


def test_dotted_paths_serve_where_a_name_does():
    conf = the_conf(
        enabled_filters=["tests.plugins.Moody", "RamFilter"],
        weight_classes=["scheduler.weighers.ram.RAMWeigher"],
    )
    first, second = load_filters(conf)
    assert type(first) is Moody
    assert type(second) is RamFilter
    assert names(load_weighers(conf)) == ["RAMWeigher"]
    conf.set_override("driver", "scheduler.drivers.filter_scheduler.FilterScheduler", "scheduler")
    assert type(load_driver(conf)) is FilterScheduler


def test_available_filters_are_known_by_their_class_name():
    conf = the_conf(
        available_filters=["scheduler.filters.all_filters", "tests.plugins.Drop"],
        enabled_filters=["Drop", "RamFilter"],
    )
    assert type(load_filters(conf)[0]) is Drop


def test_available_filters_may_be_a_function_that_returns_them():
    conf = the_conf(
        available_filters=[f"{__name__}.our_site"], enabled_filters=["Drop", "ANumber", "RamFilter"]
    )
    assert [type(each) for each in load_filters(conf)] == [Drop, ANumber, RamFilter]


@pytest.mark.parametrize(
    "all_of_nova",
    [
        "nova.scheduler.filters.all_filters",
        "nova.scheduler.filters.standard_filters",
        "x.all_filters",
    ],
)
def test_all_filters_of_nova_are_all_of_ours(all_of_nova):
    conf = the_conf(available_filters=[all_of_nova], enabled_filters=["RamFilter"])
    assert names(load_filters(conf)) == ["RamFilter"]
    conf = the_conf(weight_classes=["nova.scheduler.weights.all_weighers", "CPUWeigher"])
    assert names(load_weighers(conf)) == names(load_weighers(the_conf()))


def test_where_nova_keeps_a_plug_in_is_where_ours_is_found():
    conf = the_conf(
        enabled_filters=["nova.scheduler.filters.ram_filter.RamFilter"],
        weight_classes=["nova.scheduler.weights.cpu.CPUWeigher"],
    )
    assert type(load_filters(conf)[0]) is RamFilter
    assert names(load_weighers(conf)) == ["CPUWeigher"]


def test_all_weighers_are_those_that_say_so():
    every = installed(plugins.WEIGHERS)
    left_out = {name for name, weigher in every.items() if not weigher.in_all}
    assert {"compute_fill_first_cost_fn", "noop_cost_fn"} <= left_out
    assert {*names(load_weighers(the_conf()))} == every.keys() - left_out
    conf = the_conf(weight_classes=["scheduler.weighers.all_weighers", *sorted(left_out)])
    assert {*names(load_weighers(conf))} == every.keys()


@pytest.mark.parametrize(("configured", "size"), [(0, 1), (1, 1), (3, 3)])
def test_a_choice_among_none_of_the_best_hosts_is_one_among_one(configured, size):
    assert load_driver(the_conf(host_subset_size=configured)).plan.host_subset_size == size


@pytest.mark.parametrize("prefix", ["", "nova.scheduler.least_cost."])
def test_cost_functions_replace_the_weighers(prefix):
    conf = the_conf(
        weight_classes=["RAMWeigher"],
        least_cost_functions=[f"{prefix}noop_cost_fn", f"{prefix}compute_fill_first_cost_fn"],
        noop_cost_fn_weight=3.0,
    )
    loaded = load_weighers(conf)
    assert names(loaded) == ["noop_cost_fn", "compute_fill_first_cost_fn"]
    assert [each.multiplier for each in loaded] == [3.0, -1.0]


@pytest.mark.parametrize("weight", [1.0, -1.0])
def test_the_weight_of_the_default_cost_function_alone_means_that_one(weight):
    (found,) = load_weighers(the_conf(compute_fill_first_cost_fn_weight=weight))
    assert (found.name, found.multiplier) == ("compute_fill_first_cost_fn", weight)
    conf = the_conf(compute_fill_first_cost_fn_weight=weight, weight_classes=["RAMWeigher"])
    assert names(load_weighers(conf)) == ["RAMWeigher"]


def test_what_plug_ins_register_is_secret_by_its_name(monkeypatch):
    conf = the_conf(enabled_filters=[f"{__name__}.WithAToken"])
    monkeypatch.setattr(WithAToken, "conf", conf)
    load_driver(conf)
    assert registered_options(conf)["our_site", "api_token"].secret


def test_plug_ins_get_their_settings():
    conf = the_conf(host_subset_size=3, enabled_filters=[f"{__name__}.ANumber"])
    conf.set_override("default_availability_zone", "home")
    (made,) = load_filters(conf)
    assert (made.most, made.zone) == (3, "home")


def test_the_compute_filter_gets_the_limit_that_can_work():
    conf = the_conf(enabled_filters=["ComputeFilter"])
    conf.set_override("report_interval", 100)
    assert load_filters(conf)[0].service_down_time == 250


def test_multipliers_are_those_of_the_configuration():
    conf = the_conf(ram_weight_multiplier=-2.5, num_instances_weight_multiplier=7.0)
    multipliers = {each.name: each.multiplier for each in load_weighers(conf)}
    assert multipliers["RAMWeigher"] == -2.5
    assert multipliers["NumInstancesWeigher"] == 7.0
    assert multipliers["DiskWeigher"] == 1.0


@pytest.mark.parametrize(
    ("option", "name", "why"),
    [
        ("enabled_filters", "NoFilter", r"unknown; installed are .*AllHostsFilter, .*dotted path"),
        ("enabled_filters", "no.such.Filter", "cannot be imported: No module named 'no'"),
        ("enabled_filters", "tests.plugins.Gone", "cannot be imported: module 'tests.plugins' has"),
        ("enabled_filters", f"{__name__}.NOT_A_FILTER", "is not a subclass of scheduler.filters."),
        ("enabled_filters", "tests.plugins.Favourite", "is not a subclass of scheduler.filters."),
        ("enabled_filters", ".RamFilter", "cannot be imported: Empty module name"),
        ("weight_classes", "NoWeigher", "unknown; installed are .*CPUWeigher, "),
        ("least_cost_functions", "no_cost_fn", r"did you mean noop_cost_fn\?\); installed"),
        ("weight_classes", "tests.plugins.Drop", "is not a subclass of scheduler.weighers."),
        ("available_filters", "no.such.Filter", "cannot be imported: No module named 'no'"),
        ("available_filters", f"{__name__}.NOT_A_FILTER", "is not a subclass of"),
        ("available_filters", f"{__name__}.half_a_site", "is not a subclass of"),
        ("available_filters", f"{__name__}.no_site", "does not return filters: not today"),
        ("available_filters", f"{__name__}.nothing", "does not return filters: 'NoneType' object"),
        ("available_filters", "NoSuchFilter", "unknown; installed are "),
    ],
)
def test_a_mistake_is_one_line_with_option_value_and_cure(option, name, why):
    with pytest.raises(PluginError, match=why) as caught:
        load_driver(the_conf(**{option: [name]}))
    text = str(caught.value)
    assert text.startswith(f"option [filter_scheduler] {option} = {name!r} in ")
    assert "\n" not in text
    assert caught.value.value == name


def with_driver(name, **scheduler):
    conf = the_conf()
    for option, value in ({"driver": name} | scheduler).items():
        conf.set_override(option, value, group="scheduler")
    return conf


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_scheduler", "unknown; installed are caching_scheduler, chance_scheduler, fake, "),
        ("nova.scheduler.ironic.IronicScheduler", "cannot be imported: "),
        ("scheduler.filters.ram.RamFilter", "is not a subclass of scheduler.drivers.BaseDriver"),
    ],
)
def test_a_wrong_driver(name, why):
    with pytest.raises(PluginError, match=why) as caught:
        load_driver(with_driver(name))
    assert str(caught.value).startswith(f"option [scheduler] driver = {name!r} in ")


DRIVERS = {
    "filter_scheduler": (FilterScheduler, "nova.scheduler.filter_scheduler.FilterScheduler"),
    "caching_scheduler": (CachingScheduler, "nova.scheduler.caching_scheduler.CachingScheduler"),
    "chance_scheduler": (ChanceScheduler, "nova.scheduler.chance.ChanceScheduler"),
    "simple_scheduler": (SimpleScheduler, "nova.scheduler.simple.SimpleScheduler"),
    "multi": (MultiScheduler, "nova.scheduler.multi.MultiScheduler"),
    "fake": (FakeScheduler, "fake_scheduler"),
}


@pytest.mark.parametrize("name", DRIVERS)
def test_every_driver_goes_by_our_name_by_nova_s_and_by_its_path(name):
    found, of_nova = DRIVERS[name]
    for each in (name, of_nova, f"{found.__module__}.{found.__name__}"):
        assert type(load_driver(with_driver(each))) is found


def test_these_are_all_drivers():
    assert installed(plugins.DRIVERS) == {name: found for name, (found, _) in DRIVERS.items()}
    known_to_nova = {of_nova: name for name, (_, of_nova) in DRIVERS.items()}
    assert known_to_nova == plugins.NOVA_DRIVERS


def test_drivers_get_their_settings():
    caching = load_driver(with_driver("caching_scheduler", driver_task_period=7))
    assert caching.view_max_age == 7
    conf = with_driver("chance_scheduler")
    conf.set_override("report_interval", 100)
    assert load_driver(conf).service_down_time == 250
    conf = with_driver("simple_scheduler", max_cores=3, default_schedule_zone="z1")
    conf.set_override("isolated_hosts", ["h1"], group="filter_scheduler")
    conf.set_override("default_availability_zone", "home")
    simple = load_driver(conf)
    assert (simple.max_cores, simple.default_schedule_zone) == (3, "z1")
    assert (simple.isolated_hosts, simple.isolated_images) == (["h1"], [])
    assert (simple.default_zone, simple.service_down_time) == ("home", 60)
    assert simple.skip_isolated_core_check is True


def test_multi_is_made_of_the_configured_drivers():
    of_nova = "nova.scheduler.simple.SimpleScheduler"
    parts = {"volume_scheduler_driver": of_nova, "default_scheduler_driver": "caching_scheduler"}
    driver = load_driver(with_driver("multi", max_cores=5, driver_task_period=8, **parts))
    assert type(driver.compute) is FilterScheduler
    assert driver.compute.plan is driver.plan
    assert (type(driver.volume), driver.volume.max_cores) == (SimpleScheduler, 5)
    assert (type(driver.default), driver.default.view_max_age) == (CachingScheduler, 8)
    assert driver.view_max_age is None


@pytest.mark.parametrize("name", ["multi", "nova.scheduler.multi.MultiScheduler"])
def test_multi_cannot_be_part_of_itself(name):
    with pytest.raises(PluginError, match="consists of other drivers itself") as caught:
        load_driver(with_driver("multi", default_scheduler_driver=name))
    assert "option [scheduler] default_scheduler_driver = " in str(caught.value)


def test_a_part_that_is_not_there_is_named():
    with pytest.raises(PluginError, match="unknown; installed are ") as caught:
        load_driver(with_driver("multi", compute_scheduler_driver="nope"))
    assert "option [scheduler] compute_scheduler_driver = 'nope' in " in str(caught.value)


@pytest.mark.parametrize("text", ["def broken(:\n", "raise RuntimeError('not today')\n", "x = y\n"])
def test_a_module_that_cannot_be_imported_for_any_reason(tmp_path, monkeypatch, text):
    name = f"of_a_third_party_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PluginError, match="cannot be imported: "):
        load_filters(the_conf(enabled_filters=[f"{name}.Filter"]))


def test_a_filter_of_a_single_file_on_the_path(tmp_path, monkeypatch):
    (tmp_path / "our_site.py").write_text(
        "from scheduler.filters import BaseHostFilter\n"
        "class Mine(BaseHostFilter):\n"
        "    def host_passes(self, host_state, spec_obj):\n"
        "        return False\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert names(load_filters(the_conf(enabled_filters=["our_site.Mine"]))) == ["Mine"]


LOAD = """
import logging
from scheduler import plugins
from tests.unit.scheduler.test_plugins import the_conf
logging.basicConfig(format="%(message)s")
plugins.load_filters(the_conf())
plugins.load_filters(the_conf(enabled_filters=["Broken"]))
"""


def test_an_installed_plug_in_that_is_broken_is_named_and_left_out(tmp_path):
    # In a process of its own: stevedore remembers what it once found.
    installed = tmp_path / "broken-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[{plugins.FILTERS}]\nBroken = no.such:Filter\n")
    path = os.pathsep.join([str(tmp_path), os.getcwd()])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOAD],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"Plug-in Broken in {plugins.FILTERS} cannot be loaded: No module" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert "PluginError: option [filter_scheduler] enabled_filters = 'Broken' in " in last


def test_base_classes_are_what_plug_ins_are_checked_against():
    assert all(isinstance(each, BaseHostFilter) for each in load_filters(the_conf()))
    assert all(isinstance(each, BaseHostWeigher) for each in load_weighers(the_conf()))


def test_all_request_filters_where_no_enabled_filter_has_their_rule():
    plan = load_driver(the_conf(enabled_filters=["ComputeFilter"])).plan
    assert names(plan.request_filters) == [each.__name__ for each in REQUEST_FILTERS]


def test_the_filters_for_bare_metal():
    conf = the_conf(use_baremetal_filters=True)
    assert names(load_filters(conf)) == conf.filter_scheduler.baremetal_enabled_filters
    conf = the_conf(use_baremetal_filters=True, baremetal_enabled_filters=["Exact"])
    with pytest.raises(PluginError, match=r"option \[filter_scheduler\] baremetal_enabled_filters"):
        load_filters(conf)
