#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names the built files that tests need, or the tests for which those files have changed.

  tests/lib/needs-of-tests.py BUILD SUITE...                  the files, relative to BUILD, as arguments of ninja
  tests/lib/needs-of-tests.py --save FILE BUILD SUITE...      writes the sums of the files, which are built, to FILE
  tests/lib/needs-of-tests.py --changed FILE BUILD SUITE...   the tests with a file that is not as FILE has it, one a line
  tests/lib/needs-of-tests.py --pages BUILD SUITE...          the tests with a file that maps memory or asks how large a page is
  tests/lib/needs-of-tests.py --threads BUILD SUITE...        the tests with a file that starts a thread
  tests/lib/needs-of-tests.py --programs BUILD SUITE...       the tests with a program or a library of ours
  tests/lib/needs-of-tests.py --only FILE BUILD SUITE...      the files, of the tests alone whose names are in FILE, one a line

Two configurations of one tree share most of their programs. A test whose files are the same bytes in both says the same
twice, so .ci/run repeats the others alone.
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess

# By these a program sees the size of a page. The libc, too, uses them, to give the same whatever the size is.
OF_PAGES = {'getauxval', 'getpagesize', 'madvise', 'memfd_create', 'mincore', 'mlock', 'mmap', 'mmap64', 'mprotect', 'mremap', 'msync',
            'munmap', 'posix_madvise', 'posix_memalign', 'pvalloc', 'sbrk', 'shmat', 'syscall', 'sysconf', 'valloc'}

# By these a program starts a thread.
OF_THREADS = {'clone', 'clone3', 'pthread_create', 'thrd_create'}


def introspect(build, what):
    return json.loads(subprocess.check_output(['meson', 'introspect', what, str(build)]))


def files_of_tests(tests, targets, suites, build):
    """{test: its files}, for the tests of these suites. A suite is PROJECT:NAME to meson."""
    made = {target['id']: [os.path.relpath(name, build) for name in target['filename']] for target in targets}
    return {test['name']: sorted({name for one in test['depends'] for name in made[one]}) for test in tests
            if {suite.split(':')[-1] for suite in test['suite']} & set(suites)}


def with_programs(tests, targets, suites, build):
    programs = [target for target in targets if target['type'] in ('executable', 'shared library', 'shared module')]
    made = {name for target in programs for name in target['filename']}
    return [test for test, names in files_of_tests(tests, targets, suites, build).items() if any(str(build / name) in made for name in names)]


def shared_libraries(targets, build):
    """{library: the name by which programs load it}, of those that are built."""
    files = [os.path.relpath(name, build) for target in targets if target['type'] == 'shared library' for name in target['filename']]
    return {name: (pathlib.Path(name).name.split('.so')[0] + '.so').encode() for name in files if (build / name).exists()}


def words_of(test):
    """Its command line and environment, where folders of libraries stand."""
    return [pathlib.Path(word) for text in [*test['cmd'], *test['env'].values()] for word in text.split(':')]


def with_libraries(files, tests, libraries, build):
    """Which test loads which library meson does not say. Whatever loads one has its name in it, or is given its folder."""
    contents = {name: (build / name).read_bytes() for name in {*libraries, *(name for names in files.values() for name in names)}}
    loads = {name: [library for library, so in libraries.items() if so in content] for name, content in contents.items()}
    given = {test['name']: words_of(test) for test in tests}

    def of_test(test, names):
        found = {library for library in libraries if {build / library, (build / library).parent} & set(given[test])}
        more = found.union(*(loads[name] for name in names))
        while more - found:
            found |= more
            more = found.union(*(loads[name] for name in found))
        return sorted({*names, *found})
    return {test: of_test(test, names) for test, names in files.items()}


def sums_of(build, files):
    return {test: {name: hashlib.sha256((build / name).read_bytes()).hexdigest() for name in names}
            for test, names in files.items()}


def changed(before, now):
    return [test for test, sums in now.items() if before.get(test) != sums]


def imported_by(file):
    lines = subprocess.run(['nm', '-D', '--undefined-only', file], capture_output=True, text=True, check=False).stdout.splitlines()
    return {line.split()[-1].split('@')[0] for line in lines}


def that_import(wanted, files, build):
    """A script imports nothing, so only what it runs counts."""
    imports = {name: imported_by(build / name) for name in {name for names in files.values() for name in names}}
    return [test for test, names in files.items() if any(imports[name] & wanted for name in names)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--save', type=pathlib.Path)
    parser.add_argument('--changed', type=pathlib.Path)
    parser.add_argument('--pages', action='store_true')
    parser.add_argument('--threads', action='store_true')
    parser.add_argument('--programs', action='store_true')
    parser.add_argument('--only', type=pathlib.Path)
    parser.add_argument('build', type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument('suites', nargs='+')
    options = parser.parse_args()
    targets = introspect(options.build, '--targets')
    tests = introspect(options.build, '--tests')
    files = files_of_tests(tests, targets, options.suites, options.build)
    if options.only:
        only = set(options.only.read_text(encoding='utf-8').splitlines())
        files = {test: names for test, names in files.items() if test in only}
    if options.save or options.changed or options.pages or options.threads:
        files = with_libraries(files, tests, shared_libraries(targets, options.build), options.build)
    lines = []
    if options.save:
        options.save.write_text(json.dumps(sums_of(options.build, files)), encoding='utf-8')
    elif options.changed:
        before = json.loads(options.changed.read_text(encoding='utf-8'))
        lines = changed(before, sums_of(options.build, files))
    elif options.pages:
        lines = that_import(OF_PAGES, files, options.build)
    elif options.threads:
        lines = that_import(OF_THREADS, files, options.build)
    elif options.programs:
        lines = with_programs(tests, targets, options.suites, options.build)
    else:
        lines = sorted({name for names in files.values() for name in names})
    for line in lines:
        print(line)


if __name__ == '__main__':
    main()
