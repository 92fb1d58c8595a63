# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that asks running schedulers and agents for their configuration."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from uuid import uuid4

import sqlalchemy as sa

from conf.plain_text import escaped
from conf.settings_in_effect import BY_DEFAULT
from inventory import daemon_facts, services
from inventory.errors import NotFound, counted, nearest, some
from scheduler.operators.cli.arguments import add_flag, add_named, add_timeout
from scheduler.operators.cli.base import ListCommand, list_rows
from scheduler.operators.cli.table_format import Worded, titled
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoAnswer, SchedulerFailure

COLUMNS = titled("binary hosts group option value set_by")
SCHEDULER, AGENT = services.SCHEDULER[0], services.COMPUTE[0]
# The group of the lists of plug-ins, which are no options.
IN_USE = "in use"
# Services that are asked at the same time.
CONCURRENT = 16
# Reasons for which services have not answered, in lines of their own.
MAX_REASONS = 10
# Without the name of the service, so that thousands share a line.
NO_ANSWER = (
    "no answer: check that the service runs, with the transport_url and control_exchange of this"
    " command"
)
# Options in which schedulers that decide alike differ.
_OWN = {("DEFAULT", name) for name in ("host", "my_ip", "config_file", "config_dir", "log_file")}


class Setting(NamedTuple):
    """An option, or a list of plug-ins; value is JSON."""

    group: str
    option: str
    value: str
    set_by: str


class Service(NamedTuple):
    """A process to ask, by its binary and the name by which it is called."""

    binary: str
    host: str


class ConfigShow(ListCommand):
    """Show the configuration that running schedulers and agents use, and where each value was set.

    The processes themselves are asked, not the files on this machine. Passwords are not shown. An
    agent of many hosts is asked once. Services with the same value share a row. Options in which
    schedulers differ are named on standard error. The exit status is 1 if a service has not
    answered.
    """

    titles = COLUMNS

    def add_arguments(self, parser: Any) -> None:
        add_flag(parser, "--changed", "Leave out options that nothing has set.")
        what = (
            f"Services to ask: a binary ({SCHEDULER} or {AGENT}), a host, or BINARY/HOST"
            " (default: all that are up)."
        )
        add_named(parser, "--service", "service hosts", what, metavar="NAME")
        add_timeout(parser)

    def run(self, args: Any) -> int:
        """Print the rows; return 1 if they are not those of all services."""
        self._silent: dict[str, list[str]] = defaultdict(list)
        return int(super().run(args)) or int(bool(self._silent))

    def take_action(self, args: Any) -> tuple[Any, Any]:
        wanted = self.read(_running, self.liveness_limit, args.service)
        found = self._ask(wanted, args.timeout)
        for reason, names in [*self._silent.items()][:MAX_REASONS]:
            self.app.stderr.write(f"{escaped(f'{some(names)}: {reason}')}\n")
        if (more := len(self._silent) - MAX_REASONS) > 0:
            self.app.stderr.write(f"{counted(more, 'service')} failed for other reasons\n")
        for line in _differences(found):
            self.app.stderr.write(f"{escaped(line)}\n")
        return list_rows(COLUMNS, _rows(found, args.changed))

    def _ask(self, wanted: Sequence[Service], timeout: float) -> dict[Service, list[Setting]]:
        """Return the settings of the services that answer; keep the reasons of the others."""
        from scheduler.client.agent_client import AgentClient
        from scheduler.client.scheduler_client import SchedulerClient
        from scheduler.messaging.messaging_options import checked_transport

        transport = checked_transport(self.conf)
        agents = AgentClient(self.conf, transport, is_hasty=True)
        schedulers = SchedulerClient(self.conf, transport)
        caller = RequestContext(request_id=f"req-{uuid4()}", is_admin=True)
        ask: dict[str, Callable[[str], Any]] = {
            AGENT: lambda host: agents.call(caller, host, "config_show", timeout),
            SCHEDULER: lambda host: schedulers.config_show(caller, host, timeout),
        }

        # Nearly all are the same in thousands of services.
        known: dict[Setting, Setting] = {}

        def answer(service: Service) -> Any:
            try:
                answered = _settings(ask[service.binary](service.host))
                return [known.setdefault(each, each) for each in answered]
            except SchedulerFailure as error:
                return error

        def answers() -> list[Any]:
            with ThreadPoolExecutor(CONCURRENT) as pool:
                return [*pool.map(answer, wanted)]

        rounds = -(-len(wanted) // CONCURRENT)
        every = self.wait_for("schedulers and agents", timeout * rounds, agents, answers)
        found = {}
        for service, each in zip(wanted, every, strict=True):
            if isinstance(each, SchedulerFailure):
                reason = NO_ANSWER if isinstance(each, NoAnswer) else each.reason
                self._silent[reason].append("/".join(service))
            else:
                found[service] = each
        return found


def _running(connection: sa.Connection, limit: float, wanted: str | None) -> list[Service]:
    """Return the services that are up, or those of them that a text names; else raise NotFound."""
    rows = [row for row in services.all_live(connection) if row.binary in (SCHEDULER, AGENT)]
    up = {
        Service(row.binary, row.host): Service(row.binary, daemon_facts.caller_name(row))
        for row in rows
        if services.is_up(row, limit)
    }
    if wanted is None:
        if not up:
            raise NotFound("no scheduler and no agent is up; see 'service list'")
        return [*dict.fromkeys(up.values())]
    found = dict.fromkeys(
        called
        for named, called in up.items()
        if wanted in (*named, *called, "/".join(named), "/".join(called))
    )
    binary, _, host = wanted.partition("/")
    if not found and binary == AGENT and host:
        # The name of an agent of several hosts need not be that of one of them.
        return [Service(AGENT, host)]
    if not found:
        known = {name for row in rows for name in (row.binary, row.host)}
        hint = nearest(wanted, known, "see 'service list'")
        raise NotFound(f"no service {wanted!r} is up; {hint}")
    return [*found]


def _settings(answer: Mapping[str, Any]) -> Iterator[Setting]:
    """Yield the plug-ins in use that are in an answer, and the settings."""
    for kind, names in answer.get("in_use", {}).items():
        yield Setting(IN_USE, kind, json.dumps(names), "")
    for each in answer["settings"]:
        value = json.dumps(each["value"], sort_keys=True)
        yield Setting(each["group"], each["option"], value, each["set_by"])


def _rows(found: Mapping[Service, Iterable[Setting]], changed: bool) -> Iterator[dict[str, Any]]:
    """Yield a row for each value of an option, with all hosts that have it."""
    hosts: dict[tuple[str, Setting], list[str]] = defaultdict(list)
    for (binary, host), settings in found.items():
        for each in settings:
            if not (changed and each.set_by == BY_DEFAULT):
                hosts[binary, each].append(host)
    # Schedulers first, and their plug-ins before their options.
    for key in sorted(hosts, key=lambda key: (key[0] != SCHEDULER, key[1].group != IN_USE, key)):
        binary, setting = key
        yield {
            "binary": binary,
            "hosts": Worded(hosts[key], some),
            **setting._asdict(),
            "value": Worded(json.loads(setting.value), _as_in_a_file),
        }


def _differences(found: Mapping[Service, Iterable[Setting]]) -> Iterator[str]:
    """Yield a line for each option that schedulers have with different values."""
    values: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (binary, host), settings in found.items():
        for each in settings if binary == SCHEDULER else ():
            shown = _as_in_a_file(json.loads(each.value))
            values[each.group, each.option][shown].append(host)
    for (group, option), hosts in values.items():
        if len(hosts) > 1 and (group, option) not in _OWN:
            texts = (f"{value or 'nothing'} on {some(names)}" for value, names in hosts.items())
            yield f"schedulers differ in [{group}] {option}: {'; '.join(texts)}"


def _as_in_a_file(value: Any) -> str:
    match value:
        case None:
            return ""
        case list():
            return ",".join(map(str, value))
        case dict():
            return ",".join(f"{key}:{each}" for key, each in value.items())
    return str(value)
