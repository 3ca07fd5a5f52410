#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The test report tested: what it counts, and that it fails when it should."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPORT = pathlib.Path(__file__).with_name('report.py')


def entry(name, result, stdout='', returncode=0):
    return {'name': 'shmemd:unit / ' + name, 'result': result, 'stdout': stdout, 'returncode': returncode}


GOOD = entry('test-a', 'OK', 'ok   one\nSKIP two: no gpu\n1 passed, 0 failed, 1 skipped\n')
COMPLETE = entry('test-a', 'OK', 'ok   one\nok   two\n2 passed, 0 failed, 0 skipped\n')
CHECK = entry('check-b', 'OK', '0 problems\n')


class TestReport(unittest.TestCase):
    def report(self, entries, *args, required=None):
        """(exit status, lines)"""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / 'log'
            log.write_text(''.join(json.dumps(e) + '\n' for e in entries), encoding='utf-8')
            command = [sys.executable, REPORT, *args, log]
            if required is not None:
                (pathlib.Path(folder) / 'required').write_text(required, encoding='utf-8')
                command[2:2] = ['--required', pathlib.Path(folder) / 'required']
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    def test_sums_and_skip_reason(self):
        status, lines = self.report([GOOD, CHECK])
        self.assertEqual(status, 0)
        self.assertEqual(lines, ['skipped: test-a:two: no gpu', '2 passed, 0 failed, 1 skipped'])

    def test_failed_case(self):
        status, lines = self.report([entry('test-a', 'FAIL', 'ok   one\nFAIL two\n1 passed, 1 failed, 0 skipped\n', 1)])
        self.assertEqual(status, 1)
        self.assertEqual(lines, ['failed:  test-a:two', '1 passed, 1 failed, 0 skipped'])

    def test_program_that_dies_after_its_summary(self):
        status, lines = self.report([entry('test-a', 'FAIL', 'ok   one\n1 passed, 0 failed, 0 skipped\n', 23)])
        self.assertEqual(status, 1)
        self.assertEqual(lines[-1], '1 passed, 1 failed, 0 skipped')

    def test_program_without_summary(self):
        status, lines = self.report([GOOD, entry('test-c', 'TIMEOUT', 'ok   one\n', -15)])
        self.assertEqual(status, 1)
        self.assertIn('failed:  test-c: timeout', lines)

    def test_skipped_program_gives_its_last_line_as_reason(self):
        _, lines = self.report([CHECK, entry('check-c', 'SKIP', 'looking\nno C++ compiler\n', 77)])
        self.assertIn('skipped: check-c: no C++ compiler', lines)

    def test_nothing_ran(self):
        status, lines = self.report([])
        self.assertEqual((status, lines), (1, ['0 passed, 0 failed, 0 skipped']))

    def test_required(self):
        self.assertEqual(self.report([COMPLETE, CHECK], required='test-a # why\ntest-a:two\n\ncheck-b\n')[0], 0)
        self.assertEqual(self.report([GOOD, CHECK], required='test-a:one\n')[0], 0)

    def test_required_was_skipped(self):
        self.assertEqual(self.report([GOOD, CHECK], required='test-a:two\n')[0], 1)
        self.assertEqual(self.report([GOOD, CHECK], required='test-a\n')[0], 1)

    def test_required_did_not_run(self):
        status, lines = self.report([GOOD], required='test-z\n')
        self.assertEqual(status, 1)
        self.assertEqual(lines[-2:], ['failed:  test-z: required, and it was skipped or did not pass',
                                      '1 passed, 1 failed, 1 skipped'])

    def test_stages_count(self):
        status, lines = self.report([CHECK], '--passed', 'clang', '--failed', 'dist')
        self.assertEqual(status, 1)
        self.assertEqual(lines, ['failed:  dist', '2 passed, 1 failed, 0 skipped'])

    def test_failed_stage_comes_with_the_end_of_its_output(self):
        with tempfile.NamedTemporaryFile('w') as output:
            output.write('first\n' + ''.join(f'line {i}\n\n' for i in range(15)) + 'x' * 300 + '\n \n')
            output.flush()
            status, lines = self.report([GOOD], '--failed', f'stage fuzz={output.name}', '--skipped', 'stage deb: no lintian')
        self.assertEqual(status, 1)
        self.assertEqual(lines[:3], ['skipped: test-a:two: no gpu', 'skipped: stage deb: no lintian', 'failed:  stage fuzz'])
        self.assertEqual(lines[3:-1], [f'    | line {i}' for i in range(1, 15)] + ['    | ' + 'x' * 200])
        self.assertEqual(lines[-1], '1 passed, 1 failed, 2 skipped')

    def test_failed_stage_without_output(self):
        _, lines = self.report([CHECK], '--failed', 'stage vm=/nowhere/vm.output')
        self.assertEqual(lines[:2], ['failed:  stage vm', '    | no output: No such file or directory'])

    def test_skipped_stage_is_reported_with_its_reason(self):
        status, lines = self.report([CHECK], '--skipped', 'stage deb: no lintian')
        self.assertEqual((status, lines), (0, ['skipped: stage deb: no lintian', '1 passed, 0 failed, 1 skipped']))


if __name__ == '__main__':
    unittest.main()
