#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The second hearing tested, with a meson that says what the test wants."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).parent

# Answers from $FAKE: {"beside": [entries], "alone": {name: [entries]}}.
FAKE_MESON = '''#!/usr/bin/env python3
import json, os, pathlib, sys
args = sys.argv[1:]
said = json.loads(os.environ["FAKE"])
base = args[args.index("--logbase") + 1] if "--logbase" in args else "testlog"
(pathlib.Path(args[args.index("-C") + 1]) / "arguments").write_text(" ".join(args))
entries = said["alone"][args[-1]] if "--repeat" in args else said["beside"]
logs = pathlib.Path(args[args.index("-C") + 1]) / "meson-logs"
logs.mkdir(exist_ok=True)
if entries:
    (logs / (base + ".json")).write_text("".join(json.dumps(e) + "\\n" for e in entries))
'''


def entry(name, result='OK', stdout='', returncode=None, stderr=''):
    if returncode is None:
        returncode = 0 if result == 'OK' else 1
    return {'name': 'shmemd:unit / ' + name, 'result': result, 'stdout': stdout, 'stderr': stderr, 'returncode': returncode}


GOOD = entry('test-good')
BAD = entry('test-bad', 'FAIL', 'FAIL one\n0 passed, 1 failed, 0 skipped\n')
BAD_ALONE = entry('test-bad', stdout='ok   one\n1 passed, 0 failed, 0 skipped\n')


class TestSecondHearing(unittest.TestCase):
    def run_tests(self, beside, alone=None, *args):
        """(exit status, what report.py says)"""
        with tempfile.TemporaryDirectory() as folder:
            meson = pathlib.Path(folder) / 'meson'
            meson.write_text(FAKE_MESON, encoding='utf-8')
            meson.chmod(0o755)
            env = {**os.environ, 'PATH': f'{folder}:{os.environ["PATH"]}',
                   'FAKE': json.dumps({'beside': beside, 'alone': alone or {}})}
            done = subprocess.run([sys.executable, FOLDER / 'run-tests.py', folder, *args], env=env, stdout=subprocess.DEVNULL,
                                  check=False)
            self.arguments = (pathlib.Path(folder) / 'arguments').read_text(encoding='utf-8')
            log = pathlib.Path(folder) / 'meson-logs/testlog.json'
            if not log.exists():
                return done.returncode, []
            said = subprocess.run([sys.executable, FOLDER / 'report.py', log], capture_output=True, text=True, check=False)
        return done.returncode, said.stdout.splitlines()

    def test_all_passed(self):
        self.assertEqual(self.run_tests([GOOD]), (0, ['1 passed, 0 failed, 0 skipped']))

    def test_all_suites_run_unless_some_are_named(self):
        for args, wanted in (((), '--suite shmemd'), (('--suite', 'unit'), '--suite unit')):
            self.run_tests([GOOD], None, *args)
            self.assertRegex(self.arguments, f'{wanted}$')
            self.assertEqual(self.arguments.count('--suite'), 1)

    def test_passed_three_times_alone_is_unsteady_and_named(self):
        status, lines = self.run_tests([GOOD, BAD], {'test-bad': [BAD_ALONE] * 3})
        self.assertEqual(status, 0)
        self.assertEqual(lines, ['unsteady: test-bad: one failed beside others, not alone', '2 passed, 0 failed, 0 skipped'])

    def test_one_failure_alone_is_a_failure(self):
        status, lines = self.run_tests([GOOD, BAD], {'test-bad': [BAD_ALONE, BAD, BAD_ALONE]})
        self.assertEqual(status, 1)
        self.assertIn('failed:  test-bad:one', lines)

    def test_too_few_hearings_are_a_failure(self):
        self.assertEqual(self.run_tests([BAD], {'test-bad': [BAD_ALONE]})[0], 1)

    def test_what_a_sanitizer_found_is_not_heard_again(self):
        for words in ('ERROR: AddressSanitizer: heap-use-after-free', 'x.c:1: runtime error: shift'):
            found = entry('test-bad', 'FAIL', stderr=words)
            self.assertEqual(self.run_tests([found], {'test-bad': [BAD_ALONE] * 3})[0], 1)

    def test_what_died_is_not_heard_again(self):
        for died in (entry('test-bad', 'FAIL', returncode=-11), entry('test-bad', 'FAIL', returncode=134),
                     entry('test-bad', 'FAIL', stderr='in test one: killed by signal 6 (Aborted)\n')):
            self.assertEqual(self.run_tests([died], {'test-bad': [BAD_ALONE] * 3})[0], 1)

    def test_time_outs_are_heard_again(self):
        late = entry('test-bad', 'TIMEOUT', returncode=-15)
        self.assertEqual(self.run_tests([late], {'test-bad': [BAD_ALONE] * 3})[0], 0)

    def test_two_time_outs_are_not_heard_again(self):
        late = [entry(name, 'TIMEOUT', returncode=-15) for name in ('test-bad', 'test-good')]
        alone = {'test-bad': [BAD_ALONE] * 3, 'test-good': [GOOD] * 3}
        self.assertEqual(self.run_tests(late, alone)[0], 1)

    def test_a_time_out_and_a_failure_are_heard_again(self):
        late = [entry('test-good', 'TIMEOUT', returncode=-15), BAD]
        alone = {'test-bad': [BAD_ALONE] * 3, 'test-good': [GOOD] * 3}
        self.assertEqual(self.run_tests(late, alone)[0], 0)

    def test_many_failures_are_not_heard_again(self):
        many = [entry(f'test-{i}', 'FAIL') for i in range(5)]
        self.assertEqual(self.run_tests(many, {f'test-{i}': [entry(f'test-{i}')] * 3 for i in range(5)})[0], 1)

    def test_no_test_ran(self):
        self.assertEqual(self.run_tests([]), (2, []))


if __name__ == '__main__':
    unittest.main()
