# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of explain and decision replay where a plug-in reads options of its own, as Nova's do."""

import sys

import pytest
from oslo_config import cfg

from conf import loading
from tests.databases import a_node, save, serve
from tests.fixtures.keeping import KeepingScheduler

# As the guide for authors of plug-ins teaches it.
PLUGIN = """
from oslo_config import cfg
from scheduler.filters import BaseHostFilter

CONF = cfg.CONF
CONF.register_opts(
    [cfg.IntOpt("least", default=0), cfg.StrOpt("password", secret=True, default="")], group="roomy"
)

class Roomy(BaseHostFilter):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.at_first = CONF.roomy.least

    def host_passes(self, host, spec):
        assert self.at_first == CONF.roomy.least
        return host.free_ram_mb >= CONF.roomy.least and host.host not in (
            CONF.filter_scheduler.isolated_hosts
        )
"""
NAMED = "enabled_filters = roomy.Roomy\n"


@pytest.fixture
def process_conf(monkeypatch, tmp_path):
    """The configuration of the process, with a plug-in on the path."""
    (tmp_path / "roomy.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    # Another test of this process may have read a configuration of its own.
    cfg.CONF.reset()
    yield cfg.CONF
    cfg.CONF.reset()
    options = [info["opt"] for info in cfg.CONF._groups["roomy"]._opts.values()]
    cfg.CONF.unregister_opts(options, group="roomy")
    del sys.modules["roomy"]


@pytest.fixture
def saved(process_conf, database, command, tmp_path):
    """The file of a decision for h1, made where a host needed 3000 MB; h2 would be better."""
    for host, mb in {"h1": 4096, "h2": 8192, "h3": 2048}.items():
        save(database, a_node(host, memory_mb=8192, free_ram_mb=mb))
    serve(database, "h1", "h2", "h3")
    scheduler = tmp_path / "scheduler.conf"
    text = f"[filter_scheduler]\n{NAMED}isolated_hosts = h2\n[roomy]\nleast = 3000\npassword = x\n"
    scheduler.write_text(command.config.read_text() + text)
    loading.read(process_conf, "berthmaster", [f"--config-file={scheduler}"], "")
    with KeepingScheduler(database, process_conf) as deciding:
        assert deciding.ask("one") == ["h1"]
    # From here on it is another process, with a configuration of its own.
    process_conf.reset()
    process_conf.clear()
    path = tmp_path / "one.json"
    assert command.run("decision", "save", "req-one", str(path)).status == 0
    return str(path)


def test_a_decision_is_made_again_with_the_options_of_that_time(command, saved):
    done = command.run("decision", "replay", saved)
    assert (done.status, done.stderr) == (0, ""), done
    assert "the same decision with the settings of that time, to the last bit" in done.stdout
    found = command.json("explain", "req-one")
    assert found["same"] is True
    assert found["explanation"]["reasons"] == {"Roomy": 2}


def test_secrets_are_not_kept(command, saved):
    with open(saved) as file:
        assert "password" not in file.read()


def test_other_options_may_be_given(command, saved, tmp_path):
    other = tmp_path / "other.conf"
    other.write_text(f"[filter_scheduler]\n{NAMED}[roomy]\nleast = 5000\n")
    done = command.run("decision", "replay", saved, "--config-file", str(other))
    assert done.status == 1
    assert "h1 is refused: Roomy" in done.stdout
    assert " | h2 " in done.stdout
    # What is not given there is the default, whatever this machine has.
    other.write_text(f"[filter_scheduler]\n{NAMED}isolated_hosts = h1,h2\n")
    done = command.run("decision", "replay", saved, "--config-file", str(other))
    assert " | h3 " in done.stdout
    assert cfg.CONF.roomy.least == 0


def test_a_wrong_value_is_named_with_its_file(command, saved, tmp_path):
    other = tmp_path / "other.conf"
    other.write_text(f"[filter_scheduler]\n{NAMED}[roomy]\nleast = few\n")
    refused = command.refused("decision", "replay", saved, "--config-file", str(other))
    assert refused.startswith(f"option [roomy] least = 'few' in {other}: ")
