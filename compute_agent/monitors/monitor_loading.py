# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Load the monitors of [DEFAULT] compute_monitors and read their metrics."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC
from importlib import metadata
from typing import Any

from oslo_config import cfg
from oslo_log import log

from compute_agent.monitors import Metric, Monitor
from compute_agent.virt.driver import Driver, DriverError, NodeName
from conf import loading
from conf.loading import ConfigError

LOG = log.getLogger(__name__)
NAMESPACE = "berthmaster.compute_agent.monitors"
# Before names in a nova.conf, as of kolla.
_NOVA = "nova.compute.monitors."


class Monitors:
    """The enabled monitors, none of which can fail an audit."""

    def __init__(self, monitors: Mapping[str, Monitor]) -> None:
        self._monitors = monitors
        # Why a monitor has no metrics of a node ("" if it has), and how many nodes share it.
        self._reasons: dict[tuple[str, NodeName], str] = {}
        self._nodes: Counter[tuple[str, str]] = Counter()

    def read(self, node: NodeName) -> list[dict[str, Any]]:
        """Return the metrics of a node for compute_nodes.metrics, ordered by name."""
        found: list[dict[str, Any]] = []
        for name, monitor in self._monitors.items():
            try:
                found += [_row(metric) for metric in monitor.metrics(node)]
            # A third party's may fail in any way.
            except Exception as error:
                self._note(name, node, error)
            else:
                self._note(name, node, None)
        return sorted(found, key=lambda each: (each["name"], each["source"]))

    def _note(self, name: str, node: NodeName, error: Exception | None) -> None:
        """Warn of a failure once for each reason, however many nodes share it."""
        reason = "" if error is None else str(error) or repr(error)
        before = self._reasons.get((name, node), "")
        if reason == before:
            return
        self._reasons[name, node] = reason
        self._nodes[name, before] -= 1
        self._nodes[name, reason] += 1
        if reason and self._nodes[name, reason] == 1:
            LOG.warning(
                "Monitor %s has no metrics of node %s: %s",
                name,
                node.node,
                reason,
                exc_info=None if isinstance(error, DriverError) else error,
            )


def _row(metric: Metric) -> dict[str, Any]:
    """Return a metric as JSON; raise for a value that JSON does not have, such as nan."""
    value, time = metric.value, metric.timestamp
    if not math.isfinite(value):
        raise ValueError(f"metric {metric.name} is {value}")
    if time.tzinfo is not None:
        time = time.astimezone(UTC).replace(tzinfo=None)
    return {
        "name": str(metric.name),
        # numpy's numbers, for one, are numbers that JSON does not know.
        "value": value if isinstance(value, int) else float(value),
        "timestamp": time.isoformat(timespec="microseconds"),
        "source": str(metric.source),
    }


def load(conf: cfg.ConfigOpts, driver: Driver) -> Monitors:
    """Return the configured monitors, of each kind the first.

    Raises ConfigError with one line that names the option, its value and what is installed.
    """
    full = [_full_name(conf, name) for name in conf.compute_monitors if name]
    names = _first_of_each(name for name in full if name)
    return Monitors({name: _make(conf, name, driver) for name in names})


def _full_name(conf: cfg.ConfigOpts, name: str) -> str:
    """Return the installed name, "" for a monitor that only Nova has.

    One without a dot may be of a monitor of the CPU, as in Nova.
    """
    short = name.removeprefix(_NOVA)
    for full in (short, f"cpu.{short}"):
        if full in metadata.entry_points(group=NAMESPACE).names:
            return full
    if short == name:
        raise _refused(conf, name, "there is no such monitor")
    LOG.warning(
        "Monitor %s of [DEFAULT] compute_monitors is a monitor of Nova, which cannot be used"
        " here: it is left out",
        name,
    )
    return ""


def _first_of_each(names: Iterable[str]) -> list[str]:
    """Return the names without those that measure what an earlier one does."""
    first: dict[str, str] = {}
    for name in dict.fromkeys(names):
        earlier = first.setdefault(name.partition(".")[0], name)
        if earlier != name:
            LOG.warning(
                "Monitor %s is not used: [DEFAULT] compute_monitors names %s first, and only one"
                " monitor of each kind can be used",
                name,
                earlier,
            )
    return list(first.values())


def _make(conf: cfg.ConfigOpts, name: str, driver: Driver) -> Monitor:
    try:
        found = metadata.entry_points(group=NAMESPACE)[name].load()
    except Exception as error:
        raise _refused(conf, name, f"it cannot be loaded: {error!r}") from error
    if not (isinstance(found, type) and issubclass(found, Monitor)):
        raise _refused(conf, name, f"it is no subclass of {Monitor.__module__}.{Monitor.__name__}")
    try:
        return found(conf, driver)
    except Exception as error:
        raise _refused(conf, name, f"it cannot be made: {error!r}") from error


def _refused(conf: cfg.ConfigOpts, name: str, why: str) -> ConfigError:
    where = loading.source(conf, "DEFAULT", "compute_monitors")
    installed = sorted(metadata.entry_points(group=NAMESPACE).names)
    return ConfigError(
        f"option [DEFAULT] compute_monitors = {name!r} in {where}: {why}"
        f" (installed: {', '.join(installed) or 'none'})"
    )
