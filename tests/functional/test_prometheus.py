# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The dashboard and the rules, in a real Prometheus that scrapes both daemons."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
import yaml
from oslo_config import cfg

from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import INSTANCE, a_request
from tests.fixtures import availability
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.ports import free_ports
from tests.fixtures.daemons.process import PATIENCE, Guard, search_path, wait_until
from tests.fixtures.daemons.prometheus import Prometheus
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment
from tests.fixtures.shown_fleet import ShownFleet, host_names
from tests.fixtures.status_page import StatusPage
from tests.status_tables import documented

TREE = Path(__file__).parents[2]
RULES = TREE / "etc" / "prometheus" / "berthmaster.rules.yml"
DASHBOARD = TREE / "etc" / "grafana" / "berthmaster.json"
RULE_TESTS = TREE / "tests" / "fixtures" / "prometheus" / "rules_test.yml"
SECOND = {"report_interval": 1, "update_resources_interval": 1}
# What a query reads: a metric of ours or of every process, with the conditions on its labels.
SELECTOR = re.compile(r"\b((?:\w+:)?berthmaster_\w+(?::\w+)?|up|process_\w+)\b(\{[^}]*\})?")
# The labels by which it sums up.
BY = re.compile(r"\bby \(([^)]*)\)")
# What Grafana fills in.
VARIABLES = {"$__rate_interval": "30s", "$zone": ".*"}
# An agent that reads Nova has these; see the page.
NOVA = "berthmaster_nova_"


@pytest.fixture(scope="module")
def prometheus(
    rabbitmq: RabbitMQ, mariadb: MariaDB, schema: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """A server that has seen both daemons, one request that was placed and one that was not."""
    availability.require(availability.PROMETHEUS)
    directory = tmp_path_factory.mktemp("watched")
    url = mariadb.copy_database(schema, directory.name)
    ours, theirs = map(StatusPage, free_ports(2))
    with Guard() as guard:
        deployment = Deployment(directory, guard, rabbitmq.transport_url, url)
        agent = {"DEFAULT": {"compute_driver": "fake", **SECOND}, **theirs.options}
        deployment.agent(options=agent, name="compute")
        deployment.scheduler(options=ours.options)
        assert all(wait_until(page.is_healthy) for page in (ours, theirs))
        jobs = {"berthmaster-scheduler": ours.port, "berthmaster-agent": theirs.port}
        with Prometheus(directory / "prometheus", jobs, RULES) as server:
            _ask(rabbitmq.transport_url)
            yield server


def _ask(url: str) -> None:
    """Ask for an instance that fits, and for one that does not."""
    oslo_messaging.set_transport_defaults("nova")
    cfg.CONF([], project="berthmaster")
    client = SchedulerClient(cfg.CONF, oslo_messaging.get_rpc_transport(cfg.CONF, url=url))
    try:
        for vcpus in (1, 10_000):
            try:
                spec = a_request(vcpus=vcpus)
                client.select_destinations(RequestContext(), spec, [INSTANCE], timeout=PATIENCE)
            except NoValidHost:
                assert vcpus > 1
    finally:
        client.close()
        cfg.CONF.reset()


def promtool(*arguments: object) -> str:
    """Return what promtool says; it must succeed."""
    availability.require(availability.PROMETHEUS)
    command = ["promtool", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PATH": search_path()}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules() -> dict[str, dict[str, Any]]:
    """Return the rules of the file by their names."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule.get("alert") or rule["record"]: rule for each in groups for rule in each["rules"]}


def queries() -> dict[str, str]:
    """Return the queries of the dashboard by panel, as Grafana would send them."""
    dashboard = json.loads(DASHBOARD.read_text())
    found = {}
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            found[f"{panel['title']} {target['refId']}"] = text
    return found


def test_the_rules_are_well_formed() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", RULES)


def test_the_metrics_of_a_scheduler_are_well_formed(tmp_path: Path, rabbitmq: RabbitMQ) -> None:
    availability.require(availability.PROMETHEUS)
    page = StatusPage(free_ports(1)[0])
    with closing(ShownFleet(tmp_path)) as fleet, Guard() as guard:
        fleet.add_hosts(host_names(3))
        deployment = Deployment(tmp_path, guard, rabbitmq.transport_url, fleet.url)
        deployment.scheduler("eventlet", page.options)
        assert wait_until(
            lambda: "berthmaster_agents_audit_age_seconds{" in page.get("/metrics")[2]
        )
        text = page.get("/metrics")[2]
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": search_path()},
    )
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0


def test_each_alert_fires_when_it_should_and_is_silent_when_all_is_well(tmp_path: Path) -> None:
    copy = tmp_path / "rules_test.yml"
    copy.write_text(RULE_TESTS.read_text().replace("RULES", str(RULES)))
    promtool("test", "rules", copy)
    alerts = {name for name, rule in rules().items() if "alert" in rule}
    assert {name for name in alerts if name not in RULE_TESTS.read_text()} == set()


@pytest.mark.matrix
def test_each_query_of_the_dashboard_returns_series(prometheus: Prometheus) -> None:
    found = queries()
    assert len(found) > 40
    assert not [text for text in found.values() if "$" in text]

    def empty() -> list[str]:
        return [panel for panel, text in found.items() if not prometheus.query(text)]

    assert wait_until(lambda: not empty()), empty()


@pytest.mark.matrix
def test_what_queries_name_exists(prometheus: Prometheus) -> None:
    texts = {**queries(), **{name: rule["expr"] for name, rule in rules().items()}}
    recorded = [name for name in rules() if ":" in name]
    assert wait_until(lambda: all(map(prometheus.series, recorded)))
    for place, text in texts.items():
        selectors = ["".join(each) for each in SELECTOR.findall(text)]
        assert selectors, place
        if selectors[0].startswith(NOVA):
            names = documented("agent that reads Nova")
            assert all(each in names for each in selectors), place
            continue
        labels: set[str] = set()
        for selector in selectors:
            series = prometheus.series(selector)
            assert series, f"{place}: nothing has {selector}"
            labels.update(*series)
        for group in BY.findall(text):
            assert {name.strip() for name in group.split(",")} <= labels, f"{place}: by ({group})"


@pytest.mark.matrix
def test_rules_are_evaluated_and_nothing_fires_where_all_is_well(prometheus: Prometheus) -> None:
    # One of the two requests has found no host, which is half of them, and yet no reason to wake
    # somebody.
    def nothing_fires() -> bool:
        rules = prometheus.rules()
        # Before the first look at the daemons those that need an answer are pending.
        active = [name for name, each in rules.items() if each.get("alerts")]
        return not active and all(rule["health"] == "ok" for rule in rules.values())

    assert wait_until(nothing_fires), prometheus.rules()


@pytest.mark.matrix
def test_an_alert_of_a_metric_that_is_not_there_would_be_noticed(prometheus: Prometheus) -> None:
    assert wait_until(partial(prometheus.series, "berthmaster_hosts"))
    assert prometheus.series("berthmaster_no_such_metric") == []
    assert prometheus.series('berthmaster_hosts{state="no such state"}') == []
