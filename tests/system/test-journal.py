#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon writes to the journal, with its facts as fields: test-journal.py SHMEMD

A mount namespace of its own has a /run whose journal socket is ours. Skips (77) where no such namespace can be made.
"""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE_SEC = 20
INSIDE = 'SHMEMD_TEST_JOURNAL_INSIDE'


def enter_namespace():
    unshare = ['unshare', '--map-root-user', '--mount']
    try:
        works = subprocess.run([*unshare, 'mount', '-t', 'tmpfs', 'tmpfs', '/run'], stderr=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        works = None
    if works is None or works.returncode != 0:
        print('SKIP journal: no mount namespace with a /run of its own can be made here')
        sys.exit(77)
    os.environ[INSIDE] = '1'
    os.execvp('unshare', [*unshare, sys.executable, *sys.argv])


def entries(journal):
    """Datagrams as dicts, until the patience is over."""
    deadline = time.monotonic() + PATIENCE_SEC
    while time.monotonic() < deadline:
        try:
            data = journal.recv(65536).decode()
        except TimeoutError:
            continue
        yield dict(line.split('=', 1) for line in data.splitlines() if '=' in line)


def main():
    if INSIDE not in os.environ:
        enter_namespace()
    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', '/run'], check=True)
    os.makedirs('/run/systemd/journal')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal, tempfile.TemporaryDirectory() as scratch:
        journal.bind('/run/systemd/journal/socket')
        journal.settimeout(1)
        path = os.path.join(scratch, 'sock')
        with subprocess.Popen([sys.argv[1], '--config', '/dev/null', '--log-target', 'journal', '--socket', path]) as daemon:
            ready = next((e for e in entries(journal) if 'is ready' in e.get('MESSAGE', '')), None)
            daemon.send_signal(signal.SIGTERM)
            status = daemon.wait(PATIENCE_SEC)
    assert ready, 'the journal was not told that the daemon is ready'
    assert ready['PRIORITY'] == '6', ready
    assert path in ready['MESSAGE'], ready
    assert status == 0, status


main()
