# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The concurrency backends under which tests run daemons: the default one, and the other."""

import pytest

DEFAULT, OTHER = "eventlet", "threading"
# `make test` takes the first, `make test-matrix` the second.
BACKENDS = [DEFAULT, pytest.param(OTHER, marks=pytest.mark.matrix)]
each_backend = pytest.mark.parametrize("backend", BACKENDS)
# Where no code of ours knows which one it is, the second is for `make test-release`.
ALIKE = [DEFAULT, pytest.param(OTHER, marks=pytest.mark.release)]
backends_alike = pytest.mark.parametrize("backend", ALIKE)
