# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Entry for tools that still call setup.py; everything is said in setup.cfg."""

from setuptools import setup

setup()
