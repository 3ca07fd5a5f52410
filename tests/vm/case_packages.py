# SPDX-License-Identifier: Apache-2.0
"""The Debian packages under a live systemd."""
import contextlib

from lab.case import Skip, case, eventually
from service import LISTED, PATIENT, listed, main_pid, service, waiting_client

DEBS = '/var/cache/vm-lab'
LOWER = '/var/tmp/lower'
NAMES = 'shmemd libshmemclient0 libshmemclient-dev shmemctl'

# The same files with other numbers.
MAKE_LOWER = f'''
set -e
mkdir {LOWER}
for deb in {DEBS}/*.deb; do
    rm -rf {LOWER}.unpacked
    dpkg-deb -R "$deb" {LOWER}.unpacked
    sed -i 's/^Version: .*/&~lower/; s/\\(libshmemclient0 (= [^)]*\\))/\\1~lower)/' {LOWER}.unpacked/DEBIAN/control
    dpkg-deb -Znone -b {LOWER}.unpacked {LOWER} >/dev/null
done
'''


def install(node, folder):
    node.run(f'apt-get install -q -y --no-install-recommends {folder}/*.deb', limit=600)


def version(node):
    return node.run("dpkg-query -W -f '${Version}' shmemd").out


def units(node):
    # The latter's exit status is 1 where there is none.
    return node.execute("systemctl list-units --all --no-legend 'shmemd*'; systemctl list-unit-files --no-legend 'shmemd*'").out


def listens(node):
    return '/run/shmemd/shmemd.sock' in node.run('ss -xl').out


def lists(node):
    return [listed(node, what) for what in LISTED]


@contextlib.contextmanager
def lower_version(node):
    """In place of the packages, which are back afterwards."""
    try:
        node.run(f'apt-get purge -q -y {NAMES}', limit=600)
        node.run(MAKE_LOWER, limit=600)
        install(node, LOWER)
        node.run('usermod -a -G shmemd alice')
        yield
    finally:
        install(node, DEBS)
        node.run(f'usermod -a -G shmemd alice; rm -rf {LOWER} {LOWER}.unpacked')


@case()
def packages_listen_when_installed_keep_clients_over_an_upgrade_and_leave_nothing_when_purged(lab):
    node = lab.node(1)
    if node.execute(f'ls {DEBS}/*.deb').status != 0:
        raise Skip('the machine has no packages: tools/vm-lab test --packages FOLDER')
    with service(node, PATIENT), lower_version(node):
        assert version(node).endswith('~lower')
        assert listens(node) and 'shmemd.socket' in units(node)
        with waiting_client(node) as (session, ended):
            pid, before = main_pid(node), lists(node)
            assert [one['session'] for one in before[0]] == [session], before
            install(node, DEBS)
            assert not version(node).endswith('~lower')
            eventually(lambda: main_pid(node) not in (0, pid), 'the new version runs')
            eventually(lambda: lists(node) == before, 'the session goes on in it, with all it has')
            node.run('systemctl stop shmemd.service')
            assert 'health: the connection to shmemd broke' in ended().out
        node.run('shmemctl status')

        node.run(f'apt-get purge -q -y {NAMES}', limit=600)
        assert 'shmemd' not in units(node)
        assert node.execute('getent passwd shmemd; getent group shmemd; pidof shmemd; ls /run/shmemd').out == ''
        assert not listens(node)
