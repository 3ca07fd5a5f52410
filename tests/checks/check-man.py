#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages are free of warnings, those of the source tree and those that programs print.

With mandoc where it is, and with man (groff) where that is; at least one must be, else the check is skipped.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import checklib
from checklib import Planted

PAGE = re.compile(r'\.[1-9]$')
# Not a warning about the text: pages of ours that are not installed on this machine.
IGNORED = re.compile(r'referenced manual not found')


def complain_mandoc(path):
    done = subprocess.run(['mandoc', '-T', 'lint', '-W', 'warning', path], capture_output=True, text=True, check=False)
    return [line.removeprefix(f'mandoc: {path}:') for line in (done.stdout + done.stderr).splitlines()]


def complain_man(path):
    env = {**os.environ, 'MANWIDTH': '80', 'LC_ALL': 'C.UTF-8', 'MANROFFSEQ': ''}
    done = subprocess.run(['man', '--warnings', '-E', 'UTF-8', '-l', '-Tutf8', '-Z', path], capture_output=True, text=True,
                          check=False, env=env)
    lines = [line.replace(path, '') for line in done.stderr.splitlines()]
    return lines + ([f'man ends with {done.returncode}'] if done.returncode else [])


TOOLS = {'mandoc': complain_mandoc, 'man': complain_man}


def check_page(path, name):
    return [f'{name}:{line} ({tool})' for tool, complain in TOOLS.items() if shutil.which(tool)
            for line in complain(str(path)) if not IGNORED.search(line)]


def check_printed(root, command, page, section):
    text = subprocess.run([pathlib.Path(root) / command[0], *command[1:]], capture_output=True, text=True, check=True).stdout
    with tempfile.NamedTemporaryFile('w', suffix='.' + section) as file:
        file.write(text)
        file.flush()
        return check_page(file.name, f'{page}({section})')


def check(root, options):
    problems = []
    for path in checklib.our_files(root):
        if PAGE.search(path):
            problems += check_page(pathlib.Path(root) / path, path)
    if options.shmemd:
        problems += check_printed(root, [options.shmemd, '--print-man', 'shmemd'], 'shmemd', '8')
        problems += check_printed(root, [options.shmemd, '--print-man', 'shmemd.conf'], 'shmemd.conf', '5')
    if options.settings_man:
        problems += check_printed(root, [options.settings_man], 'shmd-settings', '7')
    return problems


def add_options(parser):
    parser.add_argument('--shmemd', help='the program')
    parser.add_argument('--settings-man', help='the program that prints shmd-settings(7)')


GOOD = '''.Dd January 1, 2026
.Dt X 1
.Os
.Sh NAME
.Nm x
.Nd do x
.Sh DESCRIPTION
It does.
'''

PLANTED = [
    Planted('clean', {'a.1': GOOD}, None),
    Planted('an unknown macro', {'a.1': GOOD + '.Zz x\n'}, 'a.1:'),
    Planted('a list that does not end', {'a.1': GOOD + '.Bl -tag -width x\n.It x\n'}, 'a.1:'),
]

if __name__ == '__main__':
    if not any(shutil.which(tool) for tool in TOOLS):
        print('SKIP check-man: neither mandoc nor man is installed')
        sys.exit(77)
    checklib.main(__doc__, check, PLANTED, add_options)
