#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PE, a memory agent or the daemon is killed while kernels wait, again and again: gpu-kill.py [--times N] [--pes N] [--jobs N] [--seconds N] FOLDER

FOLDER has shmemd, shmemctl and gpu-kill-selftest; tools/gpu-bundle makes it. Each kind of death comes so many times (50), with kernels that go by mapped
memory and by queues in turn; a job has a daemon of its own, and several run at once. A run begins with an exchange that is checked, so each
shows that the death before left nothing behind. Ends with 0 if all runs were as they must be, 1 if one was not, and 77 without a GPU.
"""
import argparse
import collections
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

KINDS = ('pe', 'agent', 'daemon')
PATIENCE_SEC = 60


class Daemon:
    def __init__(self, folder, scratch, number):
        self.socket = os.path.join(scratch, f'sock{number}')
        self.log = open(os.path.join(scratch, f'log{number}'), 'w', encoding='utf-8')  # pylint: disable=consider-using-with
        self.folder, self.process = folder, None

    def start(self):
        if self.process and self.process.poll() is None:
            return
        self.process = subprocess.Popen([self.folder / 'shmemd', '--config', '/dev/null', '--socket', self.socket],  # pylint: disable=consider-using-with
                                        stdout=self.log, stderr=self.log)
        end = time.monotonic() + PATIENCE_SEC
        while subprocess.run([self.folder / 'shmemctl', '--socket', self.socket, 'status'], capture_output=True, check=False).returncode:
            if time.monotonic() > end:
                raise RuntimeError('shmemd did not become ready')
            time.sleep(0.02)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self.log.close()


class Run:
    """One job, and what its PEs have said."""

    def __init__(self, options, daemon, kind, path, delay_msec):
        self.options, self.daemon, self.kind, self.delay_msec = options, daemon, kind, delay_msec
        self.words = [str(options.folder / 'shmemctl'), 'run', '--keep-going', '-n', str(options.pes), str(options.folder / 'gpu-kill-selftest'), kind, path,
                      str(delay_msec)]
        self.lines, self.status = [], None

    def go(self):
        with subprocess.Popen(self.words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=os.environ | {'SHMEMD_SOCKET': self.daemon.socket}) as job:
            limit = threading.Timer(PATIENCE_SEC, job.kill)
            limit.start()
            n_waiting = 0
            for line in job.stdout:
                self.lines.append(line.rstrip())
                n_waiting += line.rstrip().endswith(' waits')
                if self.kind == 'daemon' and n_waiting == self.options.pes:
                    n_waiting = 0
                    time.sleep(self.delay_msec / 1000)
                    self.daemon.kill()
            self.status = job.wait()
            limit.cancel()

    def reports(self):
        return [line for line in self.lines if re.search(r'PE \d+: wait ', line)]

    def fault(self):
        """None if all was as it must be."""
        wanted = self.options.pes - (self.kind == 'pe')
        if len(self.reports()) != (0 if self.kind == 'nobody' else wanted):
            return f'{len(self.reports())} of {wanted} PEs reported'
        if any('WRONG' in line for line in self.lines):
            return 'a status or a time is wrong'
        if any('gpu-kill-selftest: ' in line for line in self.lines):
            return 'a PE has failed'
        # PEs of a world that is not whole do not close it, which shmemctl run counts as failures.
        return f'status {self.status}' if self.kind == 'nobody' and self.status else None


class Runs:
    def __init__(self, options):
        self.options, self.lock = options, threading.Lock()
        self.waiting = [(kind, ('mapped', 'queues')[i % 2] if kind != 'agent' else 'queues') for i in range(options.times) for kind in KINDS]
        self.end = time.monotonic() + options.seconds
        self.done, self.faults = collections.Counter(), []
        self.statuses, self.longest = collections.Counter(), collections.Counter()
        self.is_without_gpu = False

    def take(self):
        with self.lock:
            if not self.waiting or time.monotonic() > self.end or self.is_without_gpu or len(self.faults) > 5:
                return None
            return self.waiting.pop(0)

    def note(self, run, kind, path):
        with self.lock:
            if run.status == 77:
                self.is_without_gpu = True
                return
            self.done[f'{kind}, {path}'] += 1
            for line in run.reports():
                for part, status, msec in re.findall(r'(\w+) (-?\d+) after (\d+) ms', line):
                    self.statuses[f'{kind}, {path}, {part}: {status}'] += 1
                    self.longest[kind] = max(self.longest[kind], int(msec))
            fault = run.fault()
            if fault:
                self.faults.append(f'{kind}, {path}, delay {run.delay_msec} ms: {fault}\n    ' + '\n    '.join(run.lines))

    def work(self, scratch, number):
        daemon = Daemon(self.options.folder, scratch, number)
        try:
            while (what := self.take()) is not None:
                daemon.start()
                run = Run(self.options, daemon, *what, random.randrange(0, 300))
                run.go()
                self.note(run, *what)
            daemon.start()
            last = Run(self.options, daemon, 'nobody', 'queues', 0)
            last.go()
            self.note(last, 'nobody', 'queues')
        except (RuntimeError, OSError) as error:
            with self.lock:
                self.faults.append(f'job {number}: {error}')
        finally:
            daemon.stop()

    def tell(self):
        for what, n in sorted(self.done.items()):
            print(f'{n:4} runs: {what}')
        for what, n in sorted(self.statuses.items()):
            print(f'{n:6} calls: {what}')
        for kind, msec in sorted(self.longest.items()):
            print(f'the longest call when a {kind} died: {msec} ms')
        for fault in self.faults:
            print(f'FAILED: {fault}')
        print(f'{sum(self.done.values())} runs, {len(self.faults)} failed, {len(self.waiting)} not begun')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--times', type=int, default=50, help='deaths of each kind (50)')
    parser.add_argument('--pes', type=int, default=3, help='PEs of a job (3)')
    parser.add_argument('--jobs', type=int, default=1, help='jobs at once (1)')
    parser.add_argument('--seconds', type=float, default=3600, help='begin no run after so many (3600)')
    parser.add_argument('folder', type=pathlib.Path)
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    runs = Runs(options)
    with tempfile.TemporaryDirectory() as scratch:
        threads = [threading.Thread(target=runs.work, args=(scratch, i)) for i in range(options.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if runs.is_without_gpu:
        print('no GPU')
        return 77
    runs.tell()
    return 1 if runs.faults or not runs.done else 0


if __name__ == '__main__':
    sys.exit(main())
