#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The programs for OpenSHMEM of the OSU micro-benchmarks on our OpenSHMEM library.
# usage: osu.sh SOURCE_DIR [--write] [--verbose] [-n N,...] [--over PATH,...] [--launcher oshrun,hydra] [PROGRAM...]; see openshmem-lib.sh
exec "$(dirname "$0")/openshmem-lib.sh" osu "$@"
