# SPDX-License-Identifier: Apache-2.0
"""What the tests of shmemctl in Python share: sessions with something to show, and a report of cases."""
import contextlib
import subprocess
import sys


@contextlib.contextmanager
def subject(program):
    """Runs ctl-subject for the block. Gives the QP numbers of a busy and of a failed QP, as shmemctl prints them."""
    with subprocess.Popen([program, 'subject'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                if line.startswith('ready '):
                    yield [hex(int(word)) for word in line.split()[1:]]
                    break
            else:
                raise SystemExit('ctl-subject did not get ready')
        finally:
            process.stdin.close()
            process.stdout.read()


class Cases:
    """Lines that tests/lib/report.py counts."""

    def __init__(self):
        self.counts = {'passed': 0, 'failed': 0, 'skipped': 0}

    def add(self, name, problems):
        for problem in problems:
            print('    ' + problem)
        print(('FAIL ' if problems else 'ok   ') + name)
        self.counts['failed' if problems else 'passed'] += 1

    def skip(self, name, why):
        print(f'SKIP {name}: {why}')
        self.counts['skipped'] += 1

    def end(self):
        print(', '.join(f'{n} {word}' for word, n in self.counts.items()))
        sys.exit(1 if self.counts['failed'] else 0)
