#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon writes to the journal, with its facts as fields and operational events with their ids:
test-journal.py SHMEMD CATALOG_H

A mount namespace of its own has a /run whose journal socket is ours. Skips (77) where no such namespace can be made.
"""
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ADMIN_PLACES = 16 # USER_POOLS_ADMIN_PLACES
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


class Journal:
    def __init__(self, table):
        os.makedirs('/run/systemd/journal')
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind('/run/systemd/journal/socket')
        self.socket.settimeout(1)
        with open(table, encoding='utf-8') as file:
            self.events = {id: name for name, id in re.findall(r'X\((\w+),\s*"([0-9a-f]{32})"\)', file.read())}
        assert len(self.events) > 10, 'the table of events was not understood'

    def entry(self, event):
        """The next entry with this event; ids that are in no table are nobody's."""
        deadline = time.monotonic() + PATIENCE_SEC
        while time.monotonic() < deadline:
            try:
                data = self.socket.recv(65536).decode()
            except TimeoutError:
                continue
            fields = dict(line.split('=', 1) for line in data.splitlines() if '=' in line)
            if 'MESSAGE_ID' in fields and self.events[fields['MESSAGE_ID']] == event:
                return fields
        raise AssertionError(f'the journal was not told of {event}')


def connect(path):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect(path)
    return client


def watch(journal, daemon, path, conf):
    ready = journal.entry('READY')
    assert ready['PRIORITY'] == '6', ready
    assert path in ready['MESSAGE'], ready

    with connect(path) as client:
        client.send(b'no protocol at all')
        broken = journal.entry('CLIENT_VIOLATION')
        assert broken['SHMEMD_UID'] == str(os.geteuid()) and broken['SHMEMD_PID'] == str(os.getpid()), broken
        assert int(broken['SHMEMD_SESSION']) > 0 and broken['PRIORITY'] == '5', broken
    with open(conf, 'w', encoding='utf-8') as file:
        file.write('max-connections = 1\n')
    daemon.send_signal(signal.SIGHUP)
    assert 'max-connections' in journal.entry('RELOAD_DONE')['MESSAGE']
    # Administrators have a few places beyond the limit.
    with contextlib.ExitStack() as stack:
        for _ in range(1 + ADMIN_PLACES + 1):
            stack.enter_context(connect(path))
        refused = journal.entry('SESSION_REFUSED')
        assert 'max-connections is 1' in refused['MESSAGE'] and refused['SHMEMD_UID'] == str(os.geteuid()), refused

    with open(conf, 'w', encoding='utf-8') as file:
        file.write('\nmax-qps = few\n')
    daemon.send_signal(signal.SIGHUP)
    kept = journal.entry('RELOAD_REFUSED')
    assert kept['PRIORITY'] == '3' and f'{conf}:2: max-qps' in kept['MESSAGE'], kept

    daemon.send_signal(signal.SIGTERM)
    journal.entry('STOPPING')
    status = daemon.wait(PATIENCE_SEC)
    assert status == 0, status


def main():
    if INSIDE not in os.environ:
        enter_namespace()
    shmemd, table = sys.argv[1:]
    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', '/run'], check=True)
    journal = Journal(table)
    with tempfile.TemporaryDirectory() as scratch:
        path, conf = os.path.join(scratch, 'sock'), os.path.join(scratch, 'conf')
        with open(conf, 'w', encoding='utf-8'):
            pass
        command = [shmemd, '--config', conf, '--log-target', 'journal', '--socket', path]
        failed = subprocess.run([*command, '--socket', '/nonexistent/sock'], check=False)
        assert failed.returncode == 1, failed
        journal.entry('START_FAILED')
        with subprocess.Popen(command) as daemon:
            try:
                watch(journal, daemon, path, conf)
            finally:
                daemon.kill()


main()
