# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The script that makes the accounts at RabbitMQ, with a rabbitmqctl that says what it is told."""

import subprocess
from pathlib import Path

import pytest

from tests.fixtures import documented

SCRIPT = (documented.SOURCE / "admin" / "accounts.sh").read_text()
# Knows one account, with another password.
RABBITMQCTL = r"""
rabbitmqctl() {
    test "$1" = -q && shift || echo "Doing $1 ..."
    case "$*" in
    list_users) printf 'user\ttags\nberthmaster_agent\t[]\n'; return 0 ;;
    authenticate_user*) return 1 ;;
    esac
    echo "$1 $2" >>"$CALLS"
    test "$1" != add_user || echo "Done. Don't forget to grant the user permissions"
    test "$1" != "$REFUSED" || { echo "refused for a reason" >&2; return 70; }
}
"""


def run(calls: Path, refused: str) -> subprocess.CompletedProcess[str]:
    """Run the script as the role of Ansible does, through the standard input."""
    return subprocess.run(
        ["sh"],
        input=RABBITMQCTL + SCRIPT,
        env={"PATH": "/usr/bin:/bin", "REFUSED": refused, "CALLS": str(calls)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_accounts_are_made_or_get_their_password_quietly(tmp_path):
    done = run(tmp_path / "calls", "nothing")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "calls").read_text().splitlines() == [
        "add_user berthmaster_scheduler",
        "set_permissions berthmaster_scheduler",
        "change_password berthmaster_agent",
        "set_permissions berthmaster_agent",
        "add_user berthmaster",
        "set_permissions berthmaster",
    ]


@pytest.mark.parametrize("refused", ["add_user", "change_password", "set_permissions"])
def test_the_script_stops_where_an_account_cannot_be_made(refused, tmp_path):
    done = run(tmp_path / "calls", refused)
    assert done.returncode == 70
    assert (tmp_path / "calls").read_text().splitlines()[-1].startswith(refused)
    assert done.stderr == "refused for a reason\n"
