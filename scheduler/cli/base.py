# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What commands have in common: the configuration and the database it names."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from cliff.app import App
from oslo_config import cfg

from inventory import migrations
from inventory.engine import Database, open_database


def conf_of(app: App) -> cfg.ConfigOpts:
    """Return the configuration of a command's application."""
    conf: cfg.ConfigOpts = app.conf
    return conf


@contextmanager
def database_of(app: App, check: bool = True) -> Iterator[Database]:
    """Yield the configured database.

    Raises DatabaseUnavailable, and SchemaError unless check is off.
    """
    database = open_database(conf_of(app))
    try:
        if check:
            migrations.check(database)
        yield database
    finally:
        database.close()


def pair(text: str) -> tuple[str, str]:
    """Return (key, value) of KEY=VALUE, for argparse."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value
