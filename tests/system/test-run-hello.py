#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemctl run starts the example as a world, over mapped memory and over queues: test-run-hello.py SHMEMCTL HELLO"""
import os
import subprocess
import sys

PES = 4
PATIENCE_SEC = 60

if os.environ.get('MESON_EXE_WRAPPER'):
    print('the launcher starts programs of this machine alone')
    sys.exit(77)
expected = [f'[{pe}] PE {pe} of {PES}: hello from PE {(pe - 1) % PES}' for pe in range(PES)]
for paths in ('self,mapped', 'self,queue'):
    done = subprocess.run([sys.argv[1], 'run', '-n', str(PES), sys.argv[2]], capture_output=True, text=True, timeout=PATIENCE_SEC, check=False,
                          env=os.environ | {'SHMD_PATHS': paths})
    if done.returncode or sorted(done.stdout.splitlines()) != expected:
        sys.exit(f'{paths}: status {done.returncode}, printed {done.stdout!r} and {done.stderr!r}')
