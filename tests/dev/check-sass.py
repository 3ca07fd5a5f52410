#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Including the device headers costs nothing: check-sass.py [WITHOUT.cubin WITH.cubin CALLING.cubin]

The three are the same kernels without our headers, with them, and with one call. The first two must hold the same
instructions, constants and resource needs, and no section more; the third must differ from them, in the kernel that
calls and nowhere else. Without arguments there was no nvcc.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import cubin  # noqa: E402

SKIP = 77
CALLER, BYSTANDER = 'scale', 'sum'

# Sections that run on the GPU or describe its needs: code, constants, initialised data, registers and stack, shared memory.
LOADED = ('.text', '.nv.constant', '.nv.global', '.nv.info', '.nv.shared', '.nv.callgraph', '.rel', '.nv.capmerc')


def loaded(path):
    return {name: data for name, data in cubin.sections(path).items() if name.startswith(LOADED)}


def differences(without, included):
    names = sorted(set(without) | set(included))
    return [name for name in names if without.get(name) != included.get(name)]


def main():
    if len(sys.argv) == 1:
        print('no nvcc, or a sanitizer that does not reach a GPU')
        sys.exit(SKIP)
    without, included, calling = map(loaded, sys.argv[1:4])
    code = cubin.kernels(sys.argv[1])
    problems = [f'{name} differs with our headers' for name in differences(without, included)]
    problems += [f'no SASS of {name}' for name in (CALLER, BYSTANDER) if not code.get(name)]
    # The control: a comparison that sees nothing would pass above.
    changed = differences(without, calling)
    if f'.text.{CALLER}' not in changed:
        problems.append('a call changes no SASS')
    if f'.text.{BYSTANDER}' in changed:
        problems.append('a call changes a kernel that makes none')
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
