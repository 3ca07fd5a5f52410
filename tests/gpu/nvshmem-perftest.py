#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's perftests and examples of NVSHMEM, on shmemd and on NVIDIA's library in turn.

    nvshmem-perftest.py --wheel WHEEL --bundle BUNDLE [--perftest FOLDER] [--examples FOLDER] [--mpi-include FOLDER] [--built FOLDER]
                        [--rounds N] [--seconds N] [--json FILE] [NAME...]

WHEEL: the folder nvidia/nvshmem of an installed wheel. BUNDLE: what tools/gpu-bundle made. --perftest and --examples: the folders of these names in a copy
of NVIDIA's repository, which the user fetches; nothing of it is in this one. --built has programs that are built already, by name, and gets those that
are missing; a folder of its own for each version. NAME: parts of names; without one, all. --seconds: no program is started later. Needs nvcc, mpirun, and a GPU, better two.

Both libraries run the same programs with 2 PEs. A perftest runs --rounds times under each, in turn; a row of its output has the best of its runs for each size, and its
ratio, ours to NVIDIA's, is the geometric mean over the sizes: less is better for a time, more for a rate. An example passes if it ends with the status that it has
under NVIDIA's library and writes the same number of lines that say an error. Exit status: 0 unless an example differs, or a perftest fails with ours alone.
"""
import argparse
import concurrent.futures
import glob
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

FEW_SIZES = ['-b', '8', '-e', '64K', '-f', '8', '-n', '50', '-w', '10']
RATE = ['-b', '1M', '-e', '16M', '-n', '30', '-w', '5']
NO_SIZES = ['-n', '200', '-w', '20']
# Arguments by a part of the name; the first that fits counts.
ARGUMENTS = (('host-pt-to-pt-latency', [*FEW_SIZES, '--dir', 'write', '--issue', 'host']), ('host-pt-to-pt-bw', [*RATE, '--dir', 'write', '--issue', 'host']),
             ('malloc', []), ('stream_latency', []), ('barrier', NO_SIZES), ('sync', NO_SIZES), ('atomic', ['-a', 'inc', '-n', '50', '-w', '10']),
             ('_bw', [*RATE, '-c', '16', '-t', '1024']), ('', FEW_SIZES))
# They need the interface of another library, CUTLASS, a GPU that multicasts, or two programs.
LEFT_OUT = ('shmem-based-init', 'gemmAR', 'tile_')
SECONDS_EACH = 25
# Host rows first: they are the fewest.
ORDER = ('host-coll', 'host-pt-to-pt', 'host', 'device-coll', 'device')
# The sign says what is better.
ROW = re.compile(r'^&&&& PERF (.+)___size__(\d+)___.+ ([\d.]+) ([+-])')
ERROR = re.compile(r'error|fail|incorrect|mismatch', re.IGNORECASE)


def parse():
    parser = argparse.ArgumentParser(description='NVIDIA\'s perftests and examples of NVSHMEM, on shmemd and on NVIDIA\'s library in turn')
    for name in ('wheel', 'bundle'):
        parser.add_argument('--' + name, required=True)
    for name in ('perftest', 'examples', 'mpi-include', 'built', 'json'):
        parser.add_argument('--' + name)
    parser.add_argument('--include', action='append', default=[], help='one more folder of headers')
    parser.add_argument('--rounds', type=int, default=2)
    parser.add_argument('--seconds', type=int, default=600)
    parser.add_argument('names', nargs='*')
    return parser.parse_args()


def sources(args):
    """Programs by name, with their source; perftests in the order in which they run, then examples."""
    found = {}
    for kind in ('host', 'device') if args.perftest else ():
        for path in sorted(glob.glob(f'{args.perftest}/{kind}/**/*.c[up]*', recursive=True)):
            found[os.path.splitext(os.path.relpath(path, args.perftest))[0].replace('/', '-')] = path
    found = dict(sorted(found.items(), key=lambda item: next(i for i, start in enumerate(ORDER) if item[0].startswith(start))))
    for path in sorted(glob.glob(f'{args.examples}/*.c[up]*')) if args.examples else ():
        found['example-' + os.path.splitext(os.path.basename(path))[0]] = path
    return {name: path for name, path in found.items()
            if not any(part in name for part in LEFT_OUT) and (not args.names or any(part in name for part in args.names))}


class Builder:
    def __init__(self, args, scratch):
        self.args, self.scratch = args, scratch
        self.nvcc = shutil.which('nvcc') or '/usr/local/cuda/bin/nvcc'
        self.folder = args.built or scratch
        self.link = [f'-L{args.wheel}/lib', '-lnvshmem_device', '-Xlinker', '-l:libnvshmem_host.so.3', '-lcuda', '-lcudart', '-ldl']
        mpi = glob.glob('/usr/lib/*/libmpi.so.40') + glob.glob('/usr/lib64/openmpi/lib/libmpi.so.40') + glob.glob('/opt/*/lib/libmpi.so.40') + glob.glob('/usr/local/*/lib/libmpi.so.40')
        self.mpi = mpi[:1]

    def flags(self, path):
        flags = ['-std=c++17', '-rdc=true', '-arch=sm_90', f'-I{self.args.wheel}/include', f'-I{os.path.dirname(path)}', '-DOMPI_SKIP_MPICXX']
        flags += [f'-I{folder}' for folder in self.args.include + ([self.args.mpi_include] if self.args.mpi_include else [])]
        if self.args.perftest:
            kind = os.path.relpath(path, self.args.perftest).split('/', maxsplit=1)[0]
            flags += [f'-I{self.args.perftest}/common', f'-I{self.args.perftest}/{kind}/coll']
        return flags + (['-DNVSHMEMTEST_MPI_SUPPORT', '-DNVSHMEM_MPI_SUPPORT'] if self.args.mpi_include else [])

    @staticmethod
    def language(path):
        """What has no kernels takes seconds this way, and most of a minute as CUDA."""
        return ['-x', 'cu'] if path.endswith('.cu') else []

    def run(self, *command):
        done = subprocess.run([self.nvcc, *command], capture_output=True, text=True, check=False)
        return '' if not done.returncode else next((line for line in (done.stderr + done.stdout).splitlines() if 'error' in line), done.stderr[-300:])

    def common(self):
        path = f'{self.args.perftest}/common/utils.cu'
        return self.run('-x', 'cu', *self.flags(path), '-c', path, '-o', f'{self.scratch}/utils.o')

    def build(self, name, path):
        """What is wrong, or ''."""
        program = f'{self.folder}/{name}'
        if os.path.exists(program):
            return ''
        is_example = name.startswith('example-')
        wrong = self.run(*self.language(path), *self.flags(path), '-c', path, '-o', f'{self.scratch}/{name}.o')
        with open(path, encoding='utf-8', errors='replace') as file:
            mpi = ['-Xlinker', self.mpi[0]] if is_example and self.mpi and 'MPI_Init' in file.read() else []
        return wrong or self.run('-arch=sm_90', f'{self.scratch}/{name}.o', *([] if is_example else [f'{self.scratch}/utils.o']), '-o', program, *self.link, *mpi)


class Runner:
    def __init__(self, args, scratch, folder):
        self.args, self.folder = args, folder
        bundle = os.path.abspath(args.bundle)
        self.environment = os.environ | {
            'SHMEMD_SOCKET': f'{scratch}/socket', 'NVSHMEM_MACHINE_READABLE_OUTPUT': '1', 'NVSHMEMTEST_USE_UID_BOOTSTRAP': '1', 'NVSHMEM_BOOTSTRAP': 'MPI',
            'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
        self.paths = f'{args.wheel}/lib:{os.environ.get("LD_LIBRARY_PATH", "")}'
        self.library = f'{bundle}/compat/nvshmem/libnvshmem_host.so.3'
        self.ours = f'{bundle}/lib:{self.paths}'
        self.shmemctl = f'{bundle}/bin/shmemctl'
        with open(f'{scratch}/log', 'w', encoding='utf-8') as log:
            self.daemon = subprocess.Popen([f'{bundle}/bin/shmemd', '--config', '/dev/null', '--socket', f'{scratch}/socket'], stdout=log, stderr=log,
                                           env=self.environment | {'LD_LIBRARY_PATH': self.ours})
        for _ in range(100):
            if not subprocess.run([self.shmemctl, 'status'], env=self.environment | {'LD_LIBRARY_PATH': self.ours}, capture_output=True, check=False).returncode:
                break
            time.sleep(0.05)
        else:
            self.daemon.kill()
            sys.exit(f'shmemd does not answer; its log: {scratch}/log')

    def __call__(self, name, is_ours):
        """Status and output."""
        is_example = name.startswith('example-')
        arguments = [] if is_example else next(words for part, words in ARGUMENTS if part in name)
        program = f'{self.folder}/{name}'
        command = ['mpirun', '--oversubscribe', '-n', '2', 'env', f'LD_LIBRARY_PATH={self.ours if is_ours else self.paths}']
        environment = self.environment
        if is_ours and is_example and 'mpi' not in name and 'uid' not in name:
            command, environment = [self.shmemctl, 'run', '--nvshmem', '-n', '2', '--'], environment | {'LD_LIBRARY_PATH': self.ours}
            # The launcher's own.
            environment = {name: value for name, value in environment.items() if name != 'NVSHMEM_BOOTSTRAP'}
        elif is_ours:
            command.append(f'LD_PRELOAD={self.library}')
        try:
            done = subprocess.run(['timeout', '-k', '2', str(SECONDS_EACH), *command, program, *arguments], capture_output=True, text=True, errors='replace', env=environment, check=False)
        except OSError as error:
            return 127, str(error)
        return done.returncode, done.stdout + done.stderr


def rows_of(output):
    rows = {}
    for line in output.splitlines():
        match = ROW.match(line.lstrip())
        if match:
            job, size, value, sign = match.groups()
            rows.setdefault((job, sign), {})[int(size)] = float(value)
    return rows


def best(known, new, is_rate):
    for size, value in new.items():
        known[size] = max(known.get(size, 0), value) if is_rate else min(known.get(size, math.inf), value)


def perftest(run, name, rounds):
    """Rows by who, and what went wrong by who."""
    rows, wrong = {'ours': {}, 'theirs': {}}, {}
    for number in range(rounds):
        for who in ('ours', 'theirs') if number % 2 == 0 else ('theirs', 'ours'):
            if who in wrong:
                continue
            status, output = run(name, who == 'ours')
            if status:
                wrong[who] = f'status {status}: {" | ".join(output.splitlines()[-3:])[:300]}'
            for key, sizes in rows_of(output).items():
                best(rows[who].setdefault(key, {}), sizes, key[1] == '+')
    return rows, wrong


def tell_perftest(name, rows, wrong):
    results = []
    for who, why in wrong.items():
        print(f'{name:<44} {who}: {why}')
    for key, ours in rows['ours'].items():
        theirs = rows['theirs'].get(key, {})
        ratios = [ours[size] / theirs[size] for size in ours if ours[size] > 0 and theirs.get(size, 0) > 0]
        if ratios:
            mean, first = math.exp(sum(map(math.log, ratios)) / len(ratios)), min(size for size in ours if size in theirs)
            print(f'{name:<44} {key[0][-30:]:<30} {"rate" if key[1] == "+" else "time"} {mean:5.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} sizes; '
                  f'at {first}: {ours[first]:.2f}, {theirs[first]:.2f})', flush=True)
            results.append({'program': name, 'row': key[0], 'is_rate': key[1] == '+', 'ratio': mean, 'least': min(ratios), 'most': max(ratios), 'ours': ours, 'theirs': theirs})
    if not results and not wrong:
        print(f'{name:<44} no row of both', flush=True)
    return results


def example(run, name):
    results = {who: run(name, who == 'ours') for who in ('theirs', 'ours')}
    errors = {who: sum(bool(ERROR.search(line)) and 'No errors' not in line for line in output.splitlines()) for who, (_, output) in results.items()}
    is_alike = results['ours'][0] == results['theirs'][0] and errors['ours'] == errors['theirs']
    print(f'{name:<44} {"the same" if is_alike else "DIFFERS"}: status {results["ours"][0]} and {results["theirs"][0]}, lines with an error {errors["ours"]} and {errors["theirs"]}')
    if not is_alike or results['ours'][0]:
        for who, (_, output) in results.items():
            print(f'    {who}: ' + '\n        '.join(output.splitlines()[-6:]))
    sys.stdout.flush()
    return is_alike


def build_all(builder, programs):
    """Those that are there."""
    begin = time.monotonic()
    if builder.args.perftest and any(not name.startswith('example-') and not os.path.exists(f'{builder.folder}/{name}') for name in programs):
        wrong = builder.common()
        if wrong:
            sys.exit(f'utils.cu: {wrong}')
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = dict(zip(programs, pool.map(lambda item: builder.build(*item), programs.items())))
    for name, wrong in outcomes.items():
        if wrong:
            print(f'{name:<44} is not built: {wrong}')
    print(f'built {sum(not wrong for wrong in outcomes.values())} of {len(outcomes)} in {time.monotonic() - begin:.0f} s', flush=True)
    return [name for name, wrong in outcomes.items() if not wrong]


def run_all(run, names, args):
    begin, results, n_bad = time.monotonic(), [], 0
    for name in names:
        if time.monotonic() - begin > args.seconds:
            print(f'{name:<44} not run: the time is over')
        elif name.startswith('example-'):
            n_bad += not example(run, name)
        else:
            rows, wrong = perftest(run, name, args.rounds)
            n_bad += 'ours' in wrong and 'theirs' not in wrong
            results += tell_perftest(name, rows, wrong)
    return results, n_bad


def main():
    args = parse()
    with tempfile.TemporaryDirectory() as scratch:
        builder = Builder(args, scratch)
        os.makedirs(builder.folder, exist_ok=True)
        names = build_all(builder, sources(args))
        run = Runner(args, scratch, builder.folder)
        try:
            results, n_bad = run_all(run, names, args)
        finally:
            run.daemon.terminate()
            run.daemon.wait()
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as file:
            json.dump(results, file)
    sys.exit(n_bad != 0)


main()
