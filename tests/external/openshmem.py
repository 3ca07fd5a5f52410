#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of an OpenSHMEM suite, compiled by our oshcc and run by our oshrun: openshmem.py SUITE SOURCE EXPECTED BUILD [--write] [-n N] [NAME...]

SUITE is sos. A line of EXPECTED: program, result (pass, fail, build), and the reason where it is not pass. Any difference fails.
With NAMEs only these programs run, and are only compared.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

PATIENCE_SEC = 180


@dataclass
class Program:
    name: str
    source: pathlib.Path
    flags: list = field(default_factory=list)


def check_programs(makefile):
    """The words of check_PROGRAMS of an automake file, but for those of Fortran and MPI."""
    text = makefile.read_text().replace('\\\n', ' ')
    text = re.sub(r'^if (?:HAVE_FORTRAN|USE_PMI_MPI)\n.*?^endif', '', text, flags=re.M | re.S)
    return [word for words in re.findall(r'^check_PROGRAMS \+?=(.*)$', text, flags=re.M) for word in words.split() if not word.endswith('_f')]


def programs_of_sos(root):
    special = {'rma_coverage_pshmem': ('rma_coverage', ['-DTEST_PSHMEM']), 'query_thread_funneled': ('query_thread', ['-DENABLE_THREADS']),
               'mt_lock_test': ('mt_lock_test', [str(root / 'test/unit/mt_lock.c')])}
    for room in ('unit', 'spec-example', 'apps'):
        folder = root / 'test' / room
        for name in check_programs(folder / 'Makefile.am'):
            stem, flags = special.get(name, (name, []))
            source = next(path for suffix in ('.c', '.cpp') if (path := folder / (stem + suffix)).is_file())
            yield Program(f'{room}/{name}', source, ['-I', str(root / 'test/include'), '-fopenmp', *flags])


SUITES = {'sos': programs_of_sos}


def compile_one(options, program, folder):
    compiler = options.tools / ('oshcxx' if program.source.suffix == '.cpp' else 'oshcc')
    target = folder / program.name.replace('/', '-')
    done = subprocess.run([compiler, '-O2', '-w', '-pthread', '-o', target, program.source, *program.flags, '-lm'], capture_output=True,
                          text=True, check=False)
    return target if done.returncode == 0 else None, done.stderr


def run_one(options, target):
    try:
        done = subprocess.run([options.tools / 'oshrun', '-np', str(options.n), target], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE_SEC, check=False)
    except subprocess.TimeoutExpired as late:
        return 'fail', f'it ran for more than {late.timeout} s'
    return 'fail' if done.returncode else 'pass', done.stdout + done.stderr


def results(options):
    programs = [program for program in SUITES[options.suite](options.source) if not options.names or program.name in options.names]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        built = list(pool.map(lambda program: compile_one(options, program, pathlib.Path(folder)), programs))
        for program, (target, words) in zip(programs, built):
            result, words = run_one(options, target) if target else ('build', words)
            if result != 'pass' and options.verbose:
                print(f'--- {program.name}: {result}\n{words[-3000:]}', file=sys.stderr)
            yield program.name, result


def expected_lines(path):
    lines = path.read_text().splitlines() if path.is_file() else []
    return {line.split('\t')[0]: line.split('\t')[1:] for line in lines if line and not line.startswith('#')}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('suite', choices=SUITES)
    parser.add_argument('source', type=pathlib.Path)
    parser.add_argument('expected', type=pathlib.Path)
    parser.add_argument('tools', type=pathlib.Path, help="the folder of oshcc and oshrun")
    parser.add_argument('--write', action='store_true')
    parser.add_argument('--verbose', action='store_true')
    parser.add_argument('--commit', default='')
    parser.add_argument('-n', type=int, default=2)
    parser.add_argument('names', nargs='*')
    options = parser.parse_intermixed_args()
    expected, found = expected_lines(options.expected), dict(results(options))
    wrong = [f'{name}: {result}, expected {expected.get(name, ["nothing"])[0]}' for name, result in found.items()
             if expected.get(name, [''])[0] != result]
    if not options.names:
        wrong += [f'{name}: is no program of the suite any more' for name in expected if name not in found]
    if options.write:
        lines = [f'{name}\t{result}\t{(expected.get(name, []) + ["", ""])[1]}'.rstrip() for name, result in sorted(found.items())]
        options.expected.write_text('\n'.join([f'# {options.commit}', *lines]) + '\n')
    n_pass = sum(result == 'pass' for result in found.values())
    print('\n'.join(wrong + [f'{n_pass} of {len(found)} programs pass with {options.n} PEs']))
    sys.exit(1 if wrong and not options.write else 0)


main()
