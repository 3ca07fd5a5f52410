#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every key that shmemctl --json prints is documented in shmemctl-json(5) with its type, and every documented one is printed.

test-shmemctl-json.py SHMEMCTL CTL-SUBJECT PAGE MACHINE, under with-daemon.sh. Documents are what the commands print about the
sessions of ctl-subject; several documents of one command count together.
"""
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from ctl_subject import Cases, subject

KEY = re.compile(r'^\.It Va (\S+) Pq (.+)$')


def read_page(text):
    """{heading: {key: type}} of the page's lists."""
    lists, heading = {}, None
    for line in text.splitlines():
        if line.startswith('.S'):
            heading = line[4:]
        found = KEY.match(line)
        if found:
            lists.setdefault(heading, {})[found.group(1)] = found.group(2)
    return lists


def documented(lists, heading, prefix=''):
    """{path: type} of a list with the objects in it; "a[].b" is key b of the objects in array a."""
    paths = {}
    for key, kind in lists[heading].items():
        path = prefix + key
        is_array = kind.startswith('array of ')
        inner = kind.removeprefix('array of ').removeprefix('object ')
        is_object = f'Object {inner}' in lists
        paths[path] = 'array' if is_array else 'object' if is_object else kind
        if is_object:
            paths |= documented(lists, f'Object {inner}', path + ('[].' if is_array else '.'))
        elif is_array:
            paths[path + '[]'] = inner
    return paths


def type_of(value):
    for kind, name in ((bool, 'boolean'), ((int, float), 'number'), (str, 'string'), (list, 'array'), (dict, 'object')):
        if isinstance(value, kind):
            return name
    return 'null'


def printed(value, path=''):
    paths = {path: type_of(value)} if path else {}
    if isinstance(value, dict):
        for key, inner in value.items():
            paths |= printed(inner, f'{path}.{key}' if path else key)
    if isinstance(value, list):
        for inner in value:
            paths |= {p: t for p, t in printed(inner, path + '[]').items() if not (p == path + '[]' and t == 'object')}
    return paths


def compare(page, seen):
    problems = [f'{path}: printed, not documented' for path in sorted(seen.keys() - page.keys())]
    problems += [f'{path}: documented, not printed' for path in sorted(page.keys() - seen.keys())]
    return problems + [f'{path}: documented as {page[path]}, printed as {seen[path]}'
                       for path in sorted(page.keys() & seen.keys()) if page[path] != seen[path]]


def check_lines(text, n_lines):
    """One document a line, and schema_version first."""
    lines = text.splitlines()
    problems = [] if len(lines) == n_lines else [f'{len(lines)} lines, not {n_lines}']
    return problems + [f'does not begin with schema_version: {line[:40]}'
                       for line in lines if not line.startswith('{"schema_version":1,')]


def run(shmemctl, *words, statuses=(0,), environment=None):
    done = subprocess.run([shmemctl, '--json', *words], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **(environment or {})})
    if done.returncode not in statuses:
        raise SystemExit(f'shmemctl {words}: {done.stdout}{done.stderr}')
    return done.stdout


def run_monitor(shmemctl, cause):
    """What one event prints, and what its cause did. The monitor has begun when the daemon counts it."""
    with subprocess.Popen([shmemctl, '--json', 'monitor', '--count', '1'], stdout=subprocess.PIPE, text=True) as monitor:
        while json.loads(run(shmemctl, 'status'))['n_monitors'] == 0:
            time.sleep(0.01)
        done = cause()
        try:
            return monitor.communicate(timeout=20)[0], done
        finally:
            monitor.kill()


def self_test():
    page = read_page('.Ss shmemctl x\n.It Va a Pq number\n.It Va b Pq array of in\n.It Va c Pq array of string\n'
                     '.Sh OBJECTS\n.Ss Object in\n.It Va k Pq object deep\n.Ss Object deep\n.It Va z Pq boolean\n')
    good = {'a': 1, 'b': [{'k': {'z': True}}, {'k': {'z': False}}], 'c': ['w']}
    planted = [(good, None), ({**good, 'd': 1}, 'd: printed, not documented'), ({**good, 'a': 'x'}, 'a: documented as number'),
               ({k: good[k] for k in 'bc'}, 'a: documented, not printed'), ({**good, 'c': []}, 'c[]: documented, not printed'),
               ({**good, 'b': [{'k': {}}]}, 'b[].k.z: documented, not printed'),
               ({**good, 'b': good['b'] + [{'k': {'z': True, 'y': 1}}]}, 'b[].k.y: printed, not documented')]
    problems = []
    for value, says in planted:
        found = compare(documented(page, 'shmemctl x'), printed(value))
        if (says is None) != (not found) or (says and not any(says in problem for problem in found)):
            problems.append(f'expected {says!r}, the comparison said {found}')
    return problems


def main():
    shmemctl, program, page, machine = sys.argv[1:]
    with open(page, encoding='utf-8') as file:
        lists = read_page(file.read())
    cases = Cases()
    cases.add('the_comparison_can_fail', self_test())
    with subject(program) as (busy, failed):
        receiver = hex(int(busy, 16) + 1)
        outputs = {
            'status': [run(shmemctl, 'status')],
            'dump-queue': [run(shmemctl, 'dump-queue', qpn, '--all') for qpn in (busy, receiver, failed)],
        }
        outputs |= {f'list {what}': [run(shmemctl, 'list', what)] for what in ('sessions', 'qps', 'mrs', 'pes', 'paths', 'nics')}
        outputs['metrics'] = [run(shmemctl, 'metrics')]
        outputs['topology'] = [run(shmemctl, 'topology', '--from', machine, '--why', '0')]
        outputs['doctor'] = [run(shmemctl, 'doctor', statuses=(0, 1))]
        outputs['info'] = [run(shmemctl, 'info', environment={'SHMD_TIMOUT': '1'})]
        # Each looks twice, a second apart.
        with ThreadPoolExecutor() as pool:
            stats = {what: pool.submit(run, shmemctl, 'stats', what) for what in ('sessions', 'qps', 'pes', 'nics')}
        outputs |= {f'stats {what}': [text.result()] for what, text in stats.items()}
        session = json.loads(outputs['list sessions'][0])['sessions'][0]['session']
        event, killed = run_monitor(shmemctl, lambda: run(shmemctl, 'kill', str(session)))
        outputs |= {'monitor': event.splitlines(True), 'kill': [killed]}
        outputs['port'] = [run(shmemctl, 'port', 'soft0', state) for state in ('down', 'up')]
        outputs['drain'] = [run(shmemctl, 'drain', '--grace', '0'), run(shmemctl, 'drain', '--off')]
    for command, texts in outputs.items():
        page = documented(lists, f'shmemctl {command}') | documented(lists, 'Every document')
        seen = {}
        problems = []
        for text in texts:
            problems += check_lines(text, 1)
            seen |= printed(json.loads(text))
        name = 'keys_of_' + re.sub('[ -]', '_', command) + '_are_those_of_the_page'
        cases.add(name, problems + compare(page, seen))
    there = {heading.removeprefix('shmemctl ') for heading in lists if heading.startswith('shmemctl ')}
    cases.add('every_command_is_documented', [f'{name}: not run, or not documented'
                                              for name in sorted(there ^ outputs.keys())])
    cases.end()


if __name__ == '__main__':
    main()
