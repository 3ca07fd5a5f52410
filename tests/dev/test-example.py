#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An example does what it says: test-example.py OUTPUT EXAMPLE [ARG...], with SHMEMD_SOCKET naming a daemon"""
import os
import shlex
import subprocess
import sys

PATIENCE_SEC = 60

wrapper = shlex.split(os.environ.get('MESON_EXE_WRAPPER', ''))  # of a cross build
done = subprocess.run([*wrapper, *sys.argv[2:]], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_SEC, check=False)
if done.returncode != 0 or done.stdout != sys.argv[1]:
    sys.exit(f'status {done.returncode}, printed {done.stdout!r}, not {sys.argv[1]!r}')
