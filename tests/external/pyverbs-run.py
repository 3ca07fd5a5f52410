#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run rdma-core's own tests and compare what each comes to with a committed list (pyverbs.sh, rdma-core.sh).

A line of the list: test, result, reason, with tabs between. Result is pass, fail, skip, or machine: pass or skip, by
what the machine has. The reason of a skip is the test's own word for it; of the others, ours.
"""
import os
import sys
import traceback
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path

# A user who is not root gets another reason for the same.
RAW = 'raw packets'
SAME = {'must be run by root on ethernet link layer': RAW, 'must be done by root on ethernet link layer': RAW,
        'qp type 8 is not supported': RAW, 'raw packet qp': RAW}


def reason_of(text):
    text = ' '.join(str(text).split())
    for part, name in SAME.items():
        if part in text.lower():
            return name
    return text[:120]


class Result(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out

    def note(self, test, result, reason=''):
        name = test.id().removeprefix('tests.')
        self.out.write(f'{name}\t{result}\t{reason}\n')
        self.out.flush()
        print(f'{result} {name} {reason}', flush=True)

    def addSuccess(self, test):
        self.note(test, 'pass')

    def addSkip(self, test, reason):
        self.note(test, 'skip', reason_of(reason))

    def addFailure(self, test, err):
        traceback.print_exception(*err)
        self.note(test, 'fail', reason_of(str(err[1]).split('\n')[0]))

    addError = addFailure


def lend_dmabufs():
    """The DmaBufMR of version 44 calls a method of its DmaBuf that Python does not see, so no test of it can pass
    anywhere: it is lent a DmaBuf that has the method. Where the memory comes from: pyverbs-dmabuf.c."""
    from pyverbs.dmabuf import DmaBuf
    from pyverbs.mr import DmaBufMR

    class Buf(DmaBuf):
        def add_ref(self, mr):
            pass

    class BufMR(DmaBufMR):
        def __init__(self, pd, length, access, dmabuf=None, offset=0, gpu=0, gtt=0):
            super().__init__(pd, length, access, dmabuf or Buf(length + offset, gpu, gtt), offset)

    if not hasattr(DmaBuf, 'add_ref'):
        sys.modules['tests.test_mr'].DmaBufMR = BufMR


def run(source, results, names):
    """As run_tests.py of rdma-core does, with results that a program can read."""
    sys.argv = ['run_tests.py', '--dev', 'mlx5_0', '--gid', '3']
    sys.path.insert(0, source)
    from args_parser import parser
    tests = SourceFileLoader('tests', f'{source}/__init__.py').load_module()
    parser.parse_args()
    lend_dmabufs()
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(names, tests) if names else loader.loadTestsFromModule(tests)
    with open(results, 'w', encoding='utf-8') as out:
        suite.run(Result(out))


def read(path):
    lines = [l for l in Path(path).read_text(encoding='utf-8').splitlines() if l and not l.startswith('#')]
    return {name: (result, reason) for name, result, reason in (l.split('\t') for l in lines)}


def is_as_expected(expected, actual):
    if expected is None or actual is None:
        return False
    if expected[0] == 'machine':
        return actual[0] in ('pass', 'skip')
    if os.geteuid() != 0 and actual == ('skip', RAW):
        return True  # rdma-core asks for root before it tries
    return expected[0] == actual[0] and (expected[0] != 'skip' or expected[1] == actual[1])


def compare(expected_path, results_path, names):
    expected, actual = read(expected_path), read(results_path)
    wrong = 0
    for name in sorted(set(actual) if names else set(expected) | set(actual)):
        if not is_as_expected(expected.get(name), actual.get(name)):
            print(f'{name}: expected {expected.get(name)}, is {actual.get(name)}')
            wrong += 1
    n_pass = sum(result == 'pass' for result, _ in actual.values())
    print(f'{len(actual)} tests: {n_pass} pass; {wrong} not as expected')
    return 1 if wrong else 0


def write(expected_path, results_path, version):
    old = read(expected_path) if Path(expected_path).exists() else {}
    new = read(results_path)
    for name, (result, _) in old.items():
        # Results that the machine decides, and our words for a failure, stay.
        if name in new and (result == 'machine' or (result == 'fail' == new[name][0])):
            new[name] = old[name]
    counts = {r: sum(v[0] == r for v in new.values()) for r in ('pass', 'skip', 'fail', 'machine')}
    with open(expected_path, 'w', encoding='utf-8') as out:
        out.write(f'# {version}\n')
        out.write(f"# {len(new)} tests: " + ', '.join(f'{n} {r}' for r, n in counts.items()) + '\n')
        for name in sorted(new):
            out.write('\t'.join((name, *new[name])) + '\n')
    return 0


def main(argv):
    if argv[1] == 'run':
        return run(argv[2], argv[3], argv[4:])
    if argv[1] == 'compare':
        return compare(argv[2], argv[3], argv[4:])
    return write(argv[2], argv[3], argv[4])


if __name__ == '__main__':
    sys.exit(main(sys.argv))
