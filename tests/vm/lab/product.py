# SPDX-License-Identifier: Apache-2.0
"""What is laid over Debian: shmemd as it is installed, and the programs that cases run."""
import json
import os
import pathlib
import shutil
import subprocess

from lab import Missing
from lab.machine import Failed
from lab.progress import step
from lab.shell import output, quietly

OPTIONS = ['--prefix=/usr', '--sysconfdir=/etc', '--localstatedir=/var', '-Dcuda=disabled', '-Dsystemd=enabled']
# Programs of tests/, and their places in the machine.
PROGRAMS = ['tests/system/shmemd-demo', 'tests/system/shmemd-traffic', 'tests/vm/vm-waiter', 'tests/vm/vm-memories',
            'tests/vm/vm-refused', 'tests/vm/vm-state-version', 'tests/system/test-stall',
            'tests/system/test-stall-pages', 'tests/system/test-stalls', 'tests/unit/porter/test-porter',
            'tests/unit/porter/test-porter-death', 'tests/unit/porter/test-sandbox', 'tests/lib/fd-keeper']
PROGRAMS_FOLDER = 'usr/lib/shmemd-vm'


def installed_targets(build):
    """What has to be built for an installation: not the tests."""
    targets = json.loads(output('meson', 'introspect', '--targets', str(build)))
    return [os.path.relpath(name, build) for target in targets if target['installed'] for name in target['filename']]


def compile_in(build, top, whole):
    """whole: also what is installed."""
    if not (build / 'build.ninja').exists():
        quietly('meson', 'setup', str(build), str(top), *OPTIONS)
    elif not shutil.which('ninja'):
        raise Missing('ninja not found. Run: tools/deps')
    try:
        quietly('ninja', '-C', str(build), *(installed_targets(build) if whole else []), *PROGRAMS)
    except RuntimeError as what:
        raise Failed(f'shmemd cannot be built: {what}') from what


def make_packages(folder, top):
    """What tools/deb makes of the tree, in the folder."""
    packages = folder / 'packages'
    with step('packages'):
        done = subprocess.run([top / 'tools/deb', '--no-cuda', '--no-install', '--out', packages], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode == 2:
            raise Missing('a case about packages needs some: tools/deps --deb installs what builds them, --packages FOLDER takes '
                          f'others, --build FOLDER does without. {done.stdout.strip()}')
        if done.returncode != 0:
            raise Failed(f'no packages can be built: {done.stdout[-4000:]}')
    return packages


def make(folder, top, build, packages):
    """folder/product with `files` and `packages`. build: a configured tree of its own, or None for one in the folder;
    packages: a folder of .deb files that are installed in place of the files, or None."""
    product = folder / 'product'
    shutil.rmtree(product, ignore_errors=True)
    files = product / 'files'
    with step('shmemd'):
        tree = pathlib.Path(build) if build else folder / 'build'
        compile_in(tree, top, not packages)
        if packages:
            shutil.copytree(packages, product / 'packages', ignore=shutil.ignore_patterns('*dbgsym*'))
        else:
            install(tree, files)
        (files / PROGRAMS_FOLDER).mkdir(parents=True)
        for program in PROGRAMS:
            quietly('install', '-s', str(tree / program), str(files / PROGRAMS_FOLDER))
    return product


def install(tree, files):
    prefix = {option['name']: option['value'] for option in
              json.loads(output('meson', 'introspect', '--buildoptions', str(tree)))}['prefix']
    if prefix != '/usr':
        raise Missing(f'{tree} is configured for {prefix}; the lab needs one that was set up with {" ".join(OPTIONS[:3])}')
    quietly('meson', 'install', '--no-rebuild', '-C', str(tree), '--destdir', str(files.absolute()))
