#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemctl info: text, JSON and exit status for environments; the page shmd-settings(7) has every setting.

test-shmemctl-info.py SHMEMCTL PAGE. Without a daemon; test-shmemctl has the paths that one adds.
"""
import json
import re
import subprocess
import sys


def run(shmemctl, *words, **variables):
    return subprocess.run([shmemctl, '--socket', '/nonexistent/sock', 'info', *words], capture_output=True, text=True, timeout=60, check=False, env=variables)


def rows(text):
    """{setting: (value, source)} of the table."""
    lines = text.partition('SETTING')[2].splitlines()[1:]
    return {words[0]: (words[1], words[2]) for words in map(str.split, lines) if words and re.match(r'SHM(EM)?D_', words[0])}


def expect(what, seen, wanted):
    if seen != wanted:
        raise SystemExit(f'{what}: {seen!r}, not {wanted!r}')


def main():
    shmemctl, page = sys.argv[1:]
    plain = run(shmemctl)
    expect('exit status', (plain.returncode, plain.stderr), (0, ''))
    expect('no row', 'every setting has its default; --all lists them\n' in plain.stdout, True)
    expect('the version', bool(re.match(r'version +\d+\.\d+\.\d+\n', plain.stdout)), True)

    some = run(shmemctl, SHMD_TIMEOUT='5', SHMEM_SYMMETRIC_SIZE='1.5g', NVSHMEM_DISABLE_P2P='1', SHMD_DCIS='4')
    expect('settings that differ', rows(some.stdout), {'SHMD_TIMEOUT': ('5s', 'SHMD_TIMEOUT'), 'SHMD_HEAP_SIZE': ('1536M', 'SHMEM_SYMMETRIC_SIZE'),
                                                       'SHMD_PATHS': ('self,queue', 'NVSHMEM_DISABLE_P2P')})
    every = rows(run(shmemctl, '--all', '--wide', SHMD_TIMEOUT='5').stdout)
    expect('-a and --all', rows(run(shmemctl, '-a', '--wide', SHMD_TIMEOUT='5').stdout), every)
    expect('a default', every['SHMD_DCIS'], ('4', 'default'))
    expect('lines that are too wide', [line for line in run(shmemctl, '-a').stdout.splitlines() if len(line) > 120], [])

    wrong = run(shmemctl, SHMD_TIMEOUT='soon', SHMD_PATHS='queue', SHMD_TIMOUT='1')
    expect('exit status of a wrong value', wrong.returncode, 1)
    expect('the others', rows(wrong.stdout), {'SHMD_TIMEOUT': ('soon', 'SHMD_TIMEOUT'), 'SHMD_PATHS': ('queue', 'SHMD_PATHS')})
    expect('sentences', [line.partition(';')[0] for line in wrong.stderr.splitlines()],
           ['shmemctl: SHMD_TIMOUT is set, but there is no such setting', 'shmemctl: SHMD_TIMEOUT=soon is not allowed'])

    done = run(shmemctl, '--json', SHMD_TIMEOUT='soon', SHMD_TIMOUT='1')
    expect('exit status', done.returncode, 1)
    document = json.loads(done.stdout)
    by_name = {setting['name']: setting for setting in document['settings']}
    expect('settings', list(by_name), list(every))
    expect('value and source', [by_name['SHMD_TIMEOUT'][key] for key in ('value', 'source', 'is_default', 'default')],
           ['soon', 'SHMD_TIMEOUT', False, '30s'])
    expect('an error', by_name['SHMD_TIMEOUT']['error'].startswith('SHMD_TIMEOUT=soon is not allowed; '), True)
    expect('no error', by_name['SHMD_DCIS']['error'], '')
    expect('warnings', document['warnings'], ['SHMD_TIMOUT is set, but there is no such setting; did you mean SHMD_TIMEOUT?'])

    with open(page, encoding='utf-8') as file:
        items = re.findall(r'^\.It Ev (\S+)$', file.read().partition('.Sh VARIABLES')[0], re.M)
    expect('settings of the page', items, list(every))


if __name__ == '__main__':
    main()
