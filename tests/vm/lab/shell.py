# SPDX-License-Identifier: Apache-2.0
"""Commands of this machine, and names for what they made."""
import hashlib
import subprocess


def output(*command, **options):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def quietly(*command, **options):
    """Runs a command whose output is of interest only when it fails."""
    done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        raise RuntimeError(f'{" ".join(map(str, command))}: exit status {done.returncode}\n{done.stdout[-4000:]}')
    return done.stdout


def digest(*parts):
    return hashlib.sha256('\0'.join(parts).encode()).hexdigest()[:16]
