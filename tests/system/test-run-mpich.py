#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemctl run starts programs of MPICH, which nobody made for it: test-run-mpich.py SHMEMCTL RUN-PE [MPI-PROGRAM]."""
import sys

from ctl_subject import Cases
from run_lab import Lab, by_rank, lacks, text_of


def check_mpich(cases, lab, program):
    done = lab.run('-n', '4', program)
    problems = lacks(done, 0) + ([] if by_rank(done.stdout) == {i: [f'{i} of 4, sum 6'] for i in range(4)} else [text_of(done)])
    problems += lacks(lab.run('-n', '3', program, 'abort'), 9, r'PE 1 \(.*\) called abort with status 9')
    cases.add('programs_of_mpich_start', problems)


def main():
    if len(sys.argv) < 4:
        print('needs mpicc.mpich, of MPICH')
        sys.exit(77)
    cases, lab = Cases(), Lab(sys.argv[1], sys.argv[2])
    check_mpich(cases, lab, sys.argv[3])
    cases.end()


if __name__ == '__main__':
    main()
