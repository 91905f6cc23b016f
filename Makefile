# One word per task; the presets in CMakePresets.json do the work. `make help` lists the targets.
.DEFAULT_GOAL := build
.NOTPARALLEL:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

PRESET ?= release
PREFIX ?= /usr/local
# Test labels, for example: make test LABEL=unit
LABEL ?=
JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

build/%/build.ninja: CMakePresets.json
	cmake --preset $*

.PHONY: build
build: bootstrap build/$(PRESET)/build.ninja ## build applications and libraries into build/release/bin (default)
	cmake --build --preset $(PRESET)

.PHONY: run
run: build ## two daemons, one domain: two processes share memory; prints what happened and how fast
	scripts/run build/$(PRESET)/bin

.PHONY: test
test: bootstrap-test build/dev/build.ninja ## build and run all tests (LABEL=unit for some)
	cmake --build --preset dev
	ctest --preset dev $(if $(LABEL),-L '^($(LABEL))$$')

.PHONY: soak
soak: bootstrap-test build/dev/build.ninja ## random operations and faults for ten minutes, litmus tests of 10^7 rounds
	cmake --build --preset dev
	ctest --test-dir build/dev -L '^soak$$' --verbose

.PHONY: bench
bench: build ## measure; JSON lines in bench/results/
	scripts/bench build/$(PRESET)/bin

.PHONY: format
format: bootstrap-dev ## clang-format the sources in place
	scripts/format

.PHONY: lint
lint: bootstrap-dev build/dev/build.ninja ## format check, clang-tidy and header checks on what changed
	scripts/lint

.PHONY: asan tsan fuzz thread-safety tidy
asan tsan fuzz thread-safety tidy: bootstrap-dev ## the workflow preset of that name
	cmake --workflow --preset $@

.PHONY: coverage
coverage: bootstrap-dev ## unit and sim tests with coverage; report in build/coverage/report/
	cmake --workflow --preset coverage
	mkdir -p build/coverage/report
	gcovr --root . --filter src/ --exclude '.*_test\.cpp' --exclude-throw-branches \
	  --html-details build/coverage/report/index.html --print-summary build/coverage

.PHONY: docs
docs: build ## regenerate the reference pages from the built programs
	cmake --build --preset $(PRESET) --target docs

.PHONY: install
install: build ## install under PREFIX (/usr/local)
	cmake --install build/$(PRESET) --prefix $(PREFIX)

.PHONY: clean
clean: ## remove every build directory (the compiler cache stays)
	rm -rf build

.PHONY: bootstrap bootstrap-test bootstrap-dev
bootstrap:
	@scripts/bootstrap
bootstrap-test:
	@scripts/bootstrap --test
bootstrap-dev:
	@scripts/bootstrap --dev

.PHONY: help
help: ## this table
	@awk -F ':.*## ' '/^[a-z][a-z -]*:.*## / {printf "  %-38s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
