# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What commands have in common: the configuration, and arguments of the form KEY=VALUE."""

import argparse

from cliff.app import App
from oslo_config import cfg


def conf_of(app: App) -> cfg.ConfigOpts:
    """Return the configuration of a command's application."""
    conf: cfg.ConfigOpts = app.conf
    return conf


def pair(text: str) -> tuple[str, str]:
    """Return (key, value) of KEY=VALUE, for argparse."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value
