# SPDX-License-Identifier: Apache-2.0
"""The lower layer of the disk: Debian 12 and its kernel, from packages, kept until a version or what is listed here changes.

A folder base-KEY that is there is complete: it is made under another name and renamed.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess

from lab import Missing
from lab.shell import digest, output, quietly
from lab.progress import step

SUITE = 'bookworm'
KERNEL = 'linux-image-amd64'
PACKAGES = ['systemd', 'systemd-sysv', 'dbus', 'udev', 'kmod', 'busybox-static', 'iproute2', 'procps', 'qemu-guest-agent',
            'rdma-core', 'ibverbs-utils', 'ibverbs-providers', 'perftest', 'python3-minimal',
            'libevent-core-2.1-7', 'libprotobuf-c1', 'libsystemd0']
UNWANTED = ['/usr/share/doc/*', '/usr/share/locale/*', '/usr/share/man/*', '/usr/share/info/*']

# Drivers of the disk, the network and the agent's console; the initial file system holds nothing else.
EARLY_MODULES = ['virtio_pci', 'virtio_blk', 'virtio_net', 'virtio_console', 'virtio_rng', 'crc32c_generic', 'ext4']
# For the cases; udev and the cases load them. rdma_rxe wants crc32 by name, which no dependency tells.
LATER_MODULES = ['rdma_rxe', 'ib_uverbs', 'rdma_cm', 'rdma_ucm', 'crc32_generic', 'crc32c_generic', 'veth', 'dummy',
                 'autofs4', 'ipv6', 'af_packet', 'unix', 'fuse', 'configfs', 'efi_pstore', 'loop', 'tun']

# One more whenever the steps below make something else of the same lists.
STEPS = 1

INIT = '''#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
for module in $(/bin/busybox cat /modules); do /bin/busybox insmod "/$module"; done
node=$(/bin/busybox sed 's/.*shmemd.node=\\([0-9]*\\).*/\\1/' /proc/cmdline)
/bin/busybox ip link set eth0 up
/bin/busybox ip address add "10.77.0.$node/24" dev eth0
/bin/busybox mount -t ext4 -o noatime /dev/vda /disk || exec /bin/busybox poweroff -f
/bin/busybox umount /proc
/bin/busybox mount -o move /dev /disk/dev
exec /bin/busybox switch_root /disk /sbin/init
'''


def candidates(names):
    """{package: version} as the machine's apt would install them."""
    text = output('apt-cache', 'policy', *names, env=dict(os.environ, LC_ALL='C'))
    return dict(re.findall(r'^(\S+):\n(?:.*\n)??  Candidate: (?!\(none\))(\S+)', text, re.M))


def kernel_package():
    found = re.search(r'Depends: (linux-image-\S+)', output('apt-cache', 'depends', KERNEL))
    if not found:
        raise Missing(f'apt-get knows no {KERNEL}: this needs the packages of Debian 12')
    return found[1]


def versions():
    """Text that changes when a package does. An apt without lists is given some, once."""
    for attempt in 'as it is', 'updated':
        found = candidates([KERNEL, *PACKAGES])
        if len(found) == 1 + len(PACKAGES):
            return json.dumps(found, sort_keys=True)
        if attempt == 'as it is':
            with step('apt-get update'):
                subprocess.run(['apt-get', 'update', '-q'], check=False, stdout=subprocess.DEVNULL)
    lacking = sorted({KERNEL, *PACKAGES} - set(found))
    raise Missing(f'apt-get has no {", ".join(lacking)}: this needs the packages of Debian 12')


def module_closure(tree, names):
    """The modules with all that they need, in an order in which they can be loaded; those built in are left out."""
    needs = {}
    for line in (tree / 'modules.dep').read_text().splitlines():
        path, _, rest = line.partition(':')
        needs[path] = rest.split()
    by_name = {pathlib.Path(path).name.split('.')[0].replace('-', '_'): path for path in needs}
    order = []
    for name in names:
        path = by_name.get(name)
        # modules.dep names the nearest need first.
        for one in [*reversed(needs[path]), path] if path else []:
            if one not in order:
                order.append(one)
    return order


def copy_modules(source, target, names):
    order = module_closure(source, names)
    for path in order:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / path, target / path)
    return order


def bootstrap(root):
    options = ['--dpkgopt=force-unsafe-io', *(f'--dpkgopt=path-exclude={pattern}' for pattern in UNWANTED)]
    quietly('mmdebstrap', '--variant=minbase', '--include=' + ','.join(PACKAGES), *options, SUITE, str(root))


def unpack_kernel(folder):
    """Unpacked, not installed. Returns the folder of its modules."""
    folder.mkdir()
    quietly('apt-get', 'download', '-q', kernel_package(), cwd=folder)
    [package] = folder.glob('*.deb')
    quietly('dpkg', '-x', str(package), str(folder))
    package.unlink()
    [modules] = (folder / 'lib/modules').iterdir()
    quietly('depmod', '-b', str(folder), modules.name)
    return modules


def make_initial(folder, root, modules):
    """The initial file system, of busybox, what mounts the disk, and a script."""
    tree = folder / 'initial'
    for name in ('bin', 'dev', 'proc', 'disk', 'modules.d'):
        (tree / name).mkdir(parents=True)
    shutil.copy(root / 'bin/busybox', tree / 'bin/busybox')
    order = copy_modules(modules, tree / 'modules.d', EARLY_MODULES)
    (tree / 'modules').write_text(''.join(f'modules.d/{path}\n' for path in order))
    (tree / 'init').write_text(INIT)
    (tree / 'init').chmod(0o755)
    names = '\n'.join(str(path.relative_to(tree)) for path in sorted(tree.rglob('*')))
    with open(folder / 'initrd', 'wb') as file:
        subprocess.run(['cpio', '-o', '-H', 'newc', '--quiet', '-R', '0:0'], cwd=tree, input=names.encode(), stdout=file,
                       check=True)
    shutil.rmtree(tree)


def make(folder):
    """Returns folder/base-KEY, which holds root, vmlinuz and initrd."""
    key = digest(versions(), *UNWANTED, *EARLY_MODULES, *LATER_MODULES, INIT, str(STEPS))
    base, part = folder / f'base-{key}', folder / 'base.part'
    if base.is_dir():
        return base
    for old in [part, *folder.glob('base-*')]:
        shutil.rmtree(old, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        with step(f'Debian 12 from its packages ({len(PACKAGES)} and what they need)'):
            bootstrap(part / 'root')
        with step('its kernel'):
            modules = unpack_kernel(part / 'kernel')
    except RuntimeError as error:
        raise Missing(f'no root file system can be made of the packages of Debian 12: {error}') from error
    with step('what its kernel needs'):
        shutil.copy(next((part / 'kernel/boot').glob('vmlinuz-*')), part / 'vmlinuz')
        target = part / 'root/lib/modules' / modules.name
        copy_modules(modules, target, EARLY_MODULES + LATER_MODULES)
        for name in ('modules.builtin', 'modules.builtin.modinfo', 'modules.order'):
            shutil.copy(modules / name, target / name)
        quietly('depmod', '-b', str(part / 'root'), modules.name)
        make_initial(part, part / 'root', modules)
        shutil.rmtree(part / 'kernel')
    part.rename(base)
    return base
