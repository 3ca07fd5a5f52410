#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads logs of `meson test` (testlog.json): prints every skip with its reason, every failure, and the totals.

A program of tests/lib counts with the numbers of its own summary line; any other program counts as one test.
With --required FILE, a test named there ("program" or "program:test", one a line) that was skipped or did not run is a
failure.
"""
import argparse
import json
import re
import sys

SUMMARY = re.compile(r'^(\d+) passed, (\d+) failed, (\d+) skipped$')
CASE = re.compile(r'^(ok  |FAIL|SKIP) (\w+)(?:: (.*))?$')
PROGRAM_OUTCOME = {'OK': 'passed', 'EXPECTEDFAIL': 'passed', 'SKIP': 'skipped'}


class Report:
    def __init__(self):
        self.counts = {'passed': 0, 'failed': 0, 'skipped': 0}
        self.passed = set()
        self.skips = []
        self.failures = []

    def add(self, entry):
        name = entry['name']
        lines = entry.get('stdout', '').splitlines()
        outcome = PROGRAM_OUTCOME.get(entry['result'], 'failed')
        summary = next((m for m in map(SUMMARY.match, reversed(lines)) if m), None)
        if not summary:
            self.add_program(name, outcome, lines, entry['result'])
            return
        numbers = dict(zip(('passed', 'failed', 'skipped'), map(int, summary.groups())))
        # A program that says it passed and exits otherwise (a leak found at its end, a time-out) has failed.
        if outcome == 'failed' and not numbers['failed']:
            numbers['failed'] = 1
            self.failures.append(f'{name}: {entry["result"].lower()}, exit status {entry.get("returncode")}')
        for key, number in numbers.items():
            self.counts[key] += number
        if outcome == 'passed':
            self.passed.add(name)
        self.add_cases(name, lines)

    def add_program(self, name, outcome, lines, result):
        self.counts[outcome] += 1
        if outcome == 'passed':
            self.passed.add(name)
        elif outcome == 'skipped':
            reason = next((line.strip() for line in reversed(lines) if line.strip()), 'no reason given')
            self.skips.append(f'{name}: {reason}')
        else:
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

    def require(self, path):
        """A required program with one skipped test is not complete either."""
        with open(path, encoding='utf-8') as file:
            wanted = [line.split('#')[0].strip() for line in file]
        for test in filter(None, wanted):
            skipped = [skip for skip in self.skips if skip.startswith(test + ':')]
            if test not in self.passed or skipped:
                self.counts['failed'] += 1
                self.failures.append(f'{test}: required in CI, and it ' + ('was skipped' if skipped else 'did not pass'))

    def print(self):
        for skip in self.skips:
            print('skipped:', skip)
        for failure in self.failures:
            print('failed: ', failure)
        print(f"{self.counts['passed']} passed, {self.counts['failed']} failed, {self.counts['skipped']} skipped")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--required', metavar='FILE')
    parser.add_argument('logs', nargs='+', metavar='TESTLOG')
    args = parser.parse_args()
    report = Report()
    for path in args.logs:
        with open(path, encoding='utf-8') as log:
            for line in log:
                report.add(json.loads(line))
    if args.required:
        report.require(args.required)
    report.print()
    return 1 if report.counts['failed'] or not report.counts['passed'] else 0


if __name__ == '__main__':
    sys.exit(main())
