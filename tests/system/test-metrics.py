#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemctl metrics: in the format of Prometheus, and true.

test-metrics.py SHMEMCTL CTL-SUBJECT, under with-daemon.sh. The sessions of ctl-subject are looked at; their program has a name
that needs every escape. exposition.py, a strict reader of ours, always judges; promtool too, where it is. It comes with Debian's
prometheus, which is a server of 96 MB and eleven packages more, so tools/deps leaves it alone. Without installing it:

    apt-get download prometheus && dpkg-deb -x prometheus_*.deb FOLDER
    PATH=FOLDER/usr/bin:$PATH meson test -C build test-metrics-text

The case promtool_finds_nothing is there then.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import exposition
from ctl_subject import Cases, subject

COMMAND = 'a"b\\c'
PARTS = {'daemon': 'shmemd_build_info', 'nics': 'shmemd_nic_info', 'sessions': 'shmemd_session_info', 'qps': 'shmemd_qp_info',
         'mrs': 'shmemd_mr_info'}


def run(shmemctl, *words, status=0):
    done = subprocess.run([shmemctl, *words], capture_output=True, timeout=60, check=False)
    if done.returncode != status:
        raise SystemExit(f'shmemctl {words}: {done.returncode}: {done.stdout}{done.stderr}')
    return done.stdout


def expect(families, wanted):
    return [f'{name}{labels}: {exposition.value(families, name, **labels)}, not {number}' for name, labels, number in wanted
            if exposition.value(families, name, **labels) != number]


def counts(prefix, labels, counters):
    """What a document's object `counters` is as samples."""
    names = {'payload_sent_bytes': 'bytes_sent', 'payload_read_bytes': 'bytes_read', 'receives': 'recv_wqes',
             'error_cqes': 'error_cqes', 'rnr_naks': 'rnr_naks', 'retries': 'retries'}
    kinds = [(f'{prefix}_work_requests_total', {**labels, 'kind': kind}, number)
             for kind, number in counters['wqes_by_kind'].items()]
    return kinds + [(f'{prefix}_{name}_total', labels, counters[key]) for name, key in names.items()]


def of_documents(shmemctl):
    """The samples that the lists of the other commands ask for."""
    lists = {what: json.loads(run(shmemctl, '--json', 'list', what))[what] for what in ('sessions', 'qps', 'mrs', 'nics')}
    wanted = []
    for nic in lists['nics']:
        labels = {'nic': nic['name']}
        wanted += counts('shmemd_nic', labels, nic['counters'])
        wanted += [('shmemd_nic_qps', labels, nic['n_qps']), ('shmemd_nic_up', labels, int(nic['state'] == 'active'))]
    for session in lists['sessions']:
        labels = {'session': str(session['session'])}
        wanted += counts('shmemd_session', labels, session['counters'])
        wanted += [('shmemd_session_info', {**labels, 'command': session['command'], 'pid': str(session['pid'])}, 1),
                   ('shmemd_session_qps', labels, session['n_qps']), ('shmemd_session_mrs', labels, session['n_mrs']),
                   ('shmemd_session_registered_bytes', labels, session['registered_bytes'])]
    for qp in lists['qps']:
        labels = {'session': str(qp['session']), 'nic': qp['nic'], 'qpn': hex(qp['qpn'])}
        wanted += [('shmemd_qp_info', {**labels, 'type': qp['type'], 'state': qp['state']}, 1),
                   ('shmemd_qp_failed', labels, int(qp['state'] == 'ERR')),
                   ('shmemd_qp_first_error_syndrome', labels, qp['first_error']),
                   ('shmemd_qp_work_requests_total', labels, qp['wqes']),
                   ('shmemd_qp_payload_bytes_total', labels, qp['bytes'])]
    for mr in lists['mrs']:
        labels = {'session': str(mr['session']), 'nic': mr['nic'], 'mr': str(mr['mr'])}
        wanted += [('shmemd_mr_info', {**labels, 'kind': mr['kind']}, 1), ('shmemd_mr_bytes', labels, mr['length_bytes'])]
    return wanted


def check_json(document, families):
    """The document has what the text has, but for what time changes."""
    there = {metric['name']: metric for metric in document['metrics']}
    problems = [f'{name}: in one of text and JSON' for name in sorted(there.keys() ^ families.keys())]
    for name in there.keys() & families.keys():
        samples = [({label['name']: label['value'] for label in sample['labels']}, float(sample['value']))
                   for sample in there[name]['samples']]
        if 'seconds' not in name and samples != families[name]['samples']:
            problems.append(f'{name}: other samples in JSON')
        if (there[name]['type'], there[name]['help']) != (families[name]['type'], families[name]['help']):
            problems.append(f'{name}: another type or help in JSON')
    return problems


def check_promtool(data):
    done = subprocess.run(['promtool', 'check', 'metrics'], input=data, capture_output=True, timeout=60, check=False)
    said = (done.stdout + done.stderr).decode()
    return [f'promtool: {done.returncode}: {said}'] if done.returncode or said.strip() else []


def main():
    shmemctl, program = sys.argv[1:]
    cases = Cases()
    cases.add('the_reader_can_fail', exposition.self_test())
    families = exposition.read(run(shmemctl, 'metrics'))
    cases.add('an_idle_daemon_has_metrics_of_itself_and_its_nics',
              exposition.lint(families) + expect(families, [('shmemd_sessions', {}, 0), ('shmemd_nic_up', {'nic': 'soft0'}, 1)])
              + [f'{name}: of nothing' for name in families if name.startswith(('shmemd_session_', 'shmemd_qp_', 'shmemd_mr_'))])
    with tempfile.TemporaryDirectory() as folder:
        named = os.path.join(folder, COMMAND)
        os.symlink(os.path.abspath(program), named)
        with subject(named) as (_, failed):
            data = run(shmemctl, 'metrics')
            families = exposition.read(data)
            cases.add('what_is_printed_is_clean', exposition.lint(families))
            cases.add('each_session_qp_mr_and_nic_has_what_the_lists_say',
                      expect(families, of_documents(shmemctl) + [('shmemd_qp_failed', {'qpn': failed}, 1), ('shmemd_sessions', {}, 2)]))
            commands = {labels['command'] for labels, _ in families['shmemd_session_info']['samples']}
            cases.add('a_strange_name_is_escaped', [] if commands == {COMMAND} else [f'commands are {commands}'])
            cases.add('json_says_the_same', check_json(json.loads(run(shmemctl, '--json', 'metrics')), families))
            cases.add('a_part_is_that_part', [
                f'{part}: {sorted(got)}' for part, got in ((part, exposition.read(run(shmemctl, 'metrics', part))) for part in PARTS)
                if {other for other, name in PARTS.items() if name in got} != {part} or not got.keys() <= families.keys()])
            again = exposition.read(run(shmemctl, 'metrics'))
            cases.add('counters_do_not_fall', [
                f'{name}{labels} fell' for name, family in families.items() if family['type'] == 'counter'
                for labels, number in family['samples'] if (exposition.value(again, name, **labels) or 0) < number])
            if shutil.which('promtool'):
                cases.add('promtool_finds_nothing', check_promtool(data))
    cases.add('without_a_daemon_nothing_is_printed',
              [str(text) for text in [run(shmemctl, '--socket', '/nonexistent/sock', 'metrics', status=2)] if text])
    cases.end()


if __name__ == '__main__':
    main()
