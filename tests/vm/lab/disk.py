# SPDX-License-Identifier: Apache-2.0
"""The disk that the machines start from: the base with shmemd in it, kept until the bytes of one of its files change.

Machines write to a copy of their own that ends with them, so the disk itself never changes.
"""
import hashlib
import os
import pathlib
import shutil

from lab.machine import Failed
from lab.shell import digest, quietly
from lab.progress import step

MEBIBYTE = 1 << 20
DISK_ROOM = 384 * MEBIBYTE
PACKAGES = 'var/cache/vm-lab'

HOSTS = ''.join(f'10.77.0.{node} node{node}\n' for node in range(1, 5))


def contents(tree):
    """Text that changes when a file of the tree does: its name, mode or bytes."""
    lines = []
    for path in sorted(tree.rglob('*')):
        if path.is_symlink():
            lines.append(f'{path.relative_to(tree)} -> {os.readlink(path)}')
        elif path.is_file():
            data = hashlib.sha256(path.read_bytes()).hexdigest()
            lines.append(f'{path.relative_to(tree)} {path.stat().st_mode:o} {data}')
    return '\n'.join(lines)


# alice is a client, bob has no rights.
PREPARE = '''
set -e
ldconfig
systemd-sysusers
useradd -m -G shmemd alice
useradd -m bob
journalctl --update-catalog
systemctl enable -q shmemd.socket
mkdir -p /etc/shmemd
'''


# Nothing that a machine which lives for minutes has to do: each costs seconds of an emulated CPU.
MASKED = ['apt-daily.timer', 'apt-daily-upgrade.timer', 'dpkg-db-backup.timer', 'e2scrub_all.timer', 'e2scrub_reap.service',
          'fstrim.timer', 'systemd-tmpfiles-clean.timer', 'systemd-hwdb-update.service', 'systemd-pstore.service',
          'getty@tty1.service', 'getty-static.service', 'systemd-update-utmp.service', 'systemd-networkd.service',
          'rdma-ndd.service', 'iwpmd.service', 'srp_daemon.service', 'ibacm.service', 'ibacm.socket',
          'serial-getty@ttyS0.service', 'systemd-logind.service', 'systemd-binfmt.service',
          'proc-sys-fs-binfmt_misc.automount', 'proc-sys-fs-binfmt_misc.mount', 'sys-kernel-debug.mount',
          'sys-kernel-tracing.mount', 'sys-kernel-config.mount', 'dev-hugepages.mount', 'dev-mqueue.mount',
          'systemd-random-seed.service']


def settle(root):
    """What makes a machine of the lab of a bare root file system."""
    (root / 'etc/fstab').write_text('')
    with open(root / 'etc/hosts', 'a', encoding='utf-8') as hosts:
        hosts.write(HOSTS)
    for unit in MASKED:
        (root / 'etc/systemd/system' / unit).unlink(missing_ok=True)
        (root / 'etc/systemd/system' / unit).symlink_to('/dev/null')
    (root / 'etc/systemd/system/multi-user.target.wants/getty.target').unlink(missing_ok=True)
    (root / 'var/log/journal').mkdir(exist_ok=True)


def bytes_of(tree):
    return sum(path.lstat().st_size + 4096 for path in tree.rglob('*') if not path.is_symlink())


def make(folder, base, product):
    """Returns folder/disk-KEY.ext4. product is a folder with `files`, which are laid over the root, and `packages`."""
    recipe = pathlib.Path(__file__).read_text(encoding='utf-8')
    disk = folder / f'disk-{digest(base.name, recipe, contents(product))}.ext4'
    if disk.exists():
        return disk
    for old in [*folder.glob('disk-*.ext4'), folder / 'disk.part']:
        old.unlink(missing_ok=True)
    root = folder / 'root.part'
    shutil.rmtree(root, ignore_errors=True)
    with step('the disk'):
        quietly('cp', '-a', '--reflink=auto', str(base / 'root'), str(root))
        settle(root)
        install_product(root, product)
        size = (bytes_of(root) + DISK_ROOM) // MEBIBYTE
        quietly('mke2fs', '-q', '-t', 'ext4', '-O', '^has_journal,^metadata_csum', '-m', '0', '-d', str(root),
                str(folder / 'disk.part'), f'{size}M')
        shutil.rmtree(root)
    (folder / 'disk.part').rename(disk)
    return disk


def install_product(root, product):
    packages = sorted((product / 'packages').glob('*.deb')) if (product / 'packages').is_dir() else []
    # The machine has no Python.
    packages = [package for package in packages if not package.name.startswith('python3-')]
    quietly('cp', '-a', f'{product}/files/.', str(root))
    if packages:
        install_packages(root, packages)
    quietly('chroot', str(root), 'sh', '-c', PREPARE)


def install_packages(root, packages):
    """Also left in the machine, for cases that remove and install them."""
    (root / PACKAGES).mkdir(parents=True)
    for package in packages:
        shutil.copy(package, root / PACKAGES)
    # A daemon that the packages' scripts would start has no place on this machine.
    policy = root / 'usr/sbin/policy-rc.d'
    policy.write_text('#!/bin/sh\nexit 101\n')
    policy.chmod(0o755)
    try:
        quietly('chroot', str(root), 'sh', '-c', f'dpkg -i /{PACKAGES}/*.deb')
    except RuntimeError as what:
        raise Failed(f'the packages cannot be installed: {what}') from what
    policy.unlink()
