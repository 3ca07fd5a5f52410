#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files that tests need, with a meson that knows three tests."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).parent

FAKE_MESON = '''#!/usr/bin/env python3
import json, os, sys
print(json.dumps(json.loads(os.environ["FAKE"])[sys.argv[2]]))
'''

FAKE_NM = '''#!/bin/sh
for file in "$@"; do :; done
sed -n 's/^calls /                 U /p' "$file"
'''

TESTS = [{'name': 'test-a', 'suite': ['shmemd:unit'], 'depends': ['a'], 'cmd': ['a'], 'env': {}},
         {'name': 'test-b c', 'suite': ['shmemd:unit'], 'depends': ['b', 'helper'], 'cmd': ['b'], 'env': {}},
         {'name': 'test-system', 'suite': ['shmemd:system'], 'depends': ['helper'], 'cmd': ['helper'], 'env': {}}]


class TestNeeds(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.build = pathlib.Path(self.folder.name)
        self.tests = copy.deepcopy(TESTS)
        for name in ('a', 'b', 'helper', 'lib.so.1', 'base.so'):
            (self.build / name).write_text('made first', encoding='utf-8')
        for name, text in (('meson', FAKE_MESON), ('nm', FAKE_NM)):
            (self.build / name).write_text(text, encoding='utf-8')
            (self.build / name).chmod(0o755)

    def ask(self, *arguments):
        targets = [{'id': name, 'type': 'executable', 'filename': [str(self.build / name)]} for name in ('a', 'b', 'helper')]
        targets += [{'id': name, 'type': 'shared library', 'filename': [str(self.build / name)]} for name in ('lib.so.1', 'base.so')]
        targets.append({'id': 'text', 'type': 'custom', 'filename': [str(self.build / 'text')]})
        env = {**os.environ, 'PATH': f'{self.build}:{os.environ["PATH"]}',
               'FAKE': json.dumps({'--tests': self.tests, '--targets': targets})}
        return subprocess.run([sys.executable, FOLDER / 'needs-of-tests.py', *arguments], env=env, capture_output=True, text=True,
                              check=True).stdout.splitlines()

    def changed_by(self, name):
        sums = self.build / 'sums'
        self.ask('--save', sums, self.build, 'unit')
        (self.build / name).write_text('made anew', encoding='utf-8')
        return self.ask('--changed', sums, self.build, 'unit')

    def test_names_the_files_of_a_suite_once(self):
        self.assertEqual(self.ask(self.build, 'unit'), ['a', 'b', 'helper'])
        self.assertEqual(self.ask(self.build, 'system'), ['helper'])

    def test_same_bytes_change_no_test(self):
        sums = self.build / 'sums'
        self.ask('--save', sums, self.build, 'unit')
        os.utime(self.build / 'a', (1, 1))
        self.assertEqual(self.ask('--changed', sums, self.build, 'unit'), [])

    def test_a_program_changes_its_test(self):
        self.assertEqual(self.changed_by('a'), ['test-a'])

    def test_what_a_test_depends_on_changes_it(self):
        self.assertEqual(self.changed_by('helper'), ['test-b c'])

    def test_a_shared_library_that_no_file_of_a_test_names_changes_none(self):
        self.assertEqual(self.changed_by('lib.so.1'), [])

    def test_a_shared_library_changes_the_test_with_a_file_that_names_it(self):
        (self.build / 'helper').write_text('opens lib.so.1', encoding='utf-8')
        self.assertEqual(self.changed_by('lib.so.1'), ['test-b c'])

    def test_a_shared_library_changes_the_test_that_gets_its_folder_or_itself(self):
        self.tests[0]['env'] = {'LD_LIBRARY_PATH': f'/somewhere:{self.build}'}
        self.tests[1]['cmd'] = ['b', str(self.build / 'lib.so.1')]
        self.assertEqual(self.changed_by('lib.so.1'), ['test-a', 'test-b c'])

    def test_a_shared_library_that_another_one_loads_changes_the_test(self):
        (self.build / 'a').write_text('opens lib.so.1', encoding='utf-8')
        (self.build / 'lib.so.1').write_text('opens base.so', encoding='utf-8')
        self.assertEqual(self.changed_by('base.so'), ['test-a'])

    def test_only_a_program_that_calls_a_function_of_pages_sees_them(self):
        (self.build / 'a').write_text('calls printf@GLIBC_2.17\ncalls mmapped', encoding='utf-8')
        (self.build / 'helper').write_text('calls mmap@GLIBC_2.17', encoding='utf-8')
        self.assertEqual(self.ask('--pages', self.build, 'unit'), ['test-b c'])

    def test_a_test_starts_threads_by_itself_or_by_a_library(self):
        (self.build / 'lib.so.1').write_text('calls pthread_create@GLIBC_2.34', encoding='utf-8')
        (self.build / 'b').write_text('calls pthread_created\ncalls fork', encoding='utf-8')
        self.assertEqual(self.ask('--threads', self.build, 'unit'), [])
        (self.build / 'b').write_text('opens lib.so.1', encoding='utf-8')
        self.assertEqual(self.ask('--threads', self.build, 'unit'), ['test-b c'])

    def test_a_script_alone_is_no_program(self):
        self.tests.append({**TESTS[0], 'name': 'test-script', 'depends': []})
        self.tests.append({**TESTS[0], 'name': 'test-text', 'depends': ['text']})
        self.assertEqual(self.ask('--programs', self.build, 'unit'), ['test-a', 'test-b c'])

    def test_names_the_files_of_some_tests_alone(self):
        (self.build / 'names').write_text('test-b c\ntest-gone\n', encoding='utf-8')
        self.assertEqual(self.ask('--only', self.build / 'names', self.build, 'unit'), ['b', 'helper'])


if __name__ == '__main__':
    unittest.main()
