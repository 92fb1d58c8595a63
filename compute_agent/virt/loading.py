# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From the name in [DEFAULT] compute_driver to a driver."""

from importlib import metadata

from oslo_config import cfg
from oslo_utils import importutils
from stevedore import named

from compute_agent.virt.driver import Driver, DriverError, DriverMisconfigured

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

    Raises DriverMisconfigured with one line that names the option, its value and the choices.
    """
    name = conf.compute_driver
    found = _installed(NOVA_NAMES.get(name, name)) or _from_path(name)
    if not (isinstance(found, type) and issubclass(found, Driver)):
        raise _refused(name, f"it is no subclass of {Driver.__module__}.{Driver.__name__}")
    try:
        return found(conf)
    except DriverError:
        raise
    except Exception as error:
        raise _refused(name, f"it cannot be made: {error!r}") from error


def choices() -> list[str]:
    """Return the names of the installed drivers."""
    return sorted(entry.name for entry in metadata.entry_points(group=NAMESPACE))


def _installed(name: str) -> object | None:
    manager = named.NamedExtensionManager(
        NAMESPACE,
        [name],
        on_load_failure_callback=_broken,
        on_missing_entrypoints_callback=lambda _missing: None,
    )
    return next((extension.plugin for extension in manager), None)


def _broken(_manager: object, entry: metadata.EntryPoint, error: BaseException) -> None:
    raise _refused(entry.name, f"it cannot be loaded: {error!r}")


def _from_path(path: str) -> object:
    if "." not in path:
        raise _refused(path, "there is no such driver")
    try:
        found: object = importutils.import_class(path)
    except ImportError as error:
        raise _refused(path, "there is no such driver or class") from error
    except Exception as error:
        raise _refused(path, f"it cannot be loaded: {error!r}") from error
    return found


def _refused(name: str, why: str) -> DriverMisconfigured:
    return DriverMisconfigured(
        f"option [DEFAULT] compute_driver = {name!r}: {why} "
        f"(installed: {', '.join(choices()) or 'none'}; or the dotted path of a class)"
    )
