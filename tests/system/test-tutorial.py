#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tutorial of libclient/README.md does what it says: test-tutorial.py README EXAMPLES BUILD PREFIX LIBDIR

Its first commands install this project; here the present build is installed instead, into a home of the test's own. All other commands
run as they stand, in one shell. Their output is that of the page, and each line of its C code is in an example.
"""
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile

PATIENCE_SEC = 300

if os.environ.get('MESON_EXE_WRAPPER'):
    print('the launcher starts programs of this machine alone')
    sys.exit(77)


def tutorial(text):
    return re.search(r'^## Tutorial.*?(?=^## )', text, re.M | re.S).group()


def check_code(text, examples):
    sources = {line for path in examples.glob('*.c') for line in path.read_text(encoding='utf-8').splitlines()}
    lines = [line for block in re.findall(r'^```c\n(.*?)^```', text, re.M | re.S) for line in block.splitlines()]
    missing = [line for line in lines if line not in sources]
    if not lines or missing:
        sys.exit(f'{missing}: lines of the tutorial that no example has')


def commands_and_output(text):
    lines = [line[4:] for line in text.splitlines() if line.startswith('    ')]
    commands = [line[2:] for line in lines if line.startswith('$ ')]
    return commands, [line for line in lines if not line.startswith('$ ')]


def install(build, image, prefix, libdir, home):
    """The installed files as if the prefix had been ~/shmemd, with lib as its libdir."""
    done = subprocess.run(['meson', 'install', '--no-rebuild', '--quiet', '-C', build, '--destdir', image],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f'meson install: {done.stdout}{done.stderr}')
    installed = home / 'shmemd'
    (pathlib.Path(image) / prefix.lstrip('/')).rename(installed)
    if libdir != 'lib':
        (installed / 'lib').mkdir(exist_ok=True)
        for path in sorted((installed / libdir).iterdir()):
            path.rename(installed / 'lib' / path.name)
    for path in (installed / 'lib/pkgconfig').glob('*.pc'):
        text = path.read_text(encoding='utf-8')
        path.write_text(re.sub(r'^libdir=.*$', 'libdir=${prefix}/lib', re.sub(r'^prefix=.*$', f'prefix={installed}', text, flags=re.M),
                               flags=re.M), encoding='utf-8')


def run(commands, home):
    folder = home / 'try'
    folder.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith(('SHMD_', 'SHMEMD_', 'PKG_CONFIG'))}
    # -m: a shell for a script has no %1 otherwise.
    done = subprocess.run(['bash', '-e', '-m', '-o', 'pipefail', '-c', '\n'.join([*commands, 'wait'])], cwd=folder,
                          capture_output=True, text=True, timeout=PATIENCE_SEC, check=False, env=env | {'HOME': str(home)})
    if done.returncode:
        sys.exit(f'status {done.returncode}, printed {done.stdout!r} and {done.stderr!r}')
    return done.stdout.splitlines()


def end_daemon(home):
    """The daemon of commands that did not come to its end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
        try:
            one.connect(str(home / 'shmemd/socket'))
            os.kill(struct.unpack('iII', one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0], signal.SIGTERM)
        except OSError:
            pass


def main():
    readme, examples, build, prefix, libdir = sys.argv[1:]
    text = tutorial(pathlib.Path(readme).read_text(encoding='utf-8'))
    check_code(text, pathlib.Path(examples))
    commands, expected = commands_and_output(text)
    installing = [command for command in commands if re.match(r'tools/deps|meson ', command)]
    if len(installing) != 3 or commands[:3] != installing:
        sys.exit(f'{installing}: these install the project, and should be the first three')
    with tempfile.TemporaryDirectory() as scratch:
        home = pathlib.Path(scratch) / 'home'
        home.mkdir()
        install(build, scratch + '/image', prefix, libdir, home)
        # PEs print in any order.
        try:
            printed = run(commands[3:], home)
        finally:
            end_daemon(home)
        if sorted(printed) != sorted(expected):
            sys.exit(f'printed {printed}, not {expected}')


main()
