#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""With SHMD_ABORT_ON_ERROR a job of shmemctl run ends when the time limit of a call passes: test-run-abort.py SHMEMCTL RUN-WORLD"""
import os
import re
import subprocess
import sys

PATIENCE_SEC = 60  # without the end PE 1 would wait for ever

if os.environ.get('MESON_EXE_WRAPPER'):
    print('the launcher starts programs of this machine alone')
    sys.exit(77)
shmemctl, program = sys.argv[1:]
done = subprocess.run([shmemctl, 'run', '-n', '2', program], capture_output=True, text=True, timeout=PATIENCE_SEC, check=False,
                      env=os.environ | {'SHMD_ABORT_ON_ERROR': 'on', 'SHMD_TIMEOUT': '1s'})
sentence = (r'rank 0 ends the job: PE 0 \(pid \d+ on \S+\): shmd_barrier_all: PE 1 \(pid \d+ on \S+\) did not come within the time limit')
if done.returncode != 1 or not re.search(sentence, done.stderr):
    sys.exit(f'status {done.returncode}, printed {done.stdout!r} and {done.stderr!r}')
