# SPDX-License-Identifier: Apache-2.0
"""The program ctl-subject for tests in Python: sessions with something to show, for as long as the block lasts."""
import contextlib
import subprocess


@contextlib.contextmanager
def subject(program):
    """Gives the QP numbers of a busy and of a failed QP, as shmemctl prints them."""
    with subprocess.Popen([program, 'subject'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith('ready '):
                yield [hex(int(word)) for word in line.split()[1:]]
                break
        else:
            raise SystemExit('ctl-subject did not get ready')
        process.stdin.close()
        process.stdout.read()


def case(name, problems):
    """One line that tests/lib/report.py counts. Returns how many failed."""
    for problem in problems:
        print('    ' + problem)
    print(('FAIL ' if problems else 'ok   ') + name)
    return 1 if problems else 0
