# The two commands, and what developers need beside them. `make tune ARGS="--model DIR --workload chat"` passes options through.
# Everything is built with CMake (CMakePresets.json) below build/.
ARGS ?=
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 300
JOBS ?= $(shell nproc)

SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help tune test bundle install dev tsan tidy format fuzz packages release configure-% clean

help:
	@echo 'make tune [ARGS="--model DIR --workload chat"]   build what is missing, search, measure, recommend'
	@echo 'make test                                       build and run every test'
	@echo 'make install [PREFIX=/usr/local] [DESTDIR=]     program and data'
	@echo 'make bundle                                     build/bundle: a folder that runs on other machines'
	@echo 'make dev | tsan                                 tests under address+undefined | thread sanitizer'
	@echo 'make fuzz [FUZZ_SECONDS=300]                    each libFuzzer target for that long'
	@echo 'make tidy | format                              clang-tidy | clang-format'

packages:
	@cmake/install_packages.sh build

# A configured folder configures itself again when CMake files change.
configure-%: packages
	@test -f build/$*/build.ninja || cmake --preset $*

release: configure-release
	@cmake --build build/release --target moetune -j $(JOBS)

tune: release
	@build/release/moetune tune $(ARGS)

test: configure-release
	@cmake --build build/release -j $(JOBS)
	@cmake/run_tests.sh build/release -j $(JOBS)

dev: configure-dev
	@cmake --build build/dev -j $(JOBS)
	@cmake/run_tests.sh build/dev -j $(JOBS)

# The thread seam is what can race: one seam, so its tests and those of the layer that calls it are enough.
tsan: configure-tsan
	@cmake --build build/tsan -j $(JOBS) --target kernels_tests
	@cmake/run_tests.sh build/tsan -R '^kernels_tests$$'

tidy:
	@cmake/install_packages.sh build tidy
	@test -f build/tidy/build.ninja || cmake --preset tidy
	@cmake --build build/tidy -j $(JOBS)

format:
	@cmake/install_packages.sh format
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs -r clang-format-19 -i

fuzz:
	@cmake/install_packages.sh build fuzz
	@test -f build/fuzz/build.ninja || cmake --preset fuzz
	@cmake --build build/fuzz -j $(JOBS) --target fuzz_targets
	@cmake/fuzz.sh build/fuzz $(FUZZ_SECONDS)

install: release
	@DESTDIR=$(DESTDIR) cmake --install build/release --prefix $(PREFIX) --component moetune

bundle: configure-release
	@cmake --build build/release -j $(JOBS)
	@cmake/bundle.sh build/release build/bundle

clean:
	rm -rf build
