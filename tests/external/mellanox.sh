#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The suite of Mellanox on our OpenSHMEM library.
# usage: mellanox.sh SOURCE_DIR [--write] [--verbose] [-n N,...] [--over PATH,...] [--launcher oshrun,hydra] [PROGRAM...]; see openshmem-lib.sh
exec "$(dirname "$0")/openshmem-lib.sh" mellanox "$@"
