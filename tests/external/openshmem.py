#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that others wrote for OpenSHMEM, compiled by our oshcc and run by our oshrun or Hydra: openshmem.py SUITE SOURCE EXPECTED TOOLS [OPTION...]

A line of EXPECTED: program, result (pass, fail, build; either, if the program itself has a race), and the reason where it is not pass.
Any difference fails. Behind the program's name may stand where the line holds: @3 with 3 PEs, @more with more than 2, @odd with an odd number,
@queue over queues, @queue/3 both. With NAMEs only these programs run, and are only compared.
"""
import argparse
import concurrent.futures
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import openshmem_suites

PATHS = {'default': None, 'mapped': 'self,mapped', 'queue': 'self,queue'}


class Progress:
    """A line on stderr when two seconds have passed since the last one."""
    def __init__(self):
        self.last = time.monotonic()

    def tell(self, words):
        if time.monotonic() - self.last > 2:
            self.last = time.monotonic()
            print(f'... {words}', file=sys.stderr, flush=True)


def compile_one(options, program, folder):
    """Where the executable is and what the compiler said; a program without sources was made by its suite."""
    if not program.sources:
        return program.executable, ''
    compiler = options.tools / ('oshcxx' if program.sources[0].suffix == '.cpp' else 'oshcc')
    target = folder / re.sub(r'\W', '-', program.name)
    done = subprocess.run([compiler, '-O2', '-w', '-pthread', '-o', target, *program.sources, *program.flags, '-lm'], capture_output=True,
                          text=True, check=False)
    return target if done.returncode == 0 else None, done.stderr


def compile_all(options, programs, folder, progress):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(compile_one, options, program, folder) for program in programs]
        for n, job in enumerate(jobs):
            job.result()
            progress.tell(f'{n + 1} of {len(jobs)} compiled')
    return [job.result() for job in jobs]


@dataclass
class Way:
    """How programs run."""
    n_pes: int
    over: str
    launcher: str

    def __str__(self):
        return f'{self.n_pes} PEs, {self.over}, {self.launcher}'


OF_PE = 'of-pe-'


def launcher(options, way, folder):
    if way.launcher == 'hydra':
        # It passes on what PEs print as it comes, so a line of one may end in the middle of another's. Files do not.
        return ['mpiexec.hydra', '-n', str(way.n_pes), '-outfile-pattern', f'{folder}/{OF_PE}out.%r', '-errfile-pattern', f'{folder}/{OF_PE}err.%r']
    return [options.tools / 'oshrun', '-np', str(way.n_pes), '--no-prefix']


def words_of_pes(folder):
    words = ''
    for path in sorted(pathlib.Path(folder).glob(f'{OF_PE}*')):
        words += path.read_text(errors='replace')
        path.unlink()
    return words


def run_once(options, program, target, way, folder):
    """The results of a program by their names, and what it printed."""
    words_of_pes(folder)
    paths = {'SHMD_PATHS': PATHS[way.over]} if PATHS[way.over] else {}
    try:
        done = subprocess.run([*launcher(options, way, folder), target, *program.arguments], capture_output=True, text=True,
                              errors='replace', stdin=subprocess.DEVNULL, timeout=options.patience, check=False, cwd=folder,
                              env=os.environ | paths | program.environment)
    except subprocess.TimeoutExpired as late:
        return {program.name: 'fail'}, f'it ran for more than {late.timeout} s'
    words = done.stdout + done.stderr + words_of_pes(folder)
    if program.lines:
        found = {}
        for match in re.finditer(program.lines, words, flags=re.M):
            name = f'{program.name}/{match["name"]}'
            result = {'ok': 'pass', 'skipped': 'skip', 'error': 'fail'}.get(match['result'].lower(), match['result'].lower())
            found[name] = result if found.get(name, 'pass') == 'pass' else found[name]
        # The lines say how each case went; the program itself may end badly behind them.
        return found | {program.name: 'pass' if done.returncode == program.status else 'fail'}, words
    is_right = done.returncode == program.status and re.search(program.good, words) and not (program.bad and re.search(program.bad, words))
    return {program.name: 'pass' if is_right else 'fail'}, words


def run_one(options, program, target, way, folder):
    for _ in range(program.tries):
        results, words = run_once(options, program, target, way, folder)
        if set(results.values()) == {'pass'}:
            break
    return results, words


def wanted(expected, name, way):
    places = [f'@{way.over}/{way.n_pes}', f'@{way.over}', f'@{way.n_pes}', *['@odd'] * (way.n_pes % 2), *['@more'] * (way.n_pes > 2), '']
    return next((expected[name + place][0] for place in places if name + place in expected), 'nothing')


def run_all(options, programs, built, folder, way, progress):
    """Results in the order of the programs; up to --jobs run at once, each in a folder of its own."""
    found = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [target and pool.submit(run_one, options, program, target, way, tempfile.mkdtemp(dir=folder))
                for program, (target, _) in zip(programs, built)]
        for program, job, (_, said) in zip(programs, jobs, built):
            results, words = job.result() if job else ({program.name: 'build'}, said)
            if options.verbose and set(results.values()) != {'pass'}:
                print(f'--- {program.name}, {way}: {results}\n{words[-3000:]}', file=sys.stderr)
            found |= results
            progress.tell(f'{program.name}, {way}: {len(found)} results')
    return found


def expected_lines(path):
    lines = path.read_text().splitlines() if path.is_file() else []
    return {line.split('\t')[0]: line.split('\t')[1:] for line in lines if line and not line.startswith('#')}


def differences(options, expected, found, way):
    """Sentences about results that are not the expected ones."""
    wrong = [f'{name}: {result}, expected {want}' for name, result in found.items()
             if (want := wanted(expected, name, way)) not in (result, 'either')]
    if not options.names:
        wrong += [f'{name}: has no result any more' for name in expected if '@' not in name and name not in found]
    wrong += [f'{name}: a reason is missing' for name, (result, *reason) in expected.items() if result != 'pass' and not reason]
    return wrong


def write(options, expected, found):
    kept = [f'{name}\t' + '\t'.join(words) for name, words in expected.items()
            if name not in found and (options.names or '@' in name) or words[0] == 'either']
    found = {name: result for name, result in found.items() if expected.get(name, [''])[0] != 'either'}
    lines = [f'{name}\t{result}\t{(expected.get(name, []) + ["", ""])[1] if result != "pass" else ""}'.rstrip() for name, result in found.items()]
    options.expected.write_text('\n'.join([f'# {options.commit}', *sorted(lines + kept)]) + '\n')


def some_of(choices):
    def parse(words):
        if not set(words.split(',')) <= set(choices):
            raise argparse.ArgumentTypeError(f'{words}: not of {", ".join(choices)}')
        return words.split(',')
    return parse


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('suite', choices=openshmem_suites.SUITES)
    parser.add_argument('source', type=lambda word: pathlib.Path(word).resolve())
    parser.add_argument('expected', type=pathlib.Path)
    parser.add_argument('tools', type=pathlib.Path, help="the folder of oshcc and oshrun")
    parser.add_argument('--write', action='store_true', help='make the results the expected ones; reasons stay')
    parser.add_argument('--verbose', action='store_true', help='print what programs say that do not pass')
    parser.add_argument('--commit', default='', help=argparse.SUPPRESS)
    parser.add_argument('-n', type=lambda words: [int(word) for word in words.split(',')], default=[2], help='numbers of PEs (default: 2)')
    parser.add_argument('--over', type=some_of(PATHS), default=['default'], help='paths between PEs (default: what the runtime chooses)')
    parser.add_argument('--launcher', type=some_of(('oshrun', 'hydra')), default=['oshrun'], help='oshrun, hydra or both (default: oshrun)')
    parser.add_argument('--patience', type=int, default=180, help='seconds for a program (default: 180)')
    parser.add_argument('--jobs', type=int, default=1, help='programs that run at once, where there are the cores (default: 1)')
    parser.add_argument('names', nargs='*')
    return parser.parse_intermixed_args()


def main():
    options, progress, good = arguments(), Progress(), True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        programs = [program for program in openshmem_suites.SUITES[options.suite](options.source, folder, options.tools.resolve())
                    if not options.names or program.name in options.names]
        built = compile_all(options, programs, folder, progress)
        for n_pes, over, by in itertools.product(options.n, options.over, options.launcher):
            way, expected, start = Way(n_pes, over, by), expected_lines(options.expected), time.monotonic()
            found = run_all(options, programs, built, folder, way, progress)
            if options.write:
                write(options, expected, found)
            wrong = differences(options, expected, found, way)
            n_pass = sum(result == 'pass' for result in found.values())
            print('\n'.join(wrong + [f'{n_pass} of {len(found)} pass: {way}; it took {time.monotonic() - start:.0f} s']), flush=True)
            good &= options.write or not wrong
    sys.exit(0 if good else 1)


main()
