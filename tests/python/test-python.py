#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package as PEs use it, under with-daemon.sh: test-python.py SHMEMCTL PE WHAT N_PES"""
import os
import subprocess
import sys

PATIENCE_SEC, SOON_SEC = 100, 25


def main():
    shmemctl, pe, what, n_pes = sys.argv[1:]
    if os.environ.get("MESON_EXE_WRAPPER"):
        print("the library is not of this Python's machine")
        sys.exit(77)
    done = subprocess.run([shmemctl, "run", "-n", n_pes, sys.executable, pe, what], capture_output=True, text=True, timeout=SOON_SEC if what == "raises" else PATIENCE_SEC, check=False)
    if what == "raises":
        # An exception ends the job, and does not wait for PEs that do not come: their time limit is longer than this.
        if done.returncode != 1 or "this PE fails" not in done.stderr:
            sys.exit(f"{what}: status {done.returncode}: {done.stdout}{done.stderr}")
    elif done.returncode:
        sys.exit(f"{what}: status {done.returncode}: {done.stdout}{done.stderr}")


main()
