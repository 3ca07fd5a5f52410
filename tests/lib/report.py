#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads logs of `meson test` (testlog.json): prints every skip with its reason, every test that run-tests.py found unsteady,
every failure, and last of all the totals. A failed stage comes with the last lines of its output.

A program of tests/lib counts with the numbers of its own summary line; any other program counts as one test.
"""
import argparse
import json
import re
import sys

SUMMARY = re.compile(r'^(\d+) passed, (\d+) failed, (\d+) skipped$')
CASE = re.compile(r'^(ok  |FAIL|SKIP) (\w+)(?:: (.*))?$')
OUTPUT_LINES = 15
OUTPUT_COLUMNS = 200
PROGRAM_OUTCOME = {'OK': 'passed', 'EXPECTEDFAIL': 'passed', 'SKIP': 'skipped'}


class Report:
    """What one run says. `passed` holds "program" and "program:test"; skips and failures begin with such a name."""

    def __init__(self, label=''):
        self.label = label
        self.counts = {'passed': 0, 'failed': 0, 'skipped': 0}
        self.passed = set()
        self.skips = []
        self.failures = []
        self.outputs = {}  # of a failure: the last lines
        self.unsteady = []

    def add(self, entry):
        name = entry['name'].split(' / ')[-1]
        if 'unsteady' in entry:
            self.unsteady.append(f'{name}: {self.first_failure(entry["unsteady"])}')
        lines = entry.get('stdout', '').splitlines()
        outcome = PROGRAM_OUTCOME.get(entry['result'], 'failed')
        if outcome == 'passed':
            self.passed.add(name)
        summary = next((m for m in map(SUMMARY.match, reversed(lines)) if m), None)
        if not summary:
            self.add_program(name, outcome, lines, entry['result'])
            return
        numbers = dict(zip(('passed', 'failed', 'skipped'), map(int, summary.groups())))
        # A program whose tests passed and that ended otherwise (a leak found at its end, a time-out) has failed.
        if outcome == 'failed' and not numbers['failed']:
            numbers['failed'] = 1
            self.failures.append(f'{name}: {entry["result"].lower()}, exit status {entry.get("returncode")}')
        for key, number in numbers.items():
            self.counts[key] += number
        self.add_cases(name, lines)

    @staticmethod
    def first_failure(entry):
        cases = [m.group(2) for m in map(CASE.match, entry.get('stdout', '').splitlines()) if m and m.group(1) == 'FAIL']
        return f'{" ".join(cases) or entry["result"].lower()} failed beside others, not alone'

    def add_program(self, name, outcome, lines, result):
        self.counts[outcome] += 1
        if outcome == 'skipped':
            reason = next((line.strip() for line in reversed(lines) if line.strip()), 'no reason given')
            self.skips.append(f'{name}: {reason}')
        elif outcome == 'failed':
            self.failures.append(f'{name}: {result.lower()}')

    def add_cases(self, name, lines):
        for match in filter(None, map(CASE.match, lines)):
            word, case, reason = match.groups()
            if word == 'ok  ':
                self.passed.add(f'{name}:{case}')
            elif word == 'SKIP':
                self.skips.append(f'{name}:{case}: {reason}')
            else:
                self.failures.append(f'{name}:{case}')

    def add_stage(self, name, outcome):
        self.counts[outcome] += 1
        if outcome == 'failed':
            self.failures.append(name)
        elif outcome == 'skipped':
            self.skips.append(name)

    def has_complete(self, test):
        """A program with one skipped test did not run completely."""
        return test in self.passed and not any(skip.startswith(test + ':') for skip in self.skips)


def last_lines(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            lines = [line.rstrip() for line in file]
    except OSError as error:
        return [f'no output: {error.strerror}']
    return [line[:OUTPUT_COLUMNS] for line in lines if line][-OUTPUT_LINES:]


def read_log(argument):
    label, _, path = argument.rpartition('=')
    report = Report(label + ': ' if label else '')
    with open(path, encoding='utf-8') as log:
        for line in log:
            report.add(json.loads(line))
    return report


def require(path, reports):
    """The tests named in a file, "program" or "program:test" a line, that no run completed."""
    verdict = Report()
    with open(path, encoding='utf-8') as file:
        wanted = [line.split('#')[0].strip() for line in file]
    for test in filter(None, wanted):
        if not any(report.has_complete(test) for report in reports):
            verdict.add_stage(f'{test}: required, and it was skipped or did not pass', 'failed')
    return verdict


def print_totals(reports):
    for report in reports:
        for skip in report.skips:
            print(f'skipped: {report.label}{skip}')
    for report in reports:
        for test in report.unsteady:
            print(f'unsteady: {report.label}{test}')
    for report in reports:
        for failure in report.failures:
            print(f'failed:  {report.label}{failure}')
            for line in report.outputs.get(failure, ()):
                print(f'    | {line}')
    totals = {key: sum(report.counts[key] for report in reports) for key in ('passed', 'failed', 'skipped')}
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 1 if totals['failed'] or not totals['passed'] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--required', metavar='FILE', help='tests that must have run completely in one of the logs')
    parser.add_argument('--passed', action='append', default=[], metavar='STAGE', help='one more thing that passed')
    parser.add_argument('--failed', action='append', default=[], metavar='STAGE[=OUTPUT]',
                        help='one more thing that failed, and a file with its output')
    parser.add_argument('--skipped', action='append', default=[], metavar='STAGE: REASON', help='one more thing that was skipped')
    parser.add_argument('logs', nargs='*', metavar='[LABEL=]TESTLOG')
    args = parser.parse_args()

    reports = [read_log(log) for log in args.logs]
    stages = Report()
    for name in args.passed:
        stages.add_stage(name, 'passed')
    for argument in args.failed:
        name, _, output = argument.partition('=')
        stages.add_stage(name, 'failed')
        if output:
            stages.outputs[name] = last_lines(output)
    for name in args.skipped:
        stages.add_stage(name, 'skipped')
    required = [require(args.required, reports)] if args.required else []
    return print_totals(reports + [stages] + required)


if __name__ == '__main__':
    sys.exit(main())
