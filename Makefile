# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
#
# One command each for trying Berthmaster out and for testing it. Needs GNU make, git and python3.

BIN := .venv/bin
STAMP := .venv/.installed
INSTALL := -m pip install --quiet --disable-pip-version-check
PIP := $(BIN)/python $(INSTALL) -c constraints.txt
# Nova is called by tests and benchmarks as what it is, a service of its own.
PEER := .venv-nova
PEER_STAMP := $(PEER)/.installed
# Each worker takes one file after the other and starts daemons of its own; 0 is one process for all.
# One more than there are cores on a small machine, since tests of daemons often wait for a timer.
WORKERS ?= 3
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# With RETRY set, as continuous integration does, tests that failed among others are tried once more,
# one by one: a machine that was too busy is no failure of theirs. Both runs are printed.
define run_tests
$(PYTEST) --cache-clear $(1) || { status=$$?; \
	[ $$status = 1 ] && [ -n "$(RETRY)" ] || exit $$status; \
	echo "tests: those that failed are tried once more, by themselves"; \
	$(BIN)/python -m pytest -x --last-failed --last-failed-no-failures=none $(1); }
endef
# What tests import takes seconds in each worker: folders without tests of a target are left out.
WITHOUT_BENCHMARKS := --ignore=tests/unit/benchmarks
OF_MATRIX := tests/contract tests/functional tests/simulation
AGAIN := @$(MAKE) --no-print-directory
# Containers often set it. Each worker would compile the product and rewrite all tests in every run.
export PYTHONDONTWRITEBYTECODE :=

# libvirt-python and mysqlclient are compiled on installation; without these that fails in a way that
# explains nothing.
CAN_BUILD = command -v gcc >/dev/null && \
	python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null
CAN_BUILD_LIBVIRT = pkg-config --exists libvirt 2>/dev/null && $(CAN_BUILD)
CAN_BUILD_MYSQLCLIENT = pkg-config --exists libmariadb 2>/dev/null && $(CAN_BUILD)
HAS_LIBVIRT = $(BIN)/python -c 'import libvirt' 2>/dev/null
HAS_MYSQLCLIENT = $(BIN)/python -c 'import MySQLdb' 2>/dev/null

.PHONY: help venv peer system-packages demo test test-matrix test-release lint types docs man dist wheels unit
.PHONY: functional bench chaos clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP) ## create .venv with Berthmaster and all that its tests need
	@if $(HAS_LIBVIRT); then :; \
	elif $(CAN_BUILD_LIBVIRT); then \
		echo "venv: adding libvirt-python"; $(PIP) -e '.[libvirt]'; \
	else \
		echo "venv: without libvirt-python, so without the libvirt driver:" \
			"its headers are missing, see 'make system-packages'"; \
	fi
	@if ! $(HAS_MYSQLCLIENT) && $(CAN_BUILD_MYSQLCLIENT); then \
		echo "venv: adding mysqlclient"; $(PIP) -e '.[mysqlclient]'; \
	fi

$(STAMP): setup.cfg setup.py pyproject.toml constraints.txt
	@echo "venv: installing Berthmaster and its dependencies"
	@python3 -m venv .venv
	@if $(CAN_BUILD_LIBVIRT); then $(PIP) -e '.[libvirt,test]'; else $(PIP) -e '.[test]'; fi
	@touch $@

peer: $(PEER_STAMP) ## create .venv-nova with the release of Nova that calls us in tests

$(PEER_STAMP): tests/peer/requirements.txt
	@echo "peer: installing Nova into an environment of its own"
	@python3 -m venv --clear $(PEER)
	@$(PEER)/bin/python $(INSTALL) -r $<
	@touch $@

system-packages: ## install what the tests run: RabbitMQ, MariaDB, Galera, libvirt, QEMU, browser, Prometheus (root)
	@tools/install-system-packages test

demo: ## place instances on a small cloud of this machine's making
	@tools/install-system-packages demo
	$(AGAIN) venv
	@$(BIN)/berthmaster demo

test: ## the gate: lint, types, docs, unit and functional tests
	@tools/install-system-packages test
	$(AGAIN) venv
	$(AGAIN) --jobs=2 --output-sync lint types docs
	$(AGAIN) peer
	$(call run_tests,-m "not matrix and not release" $(WITHOUT_BENCHMARKS))

test-matrix: ## the rest: the other backend and database, a whole Nova, storms, pages, benchmarks
	@tools/install-system-packages test
	$(AGAIN) venv
	$(AGAIN) peer
	$(call run_tests,-m "matrix and not release" $(OF_MATRIX))

test-release: ## before a release: packages, image, Ansible, second looks, 200 examples, long storms
	@tools/install-system-packages test
	$(AGAIN) venv
	$(AGAIN) peer
	$(PYTEST) -m "release or hypothesis" --hypothesis-profile=release
	$(AGAIN) chaos MINUTES=6

lint: venv ## style, formatting, the floors of the house, the sample configuration
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	PATH="$(CURDIR)/$(BIN):$$PATH" tools/check-sample-config

types: venv ## mypy
	$(BIN)/mypy

# Pages that are made from the program say what it was when they were read, so all are read anew.
SPHINX = $(BIN)/sphinx-build -q -W -n -d build/doc/doctrees
docs: venv ## the pages and the man pages, into build/doc; what Sphinx warns of is an error
	@command -v dot >/dev/null || \
		{ echo "docs: graphviz, which draws the diagrams, is missing: see 'make system-packages'"; exit 1; }
	$(SPHINX) -E -b html doc/source build/doc/html
	$(SPHINX) -b man doc/source build/doc/man
	@echo "docs: build/doc/html/index.html, and for man -l: $$(echo build/doc/man/*.[1-9])"

man: venv ## the man pages alone
	$(SPHINX) -E -b man doc/source build/doc/man

# What setuptools has left of an earlier tree would go into the wheel as well. The man pages are the
# program's, so an isolated build could not make them.
dist: venv ## the sdist and the wheel with the man pages, into dist
	rm -rf build/lib build/bdist.* doc/man dist
	$(SPHINX) -E -b man doc/source doc/man
	$(BIN)/pyproject-build --no-isolation --outdir dist

wheels: dist ## Berthmaster and all that it needs: build/wheels for the image, its archive in dist for Ansible
	rm -rf build/wheels
	$(BIN)/python -m pip --quiet --disable-pip-version-check wheel -c constraints.txt \
		-w build/wheels "$$(echo dist/berthmaster-*.whl)[libvirt]"
	tar -cf "$$(echo dist/berthmaster-*.tar.gz | sed 's/\.tar\.gz$$/-wheels.tar/')" -C build/wheels .
	@ls dist/*-wheels.tar

unit: venv ## of the gate, the tests that need no daemon, in all folders
	$(PYTEST) -m "not daemons and not matrix and not release" $(WITHOUT_BENCHMARKS) tests

functional: venv peer ## of the gate, those against real brokers, databases, hypervisors and processes
	$(PYTEST) -m "not matrix and not release" tests/functional

QUICK ?=
RESULT = benchmarks/results/$(if $(QUICK),quick,latest).json
bench: ## all that was promised of speed, measured beside Nova; QUICK=1 takes smaller fleets
	@tools/install-system-packages test
	$(AGAIN) venv
	$(AGAIN) peer
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick); status=$$?; \
	$(BIN)/python -m benchmarks.chart $(RESULT) && $(BIN)/python -m benchmarks.check $(RESULT) && \
		exit $$status

SEED ?= 1
MINUTES ?= 6
STORMS ?=
chaos: ## storms while things break, each for MINUTES=6 from SEED=1 on; STORMS="zones galera": only these
	@tools/install-system-packages test
	$(AGAIN) venv
	$(BIN)/python -m benchmarks.storm --seed $(SEED) --minutes $(MINUTES) $(if $(STORMS),--storms $(STORMS))

clean: ## remove .venv and everything else that was made
	rm -rf .venv $(PEER) build dist doc/man *.egg-info .coverage .hypothesis .pytest_cache .mypy_cache .ruff_cache
	rm -rf .import_linter_cache .tox "$${XDG_CACHE_HOME:-$$HOME/.cache}/berthmaster-tests"
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
