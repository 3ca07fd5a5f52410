#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests of shmem4py on our OpenSHMEM library.
# usage: shmem4py.sh SOURCE_DIR [--write] [--verbose] [-n N,...] [--over PATH,...] [--launcher oshrun,hydra] [PROGRAM...]; see openshmem-lib.sh
exec "$(dirname "$0")/openshmem-lib.sh" shmem4py "$@"
