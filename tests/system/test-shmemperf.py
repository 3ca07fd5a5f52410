#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemperf with scripts in place of its PEs, of shmemctl and of MPS: no GPU. test-shmemperf.py SHMEMPERF"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

from ctl_subject import Cases

SCRIPTS = {
    # run -n 2 --no-prefix PROGRAM WHAT
    'shmemctl': '''
        [ "$1 $2 $3 $4" = "run -n 2 --no-prefix" ] || exit 3
        shift 4
        echo "$(basename "$1") $2" >>"$LOG"
        echo "$CUDA_VISIBLE_DEVICES" >"$LOG.gpus"
        exec "$@"
    ''',
    'shmemperf-ours': '''
        [ "$1" != gpus ] || { [ "$N_GPUS" != 0 ] || exit 77; echo "# gpus $N_GPUS"; exit; }
        [ "$1" != rows ] || [ -z "$ROWS_SECONDS" ] || { touch "$LOG.begun"; exec sleep "$ROWS_SECONDS"; }
        [ "$1" != floor ] || { echo "# gpu Card"; echo "barrier 2"; exit; }
        printf '# gpu Card\\n%s' "$ROWS"
        exit "${STATUS:-0}"
    ''',
    'shmemperf-queues': '''
        [ "$1" != floor ] || { echo "queue_trip 4"; exit; }
        printf '%s' "$QUEUE_ROWS"
    ''',
    'shmemperf-nvshmem': '''
        [ ! -e "$SHMEMPERF_ID" ] || exit 4
        touch "$SHMEMPERF_ID"
        echo "LIB ${LD_LIBRARY_PATH:-none}" >>"$LOG"
        echo "barrier 4"
    ''',
    'nvidia-cuda-mps-control': '''
        echo "mps ${1:-$(cat)}" >>"$LOG"
        [ -d "$CUDA_MPS_PIPE_DIRECTORY" ] || exit 5
    ''',
}


class Lab:
    def __init__(self, program, names):
        self.made = tempfile.TemporaryDirectory(prefix='shmemperf-')
        self.folder = pathlib.Path(self.made.name)
        (self.folder / 'tmp').mkdir()
        shutil.copy(program, self.folder / 'shmemperf')
        for name in names:
            (self.folder / name).write_text('#!/bin/sh\n' + SCRIPTS[name])
            (self.folder / name).chmod(0o755)

    def run(self, *words, **environment):
        """Exit status, output, what was started, and whether nothing was left."""
        log = self.folder / 'log'
        log.write_text('')
        done = subprocess.run([self.folder / 'shmemperf', *words], capture_output=True, text=True, timeout=60, check=False, env={
            'PATH': f'{self.folder}:/bin:/usr/bin', 'TMPDIR': str(self.folder / 'tmp'), 'LOG': str(log), 'N_GPUS': '2',
            'ROWS': 'barrier 1\n', 'QUEUE_ROWS': 'queue_trip 5\n', **environment})
        if list((self.folder / 'tmp').iterdir()):
            raise SystemExit('shmemperf left files behind')
        return done.returncode, done.stdout + done.stderr, log.read_text().splitlines()


ALL = ('shmemctl', 'shmemperf-ours', 'shmemperf-queues', 'shmemperf-nvshmem', 'nvidia-cuda-mps-control')


def all_rows(lab):
    """Names from the JSON of a run."""
    path = lab.folder / 'names.json'
    lab.run('--runs', '1', '--json', str(path))
    return [row['name'] for row in json.loads(path.read_text())['rows']]


def sides_take_turns_and_all_that_is_asked_for_is_written(program):
    lab = Lab(program, ALL)
    json_at, svg_at = lab.folder / 'out.json', lab.folder / 'out.svg'
    status, text, log = lab.run('--runs', '3', '--json', str(json_at), '--svg', str(svg_at), '--nvshmem-lib', '/some/lib', LD_LIBRARY_PATH='/own')
    assert log == ['shmemperf-ours rows', 'shmemperf-nvshmem rows', 'LIB /some/lib:/own', 'shmemperf-ours floor',
                   'shmemperf-queues rows', 'shmemperf-queues floor'] * 3, log
    assert '| barrier, block | us | 1 +-0% | 4 +-0% | 2 +-0% | 0.25 (at most 0.50) | 0.50 (at most 1.05) | ok |' in text, text
    assert '| queue: p, post to completion | us | 5 +-0% | - | 4 +-0% | - | 1.25 (at most 1.20) | MISSED |' in text, text
    assert 'Card, two GPUs; medians of 3' in text, text
    found = json.loads(json_at.read_text())
    assert [row['nvshmem']['runs'] for row in found['rows'] if row['name'] == 'barrier'] == [[4, 4, 4]], found
    assert xml.etree.ElementTree.parse(svg_at).getroot().tag.endswith('svg')
    assert status == 1, 'rows that were not measured are no success'


def it_succeeds_when_all_rows_are_there_and_no_goal_is_missed(program):
    lab = Lab(program, ALL)
    rows = all_rows(lab)
    assert lab.run('--runs', '1', ROWS=''.join(f'{name} 1\n' for name in rows), QUEUE_ROWS='')[0] == 0
    status, text, _ = lab.run('--runs', '1', ROWS=''.join(f'{name} 3\n' for name in rows), QUEUE_ROWS='')
    assert status == 1 and text.count('MISSED') == 1, text


def on_one_gpu_there_is_an_mps_server_and_goals_are_not_judged(program):
    lab = Lab(program, ALL)
    rows = ''.join(f'{name} 3\n' for name in all_rows(lab))
    status, text, log = lab.run('--runs', '1', N_GPUS='1', ROWS=rows, QUEUE_ROWS='')
    assert status == 0 and 'both PEs on one GPU, MPS' in text and '| behind |' in text, text
    assert log[0] == 'mps -d' and log[-1] == 'mps quit', log
    assert lab.run('--runs', '1', N_GPUS='1')[0] == 1, 'rows that were not measured are no success here, either'
    assert lab.run('--runs', '1', '--mode', 'gpus', N_GPUS='1')[0] == 77
    assert lab.run('--runs', '1', '--mode', 'mps', ROWS=rows, QUEUE_ROWS='')[2][0] == 'mps -d'
    for given, seen in (({}, '0'), ({'CUDA_VISIBLE_DEVICES': '3'}, '3'), ({'CUDA_VISIBLE_DEVICES': '3,2'}, '3')):
        lab.run('--runs', '1', '--mode', 'mps', **given)
        assert (lab.folder / 'log.gpus').read_text() == f'{seen}\n', 'both PEs have one GPU, whatever is given'


def a_signal_ends_it_with_its_mps_server(program):
    lab = Lab(program, ALL)
    log, begun = lab.folder / 'log', lab.folder / 'log.begun'
    for number in (signal.SIGINT, signal.SIGTERM):
        begun.unlink(missing_ok=True)
        log.write_text('')
        process = subprocess.Popen([lab.folder / 'shmemperf', '--mode', 'mps'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={
            'PATH': f'{lab.folder}:/bin:/usr/bin', 'TMPDIR': str(lab.folder / 'tmp'), 'LOG': str(log), 'N_GPUS': '1', 'ROWS_SECONDS': '50'})
        until = time.monotonic() + 20
        while not begun.exists() and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(number)
        status = process.wait(timeout=20)
        assert log.read_text().splitlines() == ['mps -d', 'shmemperf-ours rows', 'mps quit'], log.read_text()
        assert status == 128 + number and not list((lab.folder / 'tmp').iterdir()), status


def without_a_gpu_or_mps_or_nvcc_it_skips(program):
    assert Lab(program, ALL).run(N_GPUS='0')[0] == 77
    assert Lab(program, ALL[:4]).run(N_GPUS='1')[0] == 77
    status, text, log = Lab(program, ('shmemctl',)).run()
    assert status == 77 and 'without nvcc' in text and not log, text


def without_nvshmem_there_is_no_such_column_and_a_failed_run_fails(program):
    lab = Lab(program, ('shmemctl', 'shmemperf-ours', 'shmemperf-queues'))
    status, text, log = lab.run('--runs', '1')
    assert log == ['shmemperf-ours rows', 'shmemperf-ours floor', 'shmemperf-queues rows', 'shmemperf-queues floor'], log
    assert '| barrier, block | us | 1 +-0% | - | 2 +-0% |' in text, text
    rows = ''.join(f'{name} 1\n' for name in all_rows(lab))
    assert lab.run('--runs', '1', ROWS=rows, QUEUE_ROWS='')[0] == 0
    status, text, _ = lab.run('--runs', '1', ROWS=rows, QUEUE_ROWS='', STATUS='9')
    assert status == 1 and '| barrier, block | us | 1 +-0% |' in text, text
    assert lab.run('--runs', '1', ROWS='barriers 1\n')[0] == 1


def wrong_options_are_refused(program):
    lab = Lab(program, ALL)
    for words in (['--runs', '0'], ['--runs', '42'], ['--runs', '3x'], ['--mode', 'some'], ['word'], ['--other']):
        status, _, log = lab.run(*words)
        assert status == 2 and not log, words
    status, text, _ = lab.run('--help')
    assert status == 0 and '--nvshmem-lib' in text, text


CASES = (sides_take_turns_and_all_that_is_asked_for_is_written, it_succeeds_when_all_rows_are_there_and_no_goal_is_missed,
         on_one_gpu_there_is_an_mps_server_and_goals_are_not_judged, a_signal_ends_it_with_its_mps_server, without_a_gpu_or_mps_or_nvcc_it_skips,
         without_nvshmem_there_is_no_such_column_and_a_failed_run_fails, wrong_options_are_refused)


def main():
    cases = Cases()
    for case in CASES:
        problems = []
        try:
            case(os.path.abspath(sys.argv[1]))
        except AssertionError as problem:
            problems.append(f'line {problem.__traceback__.tb_next.tb_lineno}: {problem}')
        cases.add(case.__name__, problems)
    cases.end()


if __name__ == '__main__':
    main()
