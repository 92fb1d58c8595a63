# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Load the configured plug-ins in their configured order; any mistake stops the start.

Claims imply the filters that bound vCPUs, memory and disk of a host, where none is enabled.

Plug-ins of third parties register options of their own on oslo.config's CONF, the configuration of
the process, as in Nova, and read them there at any time. A replayed decision has to set the values
there that it was made with.
"""

import importlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from inspect import isfunction
from typing import Any

from oslo_config import cfg
from oslo_log import log
from stevedore import ExtensionManager

from conf import loading
from conf import service as service_options
from conf.private_apis import registered_options
from conf.secrets import mark_secrets
from inventory.errors import nearest
from scheduler.decision.pipeline import Plan
from scheduler.drivers import BaseDriver
from scheduler.filters import BaseHostFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.exact_resources import ExactCoreFilter, ExactDiskFilter, ExactRamFilter
from scheduler.filters.ram import RamFilter
from scheduler.request_filters import REQUEST_FILTERS
from scheduler.weighers import BaseHostWeigher

LOG = log.getLogger(__name__)
FILTERS = "berthmaster.scheduler.filters"
WEIGHERS = "berthmaster.scheduler.weighers"
DRIVERS = "berthmaster.scheduler.drivers"
# Paths that a nova.conf up to Newton may have in place of the name.
NOVA_DRIVERS = {
    "nova.scheduler.filter_scheduler.FilterScheduler": "filter_scheduler",
    "nova.scheduler.caching_scheduler.CachingScheduler": "caching_scheduler",
    "nova.scheduler.chance.ChanceScheduler": "chance_scheduler",
    "nova.scheduler.simple.SimpleScheduler": "simple_scheduler",
    "nova.scheduler.multi.MultiScheduler": "multi",
    "fake_scheduler": "fake",
}
# Names for all installed filters; the second is that of Essex and Folsom.
ALL_FILTERS = (".all_filters", ".standard_filters")
# The default cost function of Essex and Folsom.
FILL_FIRST = "compute_fill_first_cost_fn"
# The filters that bound each resource, the implied one first; subclasses count as well. Nova since
# Pike leaves this to Placement and enables none of them.
_BOUNDING: dict[str, tuple[type[BaseHostFilter], ...]] = {
    "vcpu": (CoreFilter, ExactCoreFilter),
    "memory_mb": (RamFilter, ExactRamFilter),
    "disk_gb": (DiskFilter, ExactDiskFilter),
}
# (group, option) of each option that a plug-in registered when it was imported, which is once in a
# process.
_RECORDED: set[tuple[str, str]] = set()


class PluginError(Exception):
    """A configured plug-in cannot be used; the text names option, value and reason."""

    def __init__(self, option: "Option", value: str, why: str) -> None:
        super().__init__(f"option {option.name} = {value!r} in {option.source}: {why}")
        self.option = option
        self.value = value
        self.why = why


@dataclass(frozen=True, slots=True)
class Option:
    """The option that names a plug-in, and where its value was found."""

    name: str
    source: str

    @classmethod
    def of(cls, conf: cfg.ConfigOpts, group: str, name: str) -> "Option":
        return cls(f"[{group}] {name}", loading.source(conf, group, name))


def load_driver(conf: cfg.ConfigOpts) -> BaseDriver:
    """Return the configured driver; as Placement does in Nova, implied filters come first."""
    options = conf.filter_scheduler
    with _recording():
        filters = load_filters(conf)
        filters = [*implied_filters(conf, filters), *filters]
        # Without those whose rule an enabled filter has: a nova.conf that enables such a filter is
        # of a release in which forced hosts bypass it.
        enabled = {type(each) for each in filters}
        request_filters = [each for each in REQUEST_FILTERS if enabled.isdisjoint(each.__bases__)]
        plan = Plan(
            filters=filters,
            request_filters=[_make(each, conf) for each in request_filters],
            weighers=load_weighers(conf),
            host_subset_size=max(1, options.host_subset_size),
            shuffle_best=options.shuffle_best_same_weighed_hosts,
        )
        driver = _driver(conf, plan, ("scheduler", "driver"))
        # Of plug-ins, which register theirs when they are imported or made.
        mark_secrets(conf)
        return driver


def _driver(
    conf: cfg.ConfigOpts, plan: Plan, named_by: tuple[str, str], is_part: bool = False
) -> BaseDriver:
    """Return the driver that an option names, with the drivers that it consists of."""
    option, value = Option.of(conf, *named_by), conf[named_by[0]][named_by[1]]
    found = _find(NOVA_DRIVERS.get(value, value), _installed(DRIVERS), option, BaseDriver)
    if is_part and found.parts:
        raise PluginError(
            option,
            value,
            "consists of other drivers itself, so it cannot be one of the drivers of multi",
        )
    parts = {
        attribute: _driver(conf, plan, (group, name), is_part=True)
        for attribute, group, name in found.parts
    }
    driver: BaseDriver = _make(found, conf, plan, **parts)
    return driver


def load_filters(conf: cfg.ConfigOpts) -> list[BaseHostFilter]:
    """Return the enabled filters; a name listed twice gives the same object twice."""
    available = _installed(FILTERS)
    for path in conf.filter_scheduler.available_filters:
        if not path.endswith(ALL_FILTERS):
            option = Option.of(conf, "filter_scheduler", "available_filters")
            available |= {each.__name__: each for each in _filters_at(path, available, option)}
    enabled = list_option(conf)
    option = Option.of(conf, "filter_scheduler", enabled)
    names = conf.filter_scheduler[enabled]
    classes = [_find(name, available, option, BaseHostFilter) for name in names]
    filters = {each: _make(each, conf) for each in classes}
    return [filters[each] for each in classes]


def list_option(conf: cfg.ConfigOpts) -> str:
    """Return the name of the option in [filter_scheduler] that lists the filters in use."""
    is_baremetal = conf.filter_scheduler.use_baremetal_filters
    return "baremetal_enabled_filters" if is_baremetal else "enabled_filters"


def implied_filters(
    conf: cfg.ConfigOpts, filters: Sequence[BaseHostFilter]
) -> list[BaseHostFilter]:
    """Return filters for the resources that claims bound and none of these filters does."""
    bounded = conf.claims.bounded_resources if conf.claims.enabled else ()
    return [_BOUNDING[each][0]() for each in _unbounded(filters) if each in bounded]


def implied_names(conf: cfg.ConfigOpts, filters: Sequence[BaseHostFilter]) -> list[str]:
    """Return the names of the implied filters among those in use."""
    enabled = {name.rpartition(".")[2] for name in conf.filter_scheduler[list_option(conf)]}
    own = {first for first, *_ in _BOUNDING.values()}
    return [each.name for each in filters if type(each) in own and each.name not in enabled]


def report_bounds(conf: cfg.ConfigOpts, filters: Sequence[BaseHostFilter]) -> None:
    """Log which filters are implied, and which resources no filter bounds."""
    if names := implied_names(conf, filters):
        LOG.info(
            "Filters in use besides [filter_scheduler] %s: %s, so that claims keep to the total"
            " times the allocation ratio; [claims] bounded_resources turns this off",
            list_option(conf),
            ", ".join(names),
        )
    if missing := [_BOUNDING[each][0].__name__ for each in _unbounded(filters)]:
        LOG.warning(
            "The filters in use lack %s: nothing keeps hosts from being overfilled in that"
            " resource. Enable these filters, or claims with [claims] bounded_resources.",
            ", ".join(missing),
        )


def _unbounded(filters: Sequence[BaseHostFilter]) -> list[str]:
    return [
        resource
        for resource, bounding in _BOUNDING.items()
        if not any(isinstance(each, bounding) for each in filters)
    ]


def load_weighers(conf: cfg.ConfigOpts) -> list[BaseHostWeigher]:
    """Return the configured weighers, or all that are installed where a name says so."""
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
    """Return the names of the weighers, and the option that has them.

    A nova.conf of Essex or Folsom names cost functions, which are weighers here, or only sets the
    weight of the default one.
    """
    group = "filter_scheduler"
    names = conf[group].least_cost_functions
    if not names and loading.is_given(conf, group, f"{FILL_FIRST}_weight"):
        names = [] if loading.is_given(conf, group, "weight_classes") else [FILL_FIRST]
    if names:
        return names, Option.of(conf, group, "least_cost_functions")
    return conf[group].weight_classes, Option.of(conf, group, "weight_classes")


def _installed(namespace: str) -> dict[str, Any]:
    """Return {name: class} of a namespace; log those that cannot be imported."""

    def failed(_manager: object, entry_point: Any, error: BaseException) -> None:
        LOG.warning("Plug-in %s in %s cannot be loaded: %s", entry_point.name, namespace, error)

    # stevedore logs the same failure with a traceback.
    logging.getLogger("stevedore").setLevel(logging.CRITICAL)
    manager = ExtensionManager(namespace, on_load_failure_callback=failed)
    return {extension.name: extension.plugin for extension in manager}


def _find(name: str, available: dict[str, Any], option: Option, base: type) -> Any:
    """Return the class of a name or dotted path."""
    return _checked(_look_up(name, available, option), name, option, base)


def _look_up(name: str, available: dict[str, Any], option: Option) -> Any:
    # A nova.conf may have the path in Nova of a plug-in that has the same name here.
    found = available.get(name.rpartition(".")[2] if name.startswith("nova.") else name)
    if found is None and "." in name:
        found = _import(name, option)
    if found is None:
        # Most names have their end in common.
        hint = nearest(name, available, "", likeness=0.8)
        choices = ", ".join(sorted(available))
        why = f"unknown{hint and f' ({hint})'}; installed are {choices}, or a dotted path"
        raise PluginError(option, name, why)
    return found


def _checked(found: Any, name: str, option: Option, base: type) -> Any:
    if not (isinstance(found, type) and issubclass(found, base)):
        raise PluginError(option, name, f"is not a subclass of {base.__module__}.{base.__name__}")
    return found


def _filters_at(path: str, available: dict[str, Any], option: Option) -> list[Any]:
    """Return the filter at a path, or those that a function there returns, as in Nova."""
    found = _look_up(path, available, option)
    try:
        filters = list(found()) if isfunction(found) else [found]
    # The function of a third party may fail in any way.
    except Exception as error:
        raise PluginError(option, path, f"does not return filters: {error}") from error
    return [_checked(each, path, option, BaseHostFilter) for each in filters]


def _import(path: str, option: Option) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    # The module of a third party may fail in any way, a syntax error included.
    except Exception as error:
        raise PluginError(option, path, f"cannot be imported: {error}") from error


def _make(plugin: Any, conf: cfg.ConfigOpts, *args: Any, **settings: Any) -> Any:
    """Return a plug-in with the options that it declares; it sees no others."""
    declared: Iterable[tuple[str, str, str]] = plugin.options
    for attribute, group, option in declared:
        if option == "service_down_time":
            settings[attribute] = service_options.liveness_limit(conf)
        else:
            settings[attribute] = conf[option] if group == "DEFAULT" else conf[group][option]
    return plugin(*args, **settings)


@contextmanager
def _recording() -> Iterator[None]:
    """Record the options that are registered in the block, where plug-ins are loaded."""
    before = registered_options(cfg.CONF).keys()
    try:
        yield
    finally:
        _RECORDED.update(registered_options(cfg.CONF).keys() - before)


def third_party_options() -> frozenset[tuple[str, str]]:
    """Return the options that plug-ins registered, as (group, option) each, without secrets."""
    options = registered_options(cfg.CONF)
    return frozenset(each for each in _RECORDED & options.keys() if not options[each].secret)


@contextmanager
def overridden(conf: cfg.ConfigOpts, others: Iterable[tuple[str, str]] = ()) -> Iterator[None]:
    """Set the options of plug-ins, and some others, to their values in another configuration.

    Those that it does not have get their defaults. Raises ValueError for a wrong value.
    """
    options, known = registered_options(cfg.CONF), registered_options(conf)
    with ExitStack() as afterwards:
        for group, option in sorted({*third_party_options(), *others} & options.keys()):
            where = None if group == "DEFAULT" else group
            try:
                if (group, option) not in known:
                    conf.register_opt(options[group, option], where)
                cfg.CONF.set_override(option, (conf[group] if where else conf)[option], where)
            except cfg.Error as error:
                problem = loading.explain(error, conf, group, options[group, option])
                raise ValueError(problem) from error
            # What the types of options raise for a value that is not text.
            except (AttributeError, TypeError, ValueError) as error:
                raise ValueError(f"option [{group}] {option}: {error}") from error
            afterwards.callback(cfg.CONF.clear_override, option, where)
        yield
