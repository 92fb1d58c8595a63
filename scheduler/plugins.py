# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From configured names to plug-ins, in their configured order; any mistake stops the start."""

import importlib
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from inspect import isfunction
from typing import Any

from oslo_config import cfg
from oslo_log import log
from stevedore import ExtensionManager

from conf import loading
from conf import service as service_options
from scheduler import bounding_filters, plugin_options
from scheduler.decision.pipeline import Plan
from scheduler.drivers import BaseDriver
from scheduler.filters import BaseHostFilter
from scheduler.request_filters import REQUEST_FILTERS
from scheduler.weighers import BaseHostWeigher

LOG = log.getLogger(__name__)
FILTERS = "berthmaster.scheduler.filters"
WEIGHERS = "berthmaster.scheduler.weighers"
DRIVERS = "berthmaster.scheduler.drivers"
# What a nova.conf up to Newton may say instead of the name.
NOVA_DRIVERS = {
    "nova.scheduler.filter_scheduler.FilterScheduler": "filter_scheduler",
    "nova.scheduler.caching_scheduler.CachingScheduler": "caching_scheduler",
    "nova.scheduler.chance.ChanceScheduler": "chance_scheduler",
    "nova.scheduler.simple.SimpleScheduler": "simple_scheduler",
    "nova.scheduler.multi.MultiScheduler": "multi",
    "fake_scheduler": "fake",
}
# What stands for all installed filters; the latter is how Essex and Folsom call them.
ALL_FILTERS = (".all_filters", ".standard_filters")
# The cost function that Essex and Folsom use if they are not told otherwise.
FILL_FIRST = "compute_fill_first_cost_fn"


class PluginError(Exception):
    """A configured plug-in that cannot be used; the text names option, value and cure."""

    def __init__(self, option: "Option", value: str, why: str) -> None:
        super().__init__(f"option {option.name} = {value!r} in {option.source}: {why}")
        self.option = option
        self.value = value


@dataclass(frozen=True, slots=True)
class Option:
    """The option that names a plug-in, and where its value was found."""

    name: str
    source: str

    @classmethod
    def of(cls, conf: cfg.ConfigOpts, group: str, name: str) -> "Option":
        return cls(f"[{group}] {name}", loading.source(conf, group, name))


def load_driver(conf: cfg.ConfigOpts) -> BaseDriver:
    """Return the configured driver with the configured filters and weighers.

    Filters that are implied come first, as Placement does in Nova.
    """
    options = conf.filter_scheduler
    with plugin_options.noticed():
        filters = load_filters(conf)
        filters = [*bounding_filters.implied(conf, filters), *filters]
        plan = Plan(
            filters=filters,
            request_filters=_request_filters(conf, filters),
            weighers=load_weighers(conf),
            host_subset_size=max(1, options.host_subset_size),
            shuffle_best=options.shuffle_best_same_weighed_hosts,
        )
        return _driver(conf, plan, ("scheduler", "driver"))


def _driver(
    conf: cfg.ConfigOpts, plan: Plan, named_by: tuple[str, str], is_part: bool = False
) -> BaseDriver:
    option, value = Option.of(conf, *named_by), conf[named_by[0]][named_by[1]]
    found = _find(NOVA_DRIVERS.get(value, value), _installed(DRIVERS), option, BaseDriver)
    if is_part and found.parts:
        raise PluginError(option, value, "is made of other drivers itself, so it can be no part")
    parts = {
        attribute: _driver(conf, plan, (group, name), is_part=True)
        for attribute, group, name in found.parts
    }
    driver: BaseDriver = found(plan, **dict(_settings(found, conf)), **parts)
    return driver


def load_filters(conf: cfg.ConfigOpts) -> list[BaseHostFilter]:
    """Return the enabled filters; a name listed twice stands for one object asked twice."""
    available = _installed(FILTERS)
    for path in conf.filter_scheduler.available_filters:
        if not path.endswith(ALL_FILTERS):
            option = Option.of(conf, "filter_scheduler", "available_filters")
            available |= {each.__name__: each for each in _offered(path, available, option)}
    name = bounding_filters.list_option(conf)
    option, names = Option.of(conf, "filter_scheduler", name), conf.filter_scheduler[name]
    classes = [_find(name, available, option, BaseHostFilter) for name in names]
    made = {each: _make(each, conf) for each in classes}
    return [made[each] for each in classes]


def _request_filters(
    conf: cfg.ConfigOpts, filters: Iterable[BaseHostFilter]
) -> list[BaseHostFilter]:
    """Return the request filters, without those whose rule a filter that is enabled has as well.

    A nova.conf that enables such a filter is of a release in which forced hosts escape it.
    """
    enabled = {type(each) for each in filters}
    return [_make(each, conf) for each in REQUEST_FILTERS if enabled.isdisjoint(each.__bases__)]


def load_weighers(conf: cfg.ConfigOpts) -> list[BaseHostWeigher]:
    """Return the configured weighers, all that are installed where a path says so."""
    available = _installed(WEIGHERS)
    names, option = _weigher_names(conf)
    classes: dict[Any, None] = {}
    for name in names:
        if name.endswith(".all_weighers"):
            standard = (available[each] for each in sorted(available) if available[each].in_all)
            classes |= dict.fromkeys(standard)
        else:
            classes[_find(name, available, option, BaseHostWeigher)] = None
    return [_make(each, conf) for each in classes]


def _weigher_names(conf: cfg.ConfigOpts) -> tuple[list[str], Option]:
    """Return what names the weighers, and the option that does.

    In a nova.conf of Essex or Folsom these are cost functions, which have the names of weighers
    here. Where it has only the weight of the default one, that is meant.
    """
    paths = conf.filter_scheduler.least_cost_functions
    if not paths and loading.is_given(conf, "filter_scheduler", f"{FILL_FIRST}_weight"):
        told = loading.is_given(conf, "filter_scheduler", "weight_classes")
        paths = [] if told else [FILL_FIRST]
    option = "least_cost_functions" if paths else "weight_classes"
    names = paths or conf.filter_scheduler.weight_classes
    return names, Option.of(conf, "filter_scheduler", option)


def _installed(namespace: str) -> dict[str, Any]:
    """Return {name: class} of a namespace; one that cannot be imported is named and left out."""

    def failed(_manager: object, entry_point: Any, error: BaseException) -> None:
        LOG.warning("Plug-in %s in %s cannot be loaded: %s", entry_point.name, namespace, error)

    # stevedore logs the same failure with a traceback, which helps its author and nobody else.
    logging.getLogger("stevedore").setLevel(logging.CRITICAL)
    manager = ExtensionManager(namespace, on_load_failure_callback=failed)
    return {extension.name: extension.plugin for extension in manager}


def _find(name: str, available: dict[str, Any], option: Option, base: type) -> Any:
    return _checked(_look_up(name, available, option), name, option, base)


def _look_up(name: str, available: dict[str, Any], option: Option) -> Any:
    # A nova.conf may say where Nova keeps what is installed here under the same name.
    found = available.get(name.rpartition(".")[2] if name.startswith("nova.") else name)
    if found is None and "." in name:
        found = _import(name, option)
    if found is None:
        choices = ", ".join(sorted(available))
        raise PluginError(option, name, f"unknown; installed are {choices}, or a dotted path")
    return found


def _checked(found: Any, name: str, option: Option, base: type) -> Any:
    if not (isinstance(found, type) and issubclass(found, base)):
        raise PluginError(option, name, f"is not a subclass of {base.__module__}.{base.__name__}")
    return found


def _offered(path: str, available: dict[str, Any], option: Option) -> list[Any]:
    """Return the filter of a path, or those that a function there returns, as Nova has it."""
    found = _look_up(path, available, option)
    try:
        offered = list(found()) if isfunction(found) else [found]
    # Nor is the function ours.
    except Exception as error:
        raise PluginError(option, path, f"does not return filters: {error}") from error
    return [_checked(each, path, option, BaseHostFilter) for each in offered]


def _import(path: str, option: Option) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    # A module that is not ours may fail in any way, a syntax error included.
    except Exception as error:
        raise PluginError(option, path, f"cannot be imported: {error}") from error


def _make(plugin: Any, conf: cfg.ConfigOpts) -> Any:
    return plugin(**dict(_settings(plugin, conf)))


def _settings(plugin: Any, conf: cfg.ConfigOpts) -> Iterator[tuple[str, Any]]:
    """Yield the settings that a plug-in asks for; those it may not see stay unseen."""
    declared: Iterable[tuple[str, str, str]] = plugin.options
    for attribute, group, option in declared:
        if option == "service_down_time":
            yield attribute, service_options.liveness_limit(conf)
        else:
            yield attribute, conf[option] if group == "DEFAULT" else conf[group][option]
