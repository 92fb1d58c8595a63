# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The settings saved with a decision, and a configuration made of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from oslo_config import cfg

from conf import filter_scheduler, loading, opts
from conf.private_apis import registered_options
from scheduler import plugins
from scheduler.drivers import BaseDriver

Settings = Mapping[str, Mapping[str, Any]]
# Options that no plug-in names; see scheduler.plugins and conf.service.
_ALWAYS = (
    ("scheduler", "driver"),
    *(("filter_scheduler", each.dest) for each in filter_scheduler.OPTS),
    ("DEFAULT", "report_interval"),
)


def given(conf: cfg.ConfigOpts, driver: BaseDriver) -> Settings:
    """Return {group: {option: value}} of the settings by which a driver decides.

    Of our own options only those that are set, of others, among them those that plug-ins have
    registered, all: a reader may not have them. Secrets are left out. The list of filters is the
    one in use, implied ones included.
    """
    ours = {(group, each.dest): each for group, listed in opts.list_opts() for each in listed}
    options = {**registered_options(conf), **ours}
    found: dict[str, dict[str, Any]] = {}
    for group, option in sorted({*_ALWAYS, *_named_by(driver)}):
        if (group, option) not in options or options[group, option].secret:
            continue
        if (group, option) not in ours or loading.is_given(conf, group, option):
            value = conf[option] if group == "DEFAULT" else conf[group][option]
            found.setdefault(group, {})[option] = value
    if names := plugins.implied_names(conf, driver.plan.filters):
        option = plugins.list_option(conf)
        listed = [*names, *conf.filter_scheduler[option]]
        found.setdefault("filter_scheduler", {})[option] = listed
    for group, option in sorted(plugins.third_party_options()):
        in_group = cfg.CONF if group == "DEFAULT" else cfg.CONF[group]
        found.setdefault(group, {})[option] = in_group[option]
    return found


@contextmanager
def deciding_by(conf: cfg.ConfigOpts) -> Iterator[BaseDriver]:
    """Yield the driver of a configuration that is not the one of the process.

    Inside, its plug-ins find these settings in the configuration of the process. Raises
    PluginError, and ValueError for a wrong value of an option.
    """
    # Plug-ins register options when they are imported.
    plugins.load_driver(conf)
    with plugins.overridden(conf, _ALWAYS):
        yield plugins.load_driver(conf)


def restored(settings: Settings) -> cfg.ConfigOpts:
    """Return a configuration of these settings only; raises ValueError for a wrong value.

    No file and no environment variable of this machine is read.
    """
    conf = cfg.ConfigOpts()
    loading.prepare(conf)
    conf([], project="berthmaster", default_config_files=[], default_config_dirs=[], use_env=False)
    for group, values in settings.items():
        if not isinstance(values, Mapping):
            raise ValueError(f"the saved settings of [{group}] are not settings")
        for option, value in values.items():
            _set(conf, group, option, value)
    # The saved list of filters is complete, also that of an older release.
    conf.set_override("bounded_resources", [], "claims")
    try:
        loading.check(conf)
    except loading.ConfigError as error:
        text = str(error).replace(" in the defaults", "")
        raise ValueError(f"saved settings cannot be used: {text}") from error
    return conf


def _named_by(driver: BaseDriver) -> Iterator[tuple[str, str]]:
    """Yield the (group, name) of the options that a driver and its plug-ins name."""
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
            conf.register_opt(cfg.Opt(option, type=lambda given: given), in_group)
            conf.set_override(option, value, in_group)
    # As the types of options fail with values that are not text.
    except (AttributeError, TypeError, ValueError, cfg.Error) as error:
        raise ValueError(f"saved setting [{group}] {option} = {value!r}: {error}") from error
