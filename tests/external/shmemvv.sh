#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The suite shmemvv on our OpenSHMEM library.
# usage: shmemvv.sh SOURCE_DIR [--write] [--verbose] [-n N,...] [--over PATH,...] [--launcher oshrun,hydra] [PROGRAM...]; see openshmem-lib.sh
exec "$(dirname "$0")/openshmem-lib.sh" shmemvv "$@"
