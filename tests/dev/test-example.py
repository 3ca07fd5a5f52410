#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of kernels/README.md does what it says: test-example.py EXAMPLE, with SHMEMD_SOCKET naming a daemon"""
import os
import shlex
import subprocess
import sys

EXPECTED = 'inbox: hello; counter was 0, is 5\n'
PATIENCE_SEC = 60

wrapper = shlex.split(os.environ.get('MESON_EXE_WRAPPER', ''))  # of a cross build
done = subprocess.run([*wrapper, *sys.argv[1:]], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_SEC, check=False)
if done.returncode != 0 or done.stdout != EXPECTED:
    sys.exit(f'status {done.returncode}, printed {done.stdout!r}, not {EXPECTED!r}')
