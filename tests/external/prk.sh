#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Parallel Research Kernels for SHMEM on our OpenSHMEM library.
# usage: prk.sh SOURCE_DIR [--write] [--verbose] [-n N,...] [--over PATH,...] [--launcher oshrun,hydra] [PROGRAM...]; see openshmem-lib.sh
exec "$(dirname "$0")/openshmem-lib.sh" prk "$@"
