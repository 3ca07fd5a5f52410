#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is installed points to nothing that is not: no path of the source tree, no README, no test, no page that is missing.

Looks at the sources of all installed texts: headers, examples, pages, completions, units and what stands beside them, and the
pages that shmemd prints.
"""
import fnmatch
import pathlib
import re
import subprocess

import checklib
from checklib import Planted

INSTALLED_TEXTS = (
    'libclient/include/*.h', 'libclient/examples/*', 'libclient/man/*.[1-9]', 'libclient/ctl/completion/*',
    'kernels/abi/*.h', 'kernels/dev/*.h', 'kernels/dev/impl/*.h',
    'systemd/OPERATION.md', 'systemd/60-shmemd.rules', 'systemd/shmemd.*', 'systemd/nics.conf', 'systemd/needrestart.conf',
    'systemd/prometheus-rules.yml',
)
ROOMS = r'(?:daemon|kernels|libclient|proto|systemd|tests|tools)'
# Not the end of a longer path, such as /etc/systemd/system.
SOURCE = re.compile(rf'(?<![\w/.@-]){ROOMS}/[\w./-]*\w')
# Includes go by the installed names.
DOCUMENT = re.compile(r'(?<![\w-])[\w./-]*(?:\w\.md\b|\bREADME\b(?!\.md))')
ABSOLUTE = re.compile(r'(?<![\w.])/usr/(?:share/doc|include)/[\w./-]*[\w]')
PAGE = re.compile(r'^\.Xr (shm\w+(?:\.conf)?(?:-json)?) (\d)|\b(shm(?:d_\w+|emd|emctl|emclient)(?:\.conf)?(?:-json)?)\((\d)\)', re.M)


def pages(root, printed):
    """(name, section) of the pages there are: files, those that point to one, and printed ones."""
    names = {tuple(path.name.rsplit('.', 1)) for path in (pathlib.Path(root) / 'libclient/man').glob('*.[1-9]')}
    build = pathlib.Path(root) / 'libclient/man/meson.build'
    text = build.read_text(encoding='utf-8') if build.exists() else ''
    names |= {(name, '3') for name in re.findall(r"'(shmd_\w+)'", text)}
    return names | set(printed)


def tests_of(root):
    path = pathlib.Path(root) / 'tests/data/required-in-ci'
    text = path.read_text(encoding='utf-8') if path.exists() else ''
    words = {re.split(r'[: ]', line)[0] for line in text.splitlines() if line and not line.startswith('#')}
    return {word for word in words if re.match(r'(test|check|conf|fuzz)-', word)}


def is_installed(root, path):
    patterns = [checklib.path_regex(pattern) for _, pattern in checklib.installed_patterns(root)]
    wanted = path.lstrip('/')
    # A folder of installed files will do.
    return any(regex.match(wanted) for regex in patterns) or any(
        pattern.startswith(wanted + '/') for _, pattern in checklib.installed_patterns(root))


def look(root, name, text, there, tests):
    problems = []

    def say(match, what):
        line = text.count('\n', 0, match.start()) + 1
        problems.append(f'{name}:{line}: {match.group(0).strip()}: {what}')

    for match in SOURCE.finditer(text):
        say(match, 'a path of the source tree')
    for match in DOCUMENT.finditer(text):
        if not (match.group(0).startswith('/') and is_installed(root, match.group(0))):
            say(match, 'a document that is not installed')
    for match in ABSOLUTE.finditer(text):
        if not is_installed(root, match.group(0)):
            say(match, 'nothing is installed there')
    for match in PAGE.finditer(text):
        page = (match.group(1), match.group(2)) if match.group(1) else (match.group(3), match.group(4))
        if page not in there:
            say(match, 'no such page')
    for match in re.finditer(r'(?<![\w/.-])(?:test|check|conf|fuzz)-[\w-]+', text):
        if match.group(0) in tests:
            say(match, 'a test, which is not installed')
    return problems


def without_code(path, text):
    """Include lines of headers name what they include from the build's folders."""
    return re.sub(r'^\s*#\s*include[^\n]*', '', text, flags=re.M) if path.endswith(('.h', '.c')) else text


def check(root, options):
    printed = {('shmemd', '8'): '', ('shmemd.conf', '5'): ''}
    if options.shmemd:
        for page, section in printed:
            printed[(page, section)] = subprocess.run([pathlib.Path(root) / options.shmemd, '--print-man', page],
                                                      capture_output=True, text=True, check=True).stdout
    there, tests = pages(root, printed), tests_of(root)
    problems = []
    for path in checklib.our_files(root):
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in INSTALLED_TEXTS) and not path.endswith('.build'):
            text = without_code(path, checklib.read(root, path))
            problems += look(root, path, text, there, tests)
    for (page, section), text in printed.items():
        problems += look(root, f'shmemd --print-man {page}', text, there, tests)
    return problems


LIST = {checklib.INSTALLED: 'usr/share/doc/x/README.md\nusr/share/doc/x/examples/a.c\nusr/include/x.h\n',
        'tests/data/required-in-ci': '# names\ntest-thing\ncheck-thing:case\n',
        'libclient/man/meson.build': "{'shmd_a': ['shmd_b']}", 'libclient/man/shmd_a.3': '.Xr shmd_b 3 ,\n'}


def case(name, says, text, path='libclient/include/x.h'):
    return Planted(name, {**LIST, path: text}, says, {'shmemd': None})


PLANTED = [
    case('what is there', None, '/* shmd_b(3), shmemd(8), /usr/share/doc/x/examples, /usr/share/doc/x/README.md, /etc/systemd/system */'
         '\n#include "kernels/abi/x.h"\n'),
    case('a path of the tree', 'kernels/README.md: a path of the source tree', '/* kernels/README.md has the table. */'),
    case('a readme', 'README.md: a document that is not installed', '# README.md says more\n', 'systemd/60-shmemd.rules'),
    case('a readme in words', 'README: a document that is not installed', '# see the README\n', 'systemd/shmemd.socket'),
    case('a readme elsewhere', '/usr/share/doc/y/README.md: a document', '# /usr/share/doc/y/README.md\n', 'systemd/nics.conf'),
    case('an example that is gone', '/usr/share/doc/x/examples/b.c: nothing is installed', '/usr/share/doc/x/examples/b.c',
         'libclient/man/x.7'),
    case('a page that is gone', 'shmd_c 3: no such page', '.Xr shmd_c 3 ,\n', 'libclient/man/shmd_d.3'),
    case('a page in words', 'shmd_c(3): no such page', '/* See shmd_c(3). */'),
    case('a test', 'test-thing: a test', '# test-thing proves it\n', 'systemd/shmemd.conf.example'),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED, lambda parser: parser.add_argument('--shmemd', help='the program'))
