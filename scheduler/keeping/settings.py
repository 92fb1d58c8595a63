# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The settings that decide, as they are kept with a decision, and a configuration made of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from oslo_config import cfg

from conf import filter_scheduler, loading, opts
from scheduler import bounding_filters, plugin_options, plugins
from scheduler.drivers import BaseDriver

Settings = Mapping[str, Mapping[str, Any]]
# What is read without being asked for by name; see scheduler.plugins and conf.service.
_ALWAYS = (
    ("scheduler", "driver"),
    *(("filter_scheduler", each.dest) for each in filter_scheduler.OPTS),
    ("DEFAULT", "report_interval"),
)


def given(conf: cfg.ConfigOpts, driver: BaseDriver) -> Settings:
    """Return {group: {option: value}} of what somebody chose, as far as the driver goes by it.

    Of options that are not ours, the value is there in any case: who reads it later may not have
    them. Those that plug-ins have registered themselves are among them. Secrets are left out. The
    list of filters is the one in use, with those that are implied.
    """
    ours = {(group, each.dest) for group, listed in opts.list_opts() for each in listed}
    found: dict[str, dict[str, Any]] = {}
    for group, option in sorted({*_ALWAYS, *_asked_for(driver)}):
        in_group = None if group == "DEFAULT" else group
        if conf._get_opt_info(option, in_group)["opt"].secret:
            continue
        if (group, option) not in ours or loading.is_given(conf, group, option):
            value = conf[option] if in_group is None else conf[group][option]
            found.setdefault(group, {})[option] = value
    if names := bounding_filters.implied_names(conf, driver.plan.filters):
        option = bounding_filters.list_option(conf)
        listed = [*names, *conf.filter_scheduler[option]]
        found.setdefault("filter_scheduler", {})[option] = listed
    for group, option in sorted(plugin_options.registered()):
        in_group = cfg.CONF if group == "DEFAULT" else cfg.CONF[group]
        found.setdefault(group, {})[option] = in_group[option]
    return found


@contextmanager
def deciding_by(conf: cfg.ConfigOpts) -> Iterator[BaseDriver]:
    """Yield the driver of a configuration that is not that of the process.

    Its plug-ins may read what decides from the configuration of the process, inside as well as they
    do in a scheduler. Raises PluginError, and ValueError for a wrong value of an option.
    """
    # For nothing but the options that plug-ins register when they are imported.
    plugins.load_driver(conf)
    with plugin_options.taken_from(conf, _ALWAYS):
        yield plugins.load_driver(conf)


def restored(settings: Settings) -> cfg.ConfigOpts:
    """Return a configuration in which nothing but these settings is given.

    No file and no variable of this machine is read. Raises ValueError for a value that is none.
    """
    conf = cfg.ConfigOpts()
    loading.prepare(conf)
    conf([], project="berthmaster", default_config_files=[], default_config_dirs=[], use_env=False)
    for group, values in settings.items():
        if not isinstance(values, Mapping):
            raise ValueError(f"the kept settings of [{group}] are none")
        for option, value in values.items():
            _set(conf, group, option, value)
    # The list that was kept is whole; of an older release it is what that has used.
    conf.set_override("bounded_resources", [], "claims")
    try:
        loading.check(conf)
    except loading.ConfigError as error:
        raise ValueError(f"kept settings cannot be used: {error}") from error
    return conf


def _asked_for(driver: BaseDriver) -> Iterator[tuple[str, str]]:
    """Yield the options, as (group, name) each, that a driver and its plug-ins ask for."""
    parts = [getattr(driver, attribute) for attribute, _, _ in driver.parts]
    plan = driver.plan
    for each in (driver, *parts, *plan.filters, *plan.request_filters, *plan.weighers):
        for _, group, option in (*each.options, *getattr(each, "parts", ())):
            yield group, option


def _set(conf: cfg.ConfigOpts, group: str, option: str, value: Any) -> None:
    in_group = None if group == "DEFAULT" else group
    try:
        try:
            conf.set_override(option, value, in_group)
        # Of a plug-in, or of another release.
        except (cfg.NoSuchOptError, cfg.NoSuchGroupError):
            conf.register_opt(cfg.Opt(option, type=_as_it_is), in_group)
            conf.set_override(option, value, in_group)
    # As the types of options fail with what is no text at all.
    except (AttributeError, TypeError, ValueError, cfg.Error) as error:
        raise ValueError(f"kept setting [{group}] {option} = {value!r}: {error}") from error


def _as_it_is(value: Any) -> Any:
    return value
