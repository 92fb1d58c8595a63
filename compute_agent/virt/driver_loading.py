# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Load the driver of [DEFAULT] compute_driver."""

from importlib import metadata

from oslo_config import cfg
from oslo_utils import importutils

from compute_agent.virt.driver import Driver, DriverError, DriverMisconfigured
from conf import loading

NAMESPACE = "berthmaster.compute_agent.virt"
# What a nova.conf says, up to the release that asked for the whole path.
NOVA_NAMES = {
    "libvirt.LibvirtDriver": "libvirt",
    "nova.virt.libvirt.LibvirtDriver": "libvirt",
    "fake.FakeDriver": "fake",
    "nova.virt.fake.FakeDriver": "fake",
}


def load(conf: cfg.ConfigOpts) -> Driver:
    """Return the configured driver, which connects nothing yet.

    Raises DriverMisconfigured with one line that names option, value, file and choices.
    """
    name = conf.compute_driver
    found = _find(conf, name)
    if not (isinstance(found, type) and issubclass(found, Driver)):
        raise _refused(conf, name, f"it is no subclass of {Driver.__module__}.{Driver.__name__}")
    try:
        return found(conf)
    except DriverError:
        raise
    except Exception as error:
        raise _refused(conf, name, f"it cannot be made: {error!r}") from error


def _find(conf: cfg.ConfigOpts, name: str) -> object:
    """Return what an installed driver's name, or else a dotted path, stands for."""
    installed = metadata.entry_points(group=NAMESPACE, name=NOVA_NAMES.get(name, name))
    if not installed and "." not in name:
        raise _refused(conf, name, "there is no such driver")
    try:
        found: object = (
            next(iter(installed)).load() if installed else importutils.import_class(name)
        )
    except Exception as error:
        if isinstance(error, ImportError) and not installed:
            raise _refused(conf, name, "there is no such driver or class") from error
        raise _refused(conf, name, f"it cannot be loaded: {error!r}") from error
    return found


def _refused(conf: cfg.ConfigOpts, name: str, why: str) -> DriverMisconfigured:
    where = loading.source(conf, "DEFAULT", "compute_driver")
    installed = sorted(metadata.entry_points(group=NAMESPACE).names)
    return DriverMisconfigured(
        f"option [DEFAULT] compute_driver = {name!r} in {where}: {why} "
        f"(installed: {', '.join(installed) or 'none'}; or the dotted path of a class)"
    )
