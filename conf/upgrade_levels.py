# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options for the newest version of an RPC interface that callers use, as in Nova."""

import re

from oslo_config import cfg, types

# The releases that Nova's client knows by name; pike is the last.
RELEASES = {
    "grizzly": "2.6",
    "havana": "2.9",
    "icehouse": "3.0",
    "juno": "3.0",
    "kilo": "4.2",
    "liberty": "4.2",
    "mitaka": "4.3",
    "newton": "4.3",
    "ocata": "4.3",
    "pike": "4.4",
}
_NAMES = ", ".join(RELEASES)
AUTO = "auto"
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}", re.ASCII)


class Level(types.String):  # type: ignore[misc]  # oslo.config has no types
    """A version such as 4.3, the name of a release, or auto."""

    def __call__(self, value: object) -> str:
        text: str = super().__call__(value)
        if text and text != AUTO and text not in RELEASES and not _VERSION.fullmatch(text):
            raise ValueError(f"must be a version such as 4.4, {AUTO} or one of {_NAMES}")
        return text


OPTS = [
    cfg.Opt(
        "scheduler",
        type=Level(),
        sample_default="<none: the newest>",
        help=f"""
Newest version of the scheduler's RPC interface that callers may use: 4.0, 4.3, 4.4 or 4.5, a
release ({_NAMES}) or auto, which sets no limit.

The option is for callers: conductors, and our own command and client. Below 4.5, callers get
neither alternates nor zones; below 4.4, a request for several instances does not name the
instances. The option has no effect on the daemons: a scheduler answers all versions from 4.0 to
4.5.
""",
    )
]


def cap(conf: cfg.ConfigOpts) -> tuple[int, int] | None:
    """Return the newest version of the scheduler's interface to be used; None for any."""
    level = conf.upgrade_levels.scheduler
    if not level or level == AUTO:
        return None
    major, _, minor = RELEASES.get(level, level).partition(".")
    return int(major), int(minor)
