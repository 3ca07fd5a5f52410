#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What was installed into --image is what tests/data/installed-files lists, and programs build against it and run.

The image is made by: meson install -C BUILD --destdir IMAGE, from a build with --prefix=/usr.
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import checklib
from checklib import Planted

LIST = checklib.INSTALLED

PROGRAM = '''
#include <stdio.h>
#include <shmemclient.h>
#include <shmd/abi/wqe.h>
int main(void) { puts(shmd_version()); return 0; }
'''

# Two units with kernels, which say nothing of where the functions come from.
KERNELS = {
    'main.cu': '''
#include <stdio.h>
#include <shmemclient.h>
#include <shmd/dev/rma.h>
extern "C" __global__ void other(struct shmd_dev_qp *qp, int *ret_status);
__global__ void quiet(struct shmd_dev_qp *qp, int *ret_status) { *ret_status = shmd_dev_qp_quiet(qp, 0); }
int main(int argc, char **)
{
    if (argc > 1) { quiet<<<1, 1>>>(0, 0); other<<<1, 1>>>(0, 0); }
    puts(shmd_version());
    return 0;
}
''',
    'other.cu': '''
#include <shmd/dev/rma.h>
extern "C" __global__ void other(struct shmd_dev_qp *qp, int *ret_status) { *ret_status = shmd_dev_qp_fence(qp); }
''',
}


def installed(image):
    for folder, _, names in os.walk(image):
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), image)


def compare(wanted, found):
    problems = []
    regexes = {pattern: checklib.path_regex(pattern) for pattern in wanted}
    for pattern, regex in regexes.items():
        if not any(regex.match(path) for path in found):
            problems.append(f'{pattern}: not installed')
    for path in found:
        if not any(regex.match(path) for regex in regexes.values()):
            problems.append(f'{path}: installed, and not in {LIST}')
    return problems


def c_commands(image, folder):
    return [
        f'cc -Wall -Werror -o {folder}/x {folder}/x.c $(pkg-config --cflags --libs shmemclient)',
        f'{folder}/x',
        *(f'cc -Wall -Werror -o {folder}/example {example} $(pkg-config --cflags --libs shmemclient)'
          for example in sorted(pathlib.Path(image).glob('usr/share/doc/shmemclient/examples/*.c'))),
        f'{image}/usr/bin/shmemctl --version',
        f'{image}/usr/sbin/shmemd --version',
    ]


def cuda_commands(image, folder):
    nvcc = shutil.which('nvcc', path=os.environ['PATH'] + ':/usr/local/cuda/bin:/opt/cuda/bin')
    flags = f'pkg-config --define-variable=prefix={image}/usr --cflags --libs'
    units = ' '.join(f'{folder}/{name}' for name in KERNELS)
    # Both uses, and the library without pkg-config: -L, since device links search no system folder.
    library = next(pathlib.Path(image).glob('usr/lib*/**/libshmd_device.a'))
    uses = [f'-rdc=true {units} $({flags} shmemdevice)', f'{units} $({flags} shmemclient)',
            f'-rdc=true -DSHMD_DEV_USE_LIBRARY -I {image}/usr/include {units} -L {library.parent} -lshmd_device -lshmemclient']
    return [command for use in uses for command in (f'{nvcc} -arch=sm_90 -o {folder}/x {use}', f'{folder}/x')]


def build_and_run(image, parts):
    """The words of what failed, or None."""
    pc = next(pathlib.Path(image).glob('usr/lib*/**/shmemclient.pc'))
    env = {**os.environ, 'PKG_CONFIG_LIBDIR': str(pc.parent), 'LD_LIBRARY_PATH': str(pc.parent.parent)}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {'x.c': PROGRAM, **KERNELS}.items():
            (pathlib.Path(folder) / name).write_text(text, encoding='utf-8')
        # The full name of a library does not follow a sysroot.
        stages = [({**env, 'PKG_CONFIG_SYSROOT_DIR': str(image)}, c_commands(image, folder))]
        if 'cuda' in parts:
            stages.append((env, cuda_commands(image, folder)))
        for environment, commands in stages:
            for command in commands:
                done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, check=False)
                builds = ' -o ' in command
                if done.returncode or (not builds and not re.search(r'\d+\.\d+\.\d+', done.stdout)):
                    return f'{command}: exit status {done.returncode}: {done.stdout}{done.stderr}'
    return None


def check(root, options):
    image = pathlib.Path(options.image or root)
    found = sorted(path for path in installed(image) if path != LIST)
    parts = {part for part in ('systemd', 'cuda', 'bitcode') if getattr(options, part)}
    wanted = [pattern for part, pattern in checklib.installed_patterns(root) if not part or part in parts]
    problems = compare(wanted, found)
    if not problems and not options.files_only:
        failure = build_and_run(image.resolve(), parts)
        problems += [failure] if failure else []
    return problems


def add_options(parser):
    parser.add_argument('--image', help='the folder that was installed into')
    parser.add_argument('--systemd', action='store_true', help='the units are installed too')
    parser.add_argument('--cuda', action='store_true', help='the device library is installed too')
    parser.add_argument('--bitcode', action='store_true', help='the device functions as bitcode are installed too')
    parser.add_argument('--files-only', action='store_true', help='build nothing')


def case(name, says, files, **args):
    text = 'usr/bin/a # the program: it\n# a line: of words\nusr/lib*/**/b.so.*\nsystemd: usr/lib/u\ncuda: usr/lib/d.a\n'
    return Planted(name, {LIST: text, **dict.fromkeys(files, '')}, says, {'image': None, 'files_only': True, **args})


PLANTED = [
    case('all there', None, ['usr/bin/a', 'usr/lib/x/b.so.1']),
    case('in usr/lib64', None, ['usr/bin/a', 'usr/lib64/b.so.1']),
    case('with units', None, ['usr/bin/a', 'usr/lib/b.so.1', 'usr/lib/u'], systemd=True),
    case('units too many', 'usr/lib/u: installed, and not in', ['usr/bin/a', 'usr/lib/b.so.1', 'usr/lib/u']),
    case('with the device library', None, ['usr/bin/a', 'usr/lib/b.so.1', 'usr/lib/d.a'], cuda=True),
    case('device library and no units', 'usr/lib/u: installed, and not in',
         ['usr/bin/a', 'usr/lib/b.so.1', 'usr/lib/d.a', 'usr/lib/u'], cuda=True),
    case('a missing device library', 'usr/lib/d.a: not installed', ['usr/bin/a', 'usr/lib/b.so.1'], cuda=True),
    case('a missing file', 'usr/bin/a: not installed', ['usr/lib/b.so.1']),
    case('a missing unit', 'usr/lib/u: not installed', ['usr/bin/a', 'usr/lib/b.so.1'], systemd=True),
    case('an extra file', 'usr/bin/c: installed, and not in', ['usr/bin/a', 'usr/bin/c', 'usr/lib/b.so.1']),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED, add_options)
