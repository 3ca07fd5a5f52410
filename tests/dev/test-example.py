#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of kernels/README.md does what it says: test-example.py SHMEMD EXAMPLE

A private daemon with one software NIC is started for it and ended after it.
"""
import os
import shlex
import subprocess
import sys
import tempfile
import time

EXPECTED = 'inbox: hello; counter was 0, is 5\n'
PATIENCE_SEC = 60


def wait_for(path, daemon):
    deadline = time.monotonic() + PATIENCE_SEC
    while not os.path.exists(path):
        if daemon.poll() is not None or time.monotonic() > deadline:
            sys.exit('the daemon did not start')
        time.sleep(0.01)


def main():
    shmemd, example = sys.argv[1:3]
    wrapper = shlex.split(os.environ.get('MESON_EXE_WRAPPER', ''))  # of a cross build
    with tempfile.TemporaryDirectory() as scratch:
        socket = os.path.join(scratch, 'socket')
        with subprocess.Popen([*wrapper, shmemd, '--socket', socket, '--soft-nics', '1']) as daemon:
            try:
                wait_for(socket, daemon)
                done = subprocess.run([*wrapper, example], env={**os.environ, 'SHMEMD_SOCKET': socket}, stdout=subprocess.PIPE,
                                      text=True, timeout=PATIENCE_SEC, check=False)
            finally:
                daemon.terminate()
    if done.returncode != 0 or done.stdout != EXPECTED:
        sys.exit(f'status {done.returncode}, printed {done.stdout!r}, not {EXPECTED!r}')


main()
