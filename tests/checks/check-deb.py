#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each file that is installed is in exactly one Debian package.

Without --debs: each pattern of tests/data/installed-files against systemd/debian/*.install. With --debs FOLDER: the
packages themselves, where every other file must be documentation of the package.
"""
import fnmatch
import pathlib
import re
import subprocess

import checklib
from checklib import Planted

LIST = checklib.INSTALLED
FOLDER = 'systemd/debian'
PACKAGES = ('shmemd', 'libshmemclient0', 'libshmemclient-dev', 'shmemctl', 'libshmd-openshmem0', 'libshmd-openshmem-dev',
            'shmd-nvshmem', 'python3-shmemclient')
# Where nvcc or clang was, debian/rules puts what they made into the package of the headers.
WITH_COMPILER = ('cuda', 'bitcode')
OF_COMPILER = 'libshmemclient-dev'


def example(pattern):
    """One path that the pattern means."""
    return pattern.replace('lib*/**/', 'lib/x86_64-linux-gnu/').replace('*', '1')


def takes(line, path):
    """Does a line of an .install file take the path, itself or with its folder?"""
    return fnmatch.fnmatchcase(path, line) or fnmatch.fnmatchcase(path, line + '/*')


def check_lists(root):
    lists = {package: checklib.read(root, f'{FOLDER}/{package}.install').split() for package in PACKAGES}
    problems, used = [], set()
    for part, pattern in checklib.installed_patterns(root):
        if part in WITH_COMPILER:
            continue
        path = example(pattern)
        lines = [(package, line) for package in PACKAGES for line in lists[package] if takes(line, path)]
        used.update(lines)
        if len(lines) != 1:
            problems.append(f'{FOLDER}: {pattern} is in {len(lines)} packages: {", ".join(p for p, _ in lines) or "none"}')
    return problems + [f'{FOLDER}/{package}.install: {line}: {LIST} knows nothing of it'
                       for package in PACKAGES for line in lists[package] if (package, line) not in used]


def contents(folder):
    """Files of each package, as they are called in the list."""
    found = {}
    for package in PACKAGES:
        deb = list(pathlib.Path(folder).glob(f'{package}_*.deb'))
        if len(deb) != 1:
            raise SystemExit(f'{folder}: {len(deb)} packages {package}_*.deb instead of one')
        archive = subprocess.run(['dpkg-deb', '--fsys-tarfile', deb[0]], capture_output=True, check=True).stdout
        names = subprocess.run(['tar', '-t'], input=archive, capture_output=True, check=True).stdout.decode().split('\n')
        found[package] = [name[2:] for name in names if name and not name.endswith('/')]
    return found


def listed_name(path):
    """Packages have manual pages and documents compressed, and those of Debian 12 units in /lib, which is /usr/lib."""
    path = re.sub(r'^(usr/share/(?:man|doc)/.*)\.gz$', r'\1', path)
    return re.sub(r'^lib/', 'usr/lib/', path)


def check_contents(root, found):
    problems, owners = [], {}
    patterns = {pattern: (part, checklib.path_regex(pattern)) for part, pattern in checklib.installed_patterns(root)}
    for package, paths in found.items():
        for path in map(listed_name, paths):
            owners.setdefault(path, []).append(package)
            if path.startswith((f'usr/share/doc/{package}/', 'usr/share/lintian/overrides/')):
                continue
            if not any(regex.match(path) for _, regex in patterns.values()):
                problems.append(f'{package}: {path}: not in {LIST}')
    problems += [f'{path}: in {" and ".join(packages)}' for path, packages in owners.items() if len(packages) > 1]
    made = {part for part, regex in patterns.values() if part in WITH_COMPILER and any(regex.match(path) for path in owners)}
    for pattern, (part, regex) in patterns.items():
        if (part not in WITH_COMPILER or part in made) and not any(regex.match(path) for path in owners):
            problems.append(f'{pattern}: in no package')
        if part in WITH_COMPILER:
            problems += [f'{path}: in {packages[0]} instead of {OF_COMPILER}' for path, packages in owners.items()
                         if regex.match(path) and packages != [OF_COMPILER]]
    return problems


def check(root, options):
    if options.found:
        return check_contents(root, options.found)
    if options.debs:
        return check_contents(root, contents(options.debs))
    return check_lists(root)


def add_options(parser):
    parser.add_argument('--debs', help='a folder with one package of each name')
    parser.set_defaults(found=None)


def tree(name, says, daemon='usr/sbin/a\n*/systemd/system/a.service\n', library='usr/lib/*/libb.so.0*\n', dev='usr/include/b\n'):
    files = {LIST: 'usr/sbin/a # words\nusr/include/b/*.h\nusr/lib*/**/libb.so.0\nusr/lib*/**/libb.so.0.*\n'
                   'systemd: usr/lib/systemd/system/a.service\npython: usr/lib/python3/dist-packages/m/*.py\ncuda: usr/lib*/**/libd.a\n'}
    texts = dict(zip(PACKAGES, (daemon, library, dev, '', '', '', '', 'usr/lib/python3/dist-packages/m\n')))
    files.update({f'{FOLDER}/{package}.install': text for package, text in texts.items()})
    return Planted(name, files, says)


def debs(name, says, **changes):
    found = {'shmemd': ['usr/sbin/a', 'lib/systemd/system/a.service', 'usr/share/doc/shmemd/copyright'],
             'libshmemclient0': ['usr/lib/x/libb.so.0', 'usr/lib/x/libb.so.0.1'],
             'libshmemclient-dev': ['usr/include/b/c.h'], 'shmemctl': [],
             'python3-shmemclient': ['usr/lib/python3/dist-packages/m/n.py']}
    found.update(changes)
    return Planted(name, tree('', None).files, says, {'found': found})


PLANTED = [
    tree('lists that divide all', None),
    tree('a file in no list', 'usr/sbin/a is in 0 packages', daemon='*/systemd/system/a.service\n'),
    tree('a file in two lists', 'usr/include/b/*.h is in 2 packages', library='usr/lib/*/libb.so.0*\nusr/include/b/*.h\n'),
    tree('a line of nothing', 'usr/bin/gone: ', dev='usr/include/b\nusr/bin/gone\n'),
    debs('packages that divide all', None),
    debs('with the device library', None, **{'libshmemclient-dev': ['usr/include/b/c.h', 'usr/lib/x/libd.a']}),
    debs('the device library elsewhere', 'instead of', shmemctl=['usr/lib/x/libd.a']),
    debs('a file in no package', 'usr/include/b/*.h: in no package', **{'libshmemclient-dev': []}),
    debs('a file in two packages', 'usr/sbin/a: in shmemd and shmemctl', shmemctl=['usr/sbin/a']),
    debs('a file too many', 'shmemctl: usr/bin/c: not in', shmemctl=['usr/bin/c']),
    debs('documentation of another package', 'not in', shmemctl=['usr/share/doc/shmemd/x']),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED, add_options)
