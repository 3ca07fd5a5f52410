#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random programs on GPU heaps, by the C build of their kernels over a CUDA without a GPU: test-random-kernels.py SHMEMD SHMEMCTL PROGRAM"""
import os
import subprocess
import sys
import tempfile
import time

PATIENCE_SEC = 120
RUNS = (('mapped', '1', '1', '3'), ('mapped', '2', '11', '4'), ('queues', '2', '10001', '4'), ('mixed', '3', '30001', '3'))

shmemd, shmemctl, program = sys.argv[1:]
with tempfile.TemporaryDirectory() as scratch:
    os.environ |= {'SHMEMD_SOCKET': os.path.join(scratch, 'sock'), 'SHMD_TIMEOUT': '60s'}
    with subprocess.Popen([shmemd, '--config', '/dev/null', '--socket', os.environ['SHMEMD_SOCKET']]) as daemon:
        try:
            end = time.monotonic() + PATIENCE_SEC
            while subprocess.run([shmemctl, 'status'], capture_output=True, check=False).returncode:
                if time.monotonic() > end:
                    sys.exit('shmemd did not become ready')
                time.sleep(0.02)
            for run in RUNS:
                done = subprocess.run([program, *run], check=False, timeout=PATIENCE_SEC)
                if done.returncode:
                    sys.exit(f'{" ".join(run)}: status {done.returncode}')
        finally:
            daemon.terminate()
