#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `meson test` and gives a test that failed beside others a second hearing: alone, three times.

  tests/lib/run-tests.py BUILD [ARGUMENT OF MESON TEST]...

Runs the suite `long` too.

A test that passes all three is called unsteady: the log then has what it said alone, with the first failure kept beside it,
and report.py names it. It wants mending, and it says nothing about the change at hand. No second hearing for what a
sanitizer found, what died by a signal, and where more than a few tests failed or two hung: those are bugs however seldom
they show.

Exit status: 0 all passed or were unsteady, 1 something failed, 2 wrong use, or no test ran.
"""
import json
import pathlib
import re
import subprocess
import sys

MOST_FAILURES, HEARINGS = 4, 3
# One that hangs takes its whole time-out in each hearing.
MOST_TIME_OUTS = 1
FAILURES = ('FAIL', 'TIMEOUT', 'ERROR')
# A sanitizer's words, and those of running.c for a test that died; its alarm comes as SIGKILL.
CANNOT_BE_CHANCE = re.compile(r'(Address|Leak|Thread|Memory)Sanitizer|runtime error:|killed by signal (?!9\b)')
AGAIN = 'again'


def with_all_suites(arguments):
    """Plain `meson test` leaves the suite `long` out; a suite that is named always runs, and that of the project is all of them."""
    return arguments if '--suite' in arguments else ['--suite', 'shmemd', *arguments]


def meson(build, arguments):
    subprocess.run(['meson', 'test', '-C', build, '--no-rebuild', '--print-errorlogs', *with_all_suites(arguments)], check=False)


def read(log):
    if not log.exists():
        return []
    with open(log, encoding='utf-8') as lines:
        return [json.loads(line) for line in lines]


def has_failed(entry):
    return entry['result'] in FAILURES


def may_be_heard_again(entry):
    if CANNOT_BE_CHANCE.search(entry.get('stdout', '') + entry.get('stderr', '')):
        return False
    # A program that meson kills after its time-out ends by a signal too.
    return entry['result'] == 'TIMEOUT' or 0 < entry.get('returncode', 0) < 128


def deserve_a_hearing(failed):
    time_outs = sum(entry['result'] == 'TIMEOUT' for entry in failed)
    return 0 < len(failed) <= MOST_FAILURES and time_outs <= MOST_TIME_OUTS and all(map(may_be_heard_again, failed))


def log_base(arguments):
    for i, argument in enumerate(arguments):
        if argument == '--logbase':
            return arguments[i + 1]
    return 'testlog'


def without_selection(arguments):
    """What says how to run, not what."""
    kept, takes_value = [], False
    for argument in arguments:
        if takes_value:
            kept.append(argument)
            takes_value = False
        elif argument in ('--timeout-multiplier', '-t'):
            kept.append(argument)
            takes_value = True
    return kept


def hear_alone(build, logs, entry, arguments):
    """The entries of the hearings, all passed, or None."""
    log = logs / f'{AGAIN}.json'
    log.unlink(missing_ok=True)
    name = entry['name'].split(' / ')[-1]
    print(f'\n{name} failed beside others; alone, {HEARINGS} times:', flush=True)
    meson(build, ['--num-processes', '1', '--repeat', str(HEARINGS), '--logbase', AGAIN, *without_selection(arguments), name])
    heard = [e for e in read(log) if e['name'] == entry['name']]
    return heard if len(heard) == HEARINGS and not any(map(has_failed, heard)) else None


def rewrite(log, entries):
    with open(log, 'w', encoding='utf-8') as out:
        for entry in entries:
            out.write(json.dumps(entry) + '\n')


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith('-'):
        sys.stderr.write(__doc__)
        return 2
    build, arguments = sys.argv[1], sys.argv[2:]
    logs = pathlib.Path(build) / 'meson-logs'
    log = logs / f'{log_base(arguments)}.json'
    log.unlink(missing_ok=True)
    meson(build, arguments)
    entries = read(log)
    failed = [i for i, entry in enumerate(entries) if has_failed(entry)]
    if deserve_a_hearing([entries[i] for i in failed]):
        for i in failed:
            heard = hear_alone(build, logs, entries[i], arguments)
            if heard:
                entries[i] = {**heard[-1], 'unsteady': entries[i]}
        rewrite(log, entries)
    if not entries:
        return 2
    return 1 if any(map(has_failed, entries)) else 0


if __name__ == '__main__':
    sys.exit(main())
