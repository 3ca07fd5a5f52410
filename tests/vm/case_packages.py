# SPDX-License-Identifier: Apache-2.0
"""The Debian packages under a live systemd."""
import contextlib

from lab.case import Skip, case, eventually
from service import LISTED, PATIENT, SETTINGS, entries, listed, main_pid, properties, service, waiting_client

DEBS = '/var/cache/vm-lab'
LOWER = '/var/tmp/lower'
NAMES = 'shmemd libshmemclient0 libshmemclient-dev shmemctl libshmd-openshmem0 libshmd-openshmem-dev shmd-nvshmem'

# The same files with other numbers.
MAKE_LOWER = f'''
set -e
mkdir {LOWER}
for deb in {DEBS}/*.deb; do
    rm -rf {LOWER}.unpacked
    dpkg-deb -R "$deb" {LOWER}.unpacked
    sed -i 's/^Version: .*/&~lower/; s/\\((= [^)]*\\))/\\1~lower)/g' {LOWER}.unpacked/DEBIAN/control
    dpkg-deb -Znone -b {LOWER}.unpacked {LOWER} >/dev/null
done
'''


def install(node, folder):
    node.run(f'apt-get install -q -y --no-install-recommends --allow-downgrades {folder}/*.deb', limit=600)


def purge(node):
    node.run(f'apt-get purge -q -y {NAMES}', limit=600)


def version(node):
    return node.run("dpkg-query -W -f '${Version}' shmemd").out


def units(node):
    # The latter's exit status is 1 where there is none.
    return node.execute("systemctl list-units --all --no-legend 'shmemd*'; systemctl list-unit-files --no-legend 'shmemd*'").out


def listens(node):
    return '/run/shmemd/shmemd.sock' in node.run('ss -xl').out


def lists(node):
    return [listed(node, what) for what in LISTED]


def need_packages(node):
    if node.execute(f'ls {DEBS}/*.deb').status != 0:
        raise Skip('what is installed is no package; with --packages FOLDER it is')


@contextlib.contextmanager
def packages(node):
    """They are installed afterwards, whatever the body does to them."""
    try:
        yield
    finally:
        install(node, DEBS)
        node.run(f'usermod -a -G shmemd alice; rm -rf {LOWER} {LOWER}.unpacked')


@case(short=True, packages=True)
def an_upgrade_of_the_packages_keeps_a_running_client(lab):
    node = lab.node(1)
    need_packages(node)
    with service(node, PATIENT), packages(node):
        node.run(MAKE_LOWER, limit=600)
        install(node, LOWER)
        assert version(node).endswith('~lower')
        with waiting_client(node) as (session, ended):
            pid, before = main_pid(node), lists(node)
            assert [one['session'] for one in before[0]] == [session], before
            install(node, DEBS)
            assert not version(node).endswith('~lower')
            eventually(lambda: main_pid(node) not in (0, pid), 'the new version runs')
            eventually(lambda: lists(node) == before, 'the session goes on in it, with all it has')
            wrong = 'sofa-nics = 1\n'
            node.run(f'cat >{SETTINGS}', stdin=PATIENT + wrong)
            pid = main_pid(node)
            # The command typed by hand is carried out; the restart that an upgrade wants is not.
            said = node.run(f'dpkg -i {DEBS}/shmemd_*.deb', limit=600)
            assert 'does not take its settings' in said.err and main_pid(node) == pid, said
            node.run('systemctl restart shmemd.service')
            assert main_pid(node) not in (0, pid)
            eventually(lambda: lists(node) == before, 'the session goes on with a file that is wrong')
            assert 'sofa-nics' in entries(node, 'SETTINGS_HELD')[-1]['MESSAGE']
            assert 'settings kept' in properties(node, 'StatusText')['StatusText']
            node.run('systemctl stop shmemd.service')
            assert 'health: the connection to shmemd broke' in ended().out
        node.run(f'rm {SETTINGS}; shmemctl status')


@case(packages=True)
def packages_listen_when_installed_and_leave_nothing_when_purged(lab):
    node = lab.node(1)
    need_packages(node)
    with service(node), packages(node):
        purge(node)
        install(node, DEBS)
        assert listens(node) and 'shmemd.socket' in units(node)
        node.run('shmemctl status')
        node.run(f'mkdir -p /etc/shmemd && echo "max-qps = 17" >{SETTINGS}')
        purge(node)
        assert 'shmemd' not in units(node)
        assert node.execute('ls -d /etc/shmemd /etc/needrestart/conf.d/shmemd.conf').out == ''
        assert node.execute('getent passwd shmemd; getent group shmemd; pidof shmemd; ls /run/shmemd').out == ''
        assert not listens(node)
