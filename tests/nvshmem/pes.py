# SPDX-License-Identifier: Apache-2.0
"""Jobs of NVSHMEM programs for tests: PEs under shmemctl run, and what they must have printed."""
import os
import subprocess
import sys

PATIENCE_SEC = 150


def skip_on_emulators():
    if os.environ.get('MESON_EXE_WRAPPER'):
        print('the launcher starts programs of this machine alone')
        sys.exit(77)


def run(shmemctl, n_pes, command, environment, options=()):
    """With --nvshmem, or in sanitizer builds with the library's folder on the loader's path: a library with a sanitizer cannot come before the sanitizer's own."""
    folder = os.environ.get('SHMEMD_TEST_NVSHMEM_FOLDER')
    how, found = (['--nvshmem'], {}) if not folder else ([], {'LD_LIBRARY_PATH': f'{folder}:{os.environ.get("LD_LIBRARY_PATH", "")}'})
    return subprocess.run([shmemctl, 'run', *how, *options, '-n', str(n_pes), *command], capture_output=True, text=True, timeout=PATIENCE_SEC, check=False,
                          env=os.environ | found | environment)


def expect(done, what, status=0, words=(), output=''):
    if done.returncode != status or output not in done.stdout or any(word not in done.stderr for word in words):
        sys.exit(f'{what}: status {done.returncode}, printed {done.stdout!r} and {done.stderr!r}')
