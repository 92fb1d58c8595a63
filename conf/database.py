# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Defaults of the [database] options that oslo.db owns."""

from oslo_config import cfg
from oslo_db import options

EMBEDDED = "sqlite:///$state_path/berthmaster.sqlite"


def register_opts(conf: cfg.ConfigOpts) -> None:
    options.set_defaults(conf, connection=EMBEDDED)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return []
