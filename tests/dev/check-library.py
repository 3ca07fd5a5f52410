#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libshmd_device.a holds every plain function of rma.h, for every architecture, and units that use it hold none.

Kernels of 1024 threads may call them all: the library keeps to the registers that they have.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import cubin  # noqa: E402

KERNEL = 'shmd_kernel_plain'
DECLARATION = re.compile(r'^SHMDI_API [\w ]+?\b(shmd_dev_\w+)\(', re.M)

# An SM has 65536 registers for 1024 threads.
REGISTERS_MAX = 64


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--nvcc', required=True)
    parser.add_argument('--rma', required=True, help='rma.h, which declares the functions')
    parser.add_argument('--library', required=True)
    parser.add_argument('--archs', required=True, help='what the library was built for, the oldest first')
    parser.add_argument('--plain', required=True, help='object that calls every function and has none of them')
    parser.add_argument('--plain-cubin', required=True, help='the same, as cubin')
    parser.add_argument('--plain-inline', required=True, help='the same calls with the functions in the object')
    parser.add_argument('--unit', required=True, help='object with main() and a kernel that has no function either')
    parser.add_argument('--unit-inline', required=True, help='the same with the function in it')
    return parser.parse_args()


class Linker:
    def __init__(self, nvcc, folder):
        self.nvcc, self.folder = nvcc, folder

    def link(self, *args):
        """Path of what was made, or None, and what was said."""
        path = os.path.join(self.folder, 'linked')
        done = subprocess.run([self.nvcc, *args, '-o', path], capture_output=True, text=True, check=False)
        return (None if done.returncode else path), done.stdout + done.stderr

    def cubin(self, arch, *inputs):
        return self.link(f'-arch=sm_{arch}', '-dlink', '-cubin', *inputs)


def check_units(options, names):
    """Nothing of ours is in a unit that takes it from the library."""
    defined, undefined = cubin.functions(options.plain_cubin)
    if defined != {KERNEL}:
        yield f'a unit that uses the library has {sorted(defined)}'
    if undefined != names:
        yield f'plain.cu and rma.h do not agree on {sorted(undefined ^ names)}'


def check_arch(options, linker, names, arch):
    path, said = linker.cubin(arch, options.plain, options.library)
    if not path:
        yield f'sm_{arch}: {said}'
        return
    defined, undefined = cubin.functions(path)
    if not names <= defined or undefined:
        yield f'sm_{arch}: without {sorted((names - defined) | undefined)}'
    used = cubin.registers(path)
    for name in sorted(names | {KERNEL}):
        if used[name] > REGISTERS_MAX:
            yield f'sm_{arch}: {name} needs {used[name]} registers'


def check_programs(options, linker):
    """Two units that use the library, and units of both kinds."""
    for unit in (options.unit, options.unit_inline):
        path, said = linker.link('-arch=sm_90', unit, options.plain, options.library)
        if not path:
            yield f'{os.path.basename(unit)}: {said}'


def without_code(nvcc, archs):
    """An architecture after the oldest for whose generation the library has no code; None when nvcc knows none."""
    known = subprocess.run([nvcc, '--list-gpu-code'], capture_output=True, text=True, check=True).stdout
    ours = sorted(int(arch) for arch in archs)
    return next((int(arch) for arch in re.findall(r'\bsm_(\d+)$', known, re.M)
                 if int(arch) > ours[0] and int(arch) // 10 not in {arch // 10 for arch in ours}), None)


def check_without_library(options, linker, names):
    """The control, and the header-only use."""
    path, said = linker.cubin('90', options.plain)
    missing = set(re.findall(r"'(shmd_dev_\w+)'", said))
    if path or missing != names:
        yield f'a link without the library does not miss {sorted(names - missing)}'
    path, said = linker.cubin('90', options.plain_inline)
    if not path:
        yield f'functions from the headers alone: {said}'


def main():
    options = arguments()
    with open(options.rma, encoding='utf-8') as f:
        names = set(DECLARATION.findall(f.read()))
    problems = [] if len(names) >= 40 else [f'only {len(names)} functions in {options.rma}']
    archs = options.archs.split(',')
    with tempfile.TemporaryDirectory() as folder:
        linker = Linker(options.nvcc, folder)
        problems += check_units(options, names)
        by_ptx = without_code(options.nvcc, archs)
        for arch in archs + [by_ptx] * (by_ptx is not None):
            problems += check_arch(options, linker, names, arch)
        problems += check_programs(options, linker)
        problems += check_without_library(options, linker, names)
    for problem in problems:
        print(problem)
    print(f'{len(names)} functions, sm_{", sm_".join(archs)}, by PTX sm_{by_ptx}')
    sys.exit(1 if problems else 0)


main()
