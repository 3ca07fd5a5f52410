#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon works under the system call filter of its unit: test-confined.py SHMEMD DEMO SERVICE

The filter is loaded as the service manager would, but a call outside of it kills instead of failing: what the daemon never
notices must not be needed either. The daemon gets its socket by activation and runs the demo, a reload and a stop. A
filter without a call that it needs must be noticed. Skips (77) without libseccomp or systemd-analyze.
"""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE_SEC = 60
KILL_PROCESS, ALLOW = 0x80000000, 0x7fff0000
COMPARE_EQUAL = 4


class ArgumentIs(ctypes.Structure):
    _fields_ = [('argument', ctypes.c_uint), ('compare', ctypes.c_int), ('a', ctypes.c_uint64), ('b', ctypes.c_uint64)]


def skip(reason):
    print('SKIP confined:', reason)
    sys.exit(77)


def load_libseccomp():
    try:
        library = ctypes.CDLL('libseccomp.so.2')
    except OSError:
        skip('there is no libseccomp here')
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint,
                                               ctypes.POINTER(ArgumentIs)]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    return library


def members(group):
    """The system calls of a group such as @file-system, or the one call itself."""
    if not group.startswith('@'):
        return {group}
    listed = subprocess.run(['systemd-analyze', '--no-pager', 'syscall-filter', group], capture_output=True, text=True, check=True)
    words = [line.strip() for line in listed.stdout.splitlines()[1:] if line.strip() and not line.strip().startswith('#')]
    return set().union(*(members(word) for word in words))


def settings(unit, key):
    with open(unit, encoding='utf-8') as file:
        return [line.strip().partition('=')[2] for line in file if line.startswith(key + '=')]


def allowed_calls(unit):
    lists = settings(unit, 'SystemCallFilter')
    assert lists and not lists[0].startswith('~'), 'the unit has no list of allowed calls'
    calls = members('@default')
    for words in lists:
        group = set().union(*(members(word) for word in words.lstrip('~').split()))
        calls = calls - group if words.startswith('~') else calls | group
    return calls


def make_filter(library, calls, families):
    """In the child, before exec. Sockets only of the families that the unit allows."""
    context = library.seccomp_init(KILL_PROCESS)
    for call in sorted(calls):
        number = library.seccomp_syscall_resolve_name(call.encode())
        if number < 0:
            continue
        if call in ('socket', 'socketpair'):
            for family in families:
                rule = ArgumentIs(0, COMPARE_EQUAL, getattr(socket, family), 0)
                assert library.seccomp_rule_add_array(context, ALLOW, number, 1, ctypes.byref(rule)) == 0
        else:
            assert library.seccomp_rule_add_array(context, ALLOW, number, 0, None) == 0
    # Sets no_new_privs as well.
    assert library.seccomp_load(context) == 0


def run(shmemd, confine, scratch, while_up):
    """Exit status of an activated daemon under a filter; while_up(daemon, path) runs when it has said it is ready."""
    path, conf = os.path.join(scratch, 'sock'), os.path.join(scratch, 'conf')
    with open(conf, 'w', encoding='utf-8') as file:
        file.write('max-qps = 1000\n')
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        listener.bind(path)
        listener.listen(64)
        manager.bind(os.path.join(scratch, 'notify'))
        manager.settimeout(1)

        def enter():
            os.dup2(listener.fileno(), 3)
            confine()

        daemon = subprocess.Popen(
            ['/bin/sh', '-c', 'LISTEN_PID=$$ exec "$@"', 'sh', shmemd, '--config', conf], preexec_fn=enter, pass_fds=[3],
            env={**os.environ, 'LISTEN_FDS': '1', 'NOTIFY_SOCKET': os.path.join(scratch, 'notify'), 'WATCHDOG_USEC': '300000'})
        try:
            if wait_told(manager, daemon, b'READY=1') and while_up(daemon, path, manager):
                daemon.send_signal(signal.SIGTERM)
            return daemon.wait(PATIENCE_SEC)
        finally:
            daemon.kill()
            daemon.wait()
            for name in ('sock', 'notify', 'conf'):
                os.unlink(os.path.join(scratch, name))


def wait_told(manager, daemon, words):
    deadline = time.monotonic() + PATIENCE_SEC
    while time.monotonic() < deadline and daemon.poll() is None:
        try:
            if words in manager.recv(4096):
                return True
        except TimeoutError:
            pass
    return False


def main():
    shmemd, demo, unit = sys.argv[1:]
    if not shutil.which('systemd-analyze'):
        skip('there is no systemd-analyze here')
    library = load_libseccomp()
    calls, families = allowed_calls(unit), settings(unit, 'RestrictAddressFamilies')[0].split()
    assert 'chown' not in calls and 'mount' not in calls and 'accept4' in calls, sorted(calls)

    def work(daemon, path, manager):
        demonstrated = subprocess.run([demo], env={**os.environ, 'SHMEMD_SOCKET': path}, timeout=PATIENCE_SEC, check=False)
        daemon.send_signal(signal.SIGHUP)
        return demonstrated.returncode == 0 and wait_told(manager, daemon, b'RELOADING=1') and \
            wait_told(manager, daemon, b'READY=1') and wait_told(manager, daemon, b'WATCHDOG=1')

    def knock(daemon, path, manager):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(path)
            daemon.wait(PATIENCE_SEC)

    with tempfile.TemporaryDirectory() as scratch:
        status = run(shmemd, lambda: make_filter(library, calls, families), scratch, work)
        assert status == 0, f'under the filter of the unit the daemon ended with {status}; -{signal.SIGSYS.value}: it made a ' \
            'system call outside of it'
        status = run(shmemd, lambda: make_filter(library, calls - {'getsockopt'}, families), scratch, knock)
        assert status == -signal.SIGSYS, f'a filter without a call that is needed was not noticed: {status}'
    print(f'the daemon works with the {len(calls)} system calls of its unit')


main()
