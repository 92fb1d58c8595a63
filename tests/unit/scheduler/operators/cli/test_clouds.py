# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Clouds that are named on the command line, in the environment and in the prompt."""

import os

import pytest
from oslo_config import cfg

from inventory import aggregates
from scheduler.operators.cli import app, clouds
from scheduler.operators.cli.clouds import VARIABLE
from tests.databases import serve
from tests.fixtures.terminal import Terminal

CLOUDS = """
[lab]
config_file = lab.conf
config_dir = lab.d
[prod]
config_file = ~/prod.conf,
    /etc/berthmaster/secrets.conf
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with a configuration that is read by default, and a directory for that of clouds."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    (home / ".berthmaster" / "berthmaster.conf.d").mkdir(parents=True)
    (home / ".config" / "berthmaster" / "lab.d").mkdir(parents=True)
    return home


@pytest.fixture
def unnamed(command):
    """The command without options of the program."""
    command.options = []
    return command


@pytest.fixture
def lab(home, unnamed):
    """The command with a file of clouds; lab is the one with the database of the test."""
    directory = home / ".config" / "berthmaster"
    (directory / "clouds.conf").write_text(CLOUDS)
    unnamed.config.rename(directory / "lab.conf")
    # Of another cloud, which may not get among the options of this one.
    usual = home / ".berthmaster" / "berthmaster.conf.d" / "usual.conf"
    usual.write_text("[database]\nconnection = sqlite:////nowhere/usual.sqlite\n")
    return unnamed


def test_a_name_stands_for_its_configuration_and_no_other(lab, database, monkeypatch):
    serve(database, "h1")
    (row,) = lab.json("--cloud=lab", "service", "list")
    assert row["Host"] == "h1"
    assert "/nowhere/usual.sqlite" in lab.refused("service", "list")
    monkeypatch.setenv(VARIABLE, "lab")
    assert [row["Host"] for row in lab.json("service", "list")] == ["h1"]
    assert lab.json("--cloud", "lab", "service", "list") == lab.json("service", "list")


@pytest.mark.parametrize("by_variable", [False, True])
def test_options_in_the_environment_are_of_no_named_cloud(lab, database, monkeypatch, by_variable):
    serve(database, "h1")
    other = {
        "OS_DATABASE__CONNECTION": "sqlite:////nowhere/production.sqlite",
        "OS_DEFAULT__TRANSPORT_URL": "rabbit://production//",
        "OS_CLAIMS__ENABLED": "false",
        "OS_CLOUD": "lab",
    }
    for name, value in other.items():
        monkeypatch.setenv(name, value)
    assert "/nowhere/production.sqlite" in lab.refused("service", "list")
    options = () if by_variable else ("--cloud=lab",)
    if by_variable:
        monkeypatch.setenv(VARIABLE, "lab")
    done = lab.run(*options, "aggregate", "create", "rack-1")
    assert done.stderr == (
        "OS_CLAIMS__ENABLED, OS_DATABASE__CONNECTION, OS_DEFAULT__TRANSPORT_URL of the environment"
        " are ignored: cloud lab has its own files\nChanging cloud lab.\n"
    )
    assert database.read(aggregates.everything)
    # Programs that a command starts get none of them either, and the account of OpenStack.
    assert not other.keys() - {"OS_CLOUD"} & os.environ.keys()
    assert os.environ["OS_CLOUD"] == "lab"


def test_what_the_command_sets_for_itself_stays(lab, database, monkeypatch):
    monkeypatch.setenv(clouds.QUEUE_NAMES, "false")
    assert "ignored" not in lab.run("--cloud=lab", "service", "list").stderr
    assert os.environ[clouds.QUEUE_NAMES] == "false"


def test_only_its_own_files_are_named_if_they_are_no_text(lab, home):
    directory = home / ".config" / "berthmaster"
    (directory / "clouds.conf").write_text("[lab]\nconfig_file = lab.conf\n")
    for file in (
        directory / "lab.conf",
        home / ".berthmaster" / "berthmaster.conf.d" / "usual.conf",
    ):
        file.write_bytes(b"[DEFAULT]\nhost = \xff\n")
    refused = lab.refused("--cloud=lab", "service", "list")
    assert f"{directory / 'lab.conf'}: save it as UTF-8" in refused
    assert "usual.conf" not in refused


def test_a_change_says_which_cloud_it_is_of(lab, database, home):
    done = lab.run("--cloud=lab", "aggregate", "create", "a")
    assert done.stderr == "Changing cloud lab.\n"
    assert lab.run("--cloud=lab", "aggregate", "list").stderr == ""
    own = f"--config-file={home / '.config' / 'berthmaster' / 'lab.conf'}"
    done = lab.run(own, "aggregate", "create", "b")
    assert done.stderr == "Changing a cloud that was not named with --cloud.\n"
    (home / ".config" / "berthmaster" / "clouds.conf").unlink()
    assert lab.run(own, "aggregate", "create", "c").stderr == ""
    assert {each.name for each in database.read(aggregates.everything)} == {"a", "b", "c"}


def test_clouds_are_listed_and_the_current_one_is_marked(lab, home):
    of_prod, of_lab = (
        [str(home / "prod.conf"), "/etc/berthmaster/secrets.conf"],
        [str(home / ".config" / "berthmaster" / name) for name in ("lab.conf", "lab.d")],
    )
    rows = lab.json("--cloud=prod", "cloud", "list")
    assert [(row["Name"], row["Current"], row["Configuration"]) for row in rows] == [
        ("lab", "", of_lab),
        ("prod", "*", of_prod),
    ]


def test_without_names_the_files_that_would_have_them_are_named(home, unnamed):
    done = unnamed.run("cloud", "list")
    assert done.status == 0
    assert f"no cloud has a name: there is neither {home}/.config/berthmaster/clouds.conf" in (
        done.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--cloud=la"], "there is no cloud 'la'; did you mean lab?"),
        (["--cloud=x"], "there is no cloud 'x'; see 'berthmaster cloud list'"),
        (["--cloud=lab", "--config-file=a.conf"], "since both name a configuration"),
    ],
)
def test_a_name_that_there_is_not(lab, arguments, text):
    assert text in lab.refused(*arguments, "service", "list")


def test_the_variable_is_named_where_it_is_to_blame(lab, monkeypatch):
    monkeypatch.setenv(VARIABLE, "lob")
    refused = lab.refused("service", "list")
    assert (
        refused
        == f"berthmaster: there is no cloud 'lob', which {VARIABLE} names; did you mean lab?"
    )


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[lab]\n", "cloud lab: the cloud needs config_file or config_dir"),
        ("[lab]\nconfig_fle = x\n", "no option 'config_fle'; did you mean config_file"),
        ("lab = x\n", "clouds.conf cannot be used: "),
    ],
)
def test_a_file_of_clouds_that_is_wrong(lab, home, text, wrong):
    (home / ".config" / "berthmaster" / "clouds.conf").write_text(text)
    refused = lab.refused("--cloud=lab", "service", "list")
    assert wrong in refused
    assert "\n" not in refused
    own = f"--config-file={home / '.config' / 'berthmaster' / 'lab.conf'}"
    done = lab.run(own, "aggregate", "create", "a")
    assert (done.status, wrong in done.stderr) == (0, True)


def test_shells_complete_names_of_clouds_and_names_in_a_cloud(lab, database):
    serve(database, "h1")

    def following(*words):
        return lab.run("complete", "words", "\n".join(["berthmaster", *words])).stdout.split()

    assert following("--cloud") == ["names", "lab", "prod"]
    assert following("--cloud", "lab", "host", "show") == ["names", "h1"]
    assert following("--cloud", "prod", "host", "show") == ["names"]


def test_the_prompt_has_the_cloud(lab, monkeypatch):
    with Terminal() as terminal:
        monkeypatch.setattr("sys.stdin", terminal.stream)
        program = app.BerthmasterApp(cfg.ConfigOpts())
        program.options = program.parser.parse_args(["--cloud=lab"])
        program.initialize_app([])
        shell = app._shell(program, program.command_manager, terminal.stream, terminal.stream)
    assert shell.prompt == "(berthmaster lab) "


def test_nothing_falls_back_in_silence(home, unnamed, monkeypatch):
    lines = unnamed.refused("service", "list").splitlines()
    assert lines[0].startswith(
        "berthmaster: there is no configuration file, so the defaults are used: "
    )
    assert "berthmaster.conf.d in ~/.berthmaster, ~, /etc/berthmaster, /etc; name" in lines[0]
    monkeypatch.setenv("OS_DATABASE__CONNECTION", "sqlite:////nowhere/x.sqlite")
    assert "no configuration" not in unnamed.refused("service", "list")
