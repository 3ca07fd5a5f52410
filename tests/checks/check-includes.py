#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rooms include only what the table allows.

An include of ours names its room ("proto/base/list.h"), or is <shmd/abi/...>, <shmd/dev/...> or a public header of
libclient/include. Headers that are installed side by side (kernels/abi, kernels/dev) may name a sibling alone.
"""
import pathlib
import posixpath
import re
from dataclasses import dataclass

import checklib
from checklib import Planted

# Foreign headers by owner, the last fitting row decides; what is in no row is the C library's or the kernel's.
FOREIGN = {
    'libevent': r'event2/|event\.h$|evutil\.h$',
    'libsystemd': r'systemd/',
    'protobuf-c': r'protobuf-c/|google/protobuf',
    'rdma-core': r'infiniband/|rdma/',
    'mlx5dv': r'infiniband/mlx5',
    'cuda': r'cuda|cooperative_groups|nv/|device_launch|vector_types',
    'nvml': r'nvml',
    'hwloc': r'hwloc',
}

# Files that the build makes; "generated" is for the codec alone.
GENERATED = {'config.h': 'config', 'daemon/man-pages.h': 'config', 'proto/codec-messages.h': 'generated', 'proto/codec-tables.h': 'generated',
             'proto/shmemd.pb-c.h': 'generated', 'shmemd.pb-c.h': 'generated'}


@dataclass
class Room:
    path: str           # a folder, or one file
    ours: tuple = ()    # rooms or files of ours, besides itself
    foreign: tuple = () # rows of FOREIGN
    libc: tuple | None = None  # the only headers of the C library, when not all
    itself: bool = True


# The table. The longest path that fits a file decides; tests/ may include anything and nothing includes tests/.
ROOMS = [
    Room('kernels/abi', libc=('stdint.h', 'stddef.h', 'linux/types.h')),
    Room('kernels/dev', ours=('kernels/abi', 'kernels/dev/impl'), libc=('stdint.h', 'stddef.h')),
    Room('kernels/dev/impl', ours=('kernels/abi', 'kernels/dev'), libc=('stdint.h', 'stddef.h')),
    Room('kernels/host', ours=('kernels/abi',)),
    Room('kernels/cuda', ours=('kernels/abi', 'kernels/dev'), foreign=('cuda',)),
    # It has what it needs of CUDA in a file of its own.
    Room('kernels/bitcode', ours=('kernels/abi', 'kernels/dev'), libc=('stdint.h',)),
    Room('proto/base'),
    Room('proto', ours=('proto/base', 'generated'), foreign=('protobuf-c',)),
    # CUDA's driver, below all that calls it.
    Room('libclient/cuda', ours=('libclient/include',)),
    Room('libclient', ours=('libclient/include', 'libclient/cuda', 'proto', 'proto/base', 'kernels/abi', 'kernels/dev', 'config')),
    Room('libclient/include', ours=('kernels/abi', 'kernels/dev')),
    # The floor above a session: it uses libclient by the public headers alone.
    Room('libclient/runtime', ours=('libclient/include', 'libclient/cuda', 'proto/base', 'kernels/abi', 'kernels/dev', 'config')),
    # A compatibility library is a user of the runtime.
    Room('libclient/compat', ours=('libclient/include', 'kernels/abi', 'kernels/dev')),
    # This one works in GPU memory by itself.
    Room('libclient/compat/nvshmem', ours=('libclient/include', 'libclient/cuda', 'libclient/runtime/gpu/device.h', 'proto/base', 'kernels/abi',
                                           'kernels/dev')),
    Room('libclient/ctl', ours=('libclient/include', 'libclient/compat/nvshmem/versions.h', 'kernels/abi', 'kernels/host', 'daemon/topo/topo.h',
                                'daemon/topo/check.h', 'libclient/runtime/run/run.h', 'proto/base/show.h', 'proto/base/suggest.h', 'proto/base/unicode.h', 'config')),
    Room('daemon/engine', ours=('kernels/abi', 'kernels/host', 'proto/base')),
    Room('daemon/host', ours=('proto/base',)),
    Room('daemon/topo', ours=('daemon/host', 'proto/base'), foreign=('hwloc',)),
    Room('daemon/nic', ours=('proto/base', 'kernels/abi')),
    Room('daemon/nic/mlx5', ours=('daemon/nic/nic.h', 'daemon/nic/doorbell-poll.h', 'daemon/nic/nic-page.h',
                                  'daemon/nic/nic-record.h', 'daemon/host', 'proto/base', 'kernels/abi'), foreign=('rdma-core', 'mlx5dv')),
    Room('daemon/nic/soft', ours=('daemon/nic/nic.h', 'daemon/nic/doorbell-poll.h', 'daemon/nic/nic-page.h',
                                  'daemon/nic/nic-record.h', 'daemon/engine/engine.h', 'daemon/engine/ledger.h', 'proto/base', 'kernels/abi',
                                  'kernels/host')),
    Room('daemon/porter', ours=('proto', 'proto/base', 'kernels/abi')),
    Room('daemon/session', ours=('daemon/nic/nic.h', 'daemon/host/host.h', 'daemon/porter', 'daemon/topo', 'proto', 'proto/base')),
    Room('daemon/restart', ours=('daemon/session', 'daemon/nic/nic.h', 'daemon/porter', 'daemon/service/fdstore.h', 'proto',
                                 'proto/base')),
    Room('daemon', ours=('daemon', 'proto', 'proto/base', 'kernels/abi', 'kernels/host', 'config')),
    Room('daemon/node', ours=('daemon/log.h', 'daemon/loop.h', 'daemon/host/host.h', 'daemon/nic/nic.h', 'daemon/service/fdstore.h',
                              'daemon/session', 'daemon/settings/settings.h', 'daemon/topo/topo.h', 'proto/base')),
    Room('daemon/settings', ours=('daemon/log.h', 'daemon/topo/topo.h', 'proto', 'proto/base', 'config')),
    Room('daemon/settings/settings-apply.c', ours=('daemon', 'proto/base')),
    Room('daemon/settings/settings-apply.h', ours=('daemon', 'proto/base')),
    Room('daemon/service', ours=('daemon/log.h', 'daemon/loop.h', 'daemon/node/nics.h', 'daemon/session', 'proto/base')),
    Room('daemon/clients', ours=('daemon/log.h', 'daemon/loop.h', 'daemon/node/node.h', 'daemon/service', 'daemon/session',
                                 'daemon/settings', 'proto', 'proto/base')),
    Room('daemon/loop.c', ours=('daemon', 'proto/base'), foreign=('libevent',)),
    Room('daemon/log.c', ours=('daemon', 'proto/base', 'config'), foreign=('libsystemd',)),
]

LINE = re.compile(r'^\s*#\s*include(?:_next)?\s*(?:"([^"]+)"|<([^>]+)>|(\S+))')
SOURCES = ('.c', '.h', '.cu', '.cuh', '.in.h')


def within(path, place):
    return path == place or path.startswith(place + '/')


def room_of(path):
    fitting = [room for room in ROOMS if within(path, room.path)]
    return max(fitting, key=lambda room: len(room.path), default=None)


def place_of_quoted(root, source, name):
    """Path in the tree of a quoted include, or None with the problem."""
    if '..' in name.split('/'):
        return None, f'"{name}" leaves its folder by ".."'
    if name in GENERATED:
        return GENERATED[name], None
    sibling = posixpath.join(posixpath.dirname(source), name)
    if '/' not in name and within(source, 'kernels') and (pathlib.Path(root) / sibling).is_file():
        return sibling, None
    if '/' in name and (pathlib.Path(root) / name).is_file():
        return name, None
    return None, f'"{name}" does not name a file from the root of the tree'


def place_of_angled(root, name):
    """Path in the tree when the include is one of our installed headers; else None."""
    if name.startswith('shmd/'):
        return 'kernels/' + name.removeprefix('shmd/')
    public = 'libclient/include/' + name
    return public if (pathlib.Path(root) / public).is_file() else None


def allows_ours(room, place):
    # A file counts for the innermost room it is in: proto/base/list.h is not "proto".
    home = room_of(place)
    home_path = home.path if home else place.split('/')[0]
    if place in GENERATED.values():
        home_path = place
    if room.itself and home_path == room.path:
        return True
    for ours in room.ours:
        if ours == place or ours == home_path:
            return True
        # "daemon" as a permission means all of it; "daemon/topo" only that room.
        if ours == 'daemon' and within(place, 'daemon'):
            return True
    return False


def judge_foreign(room, name):
    owners = [owner for owner, pattern in FOREIGN.items() if re.match(pattern, name)]
    owner = owners[-1] if owners else None
    if owner is None:
        if room.libc is None or name in room.libc:
            return None
        return f'<{name}>: of the C library, {room.path} includes only {", ".join(room.libc)}'
    return None if owner in room.foreign else f'<{name}>: {room.path} does not include {owner}'


def judge(root, source, room, quoted, angled):
    if quoted is not None:
        place, problem = place_of_quoted(root, source, quoted)
        if problem:
            return problem
    else:
        place = place_of_angled(root, angled)
    if place is None:
        return judge_foreign(room, angled)
    if within(place, 'tests'):
        return f'{place}: nothing includes tests'
    return None if allows_ours(room, place) else f'{room.path} does not include {place}'


def check(root, options):
    problems = []
    for path in checklib.our_files(root):
        if not path.endswith(SOURCES) or within(path, 'tests'):
            continue
        room = room_of(path)
        if room is None:
            problems.append(f'{path}:1: is in no room of the table')
            continue
        for number, line in enumerate(checklib.read(root, path).splitlines(), 1):
            match = LINE.match(line)
            if not match:
                continue
            quoted, angled, computed = match.groups()
            problem = 'a computed include' if computed else judge(root, path, room, quoted, angled)
            if problem:
                problems.append(f'{path}:{number}: {problem}')
    return problems


def one(source, line, says, **others):
    files = {source: line + '\n', 'proto/base/list.h': '', 'proto/codec.h': '', 'kernels/abi/wqe.h': '',
             'kernels/host/wqe-parse.h': '', 'daemon/host/host.h': '', 'daemon/nic/nic.h': '', 'daemon/engine/engine.h': '',
             'daemon/session/session.h': '', 'tests/lib/test.h': '', 'libclient/include/shmemclient.h': '', 'libclient/state.h': ''}
    files.update(others)
    return Planted(f'{source} {line}', {**files, source: line + '\n'}, says)


PLANTED = [
    one('daemon/engine/qp.c', '#include "daemon/nic/nic.h"', 'daemon/engine does not include daemon/nic/nic.h'),
    one('daemon/engine/qp.c', '#include "proto/codec.h"', 'daemon/engine does not include proto/codec.h'),
    one('daemon/engine/qp.c', '#include "proto/base/list.h"', None),
    one('daemon/engine/qp.c', '#include <infiniband/verbs.h>', 'does not include rdma-core'),
    one('daemon/nic/soft/soft.c', '#include <infiniband/mlx5dv.h>', 'does not include mlx5dv'),
    one('daemon/nic/mlx5/mlx5.c', '#include <infiniband/mlx5dv.h>', None),
    one('daemon/host/sysfs.c', '#include "daemon/nic/nic.h"', 'daemon/host does not include daemon/nic/nic.h'),
    one('daemon/host/verbs.c', '#include <infiniband/verbs.h>', 'does not include rdma-core'),
    one('daemon/topo/host.c', '#include "daemon/host/host.h"', None),
    one('daemon/nic/soft/soft.c', '#include "daemon/host/host.h"', 'daemon/nic/soft does not include daemon/host/host.h'),
    one('daemon/nic/nic.c', '#include "daemon/session/session.h"', 'daemon/nic does not include'),
    one('daemon/nic/soft/soft.c', '#include "daemon/engine/engine.h"', None),
    one('daemon/session/s.c', '#include "daemon/nic/nic.h"', None),
    one('daemon/session/s.c', '#include <event2/event.h>', 'does not include libevent'),
    one('daemon/session/s.c', '#include "daemon/engine/engine.h"', 'does not include daemon/engine/engine.h'),
    one('daemon/restart/store.c', '#include "daemon/session/session.h"', None),
    one('daemon/restart/store.c', '#include "daemon/engine/engine.h"', 'does not include daemon/engine/engine.h'),
    one('daemon/service/fdstore.c', '#include <systemd/sd-daemon.h>', 'does not include libsystemd'),
    one('daemon/loop.c', '#include <event2/event.h>', None),
    one('daemon/settings/settings.c', '#include "daemon/session/session.h"', 'daemon/settings does not include'),
    one('daemon/settings/settings-apply.c', '#include "daemon/session/session.h"', None),
    one('daemon/clients/client.c', '#include "daemon/nic/nic.h"', 'daemon/clients does not include daemon/nic/nic.h'),
    one('daemon/node/nics.c', '#include "daemon/host/host.h"', None),
    one('daemon/node/nics.c', '#include "daemon/engine/engine.h"', 'daemon/node does not include daemon/engine/engine.h'),
    one('daemon/main.c', '#include <event2/event.h>', 'does not include libevent'),
    one('daemon/main.c', '#include <systemd/sd-daemon.h>', 'does not include libsystemd'),
    one('daemon/main.c', '#include "daemon/session/session.h"', None),
    one('daemon/main.c', '#include <cuda.h>', 'does not include cuda'),
    one('daemon/main.c', '#include "tests/lib/test.h"', 'nothing includes tests'),
    one('kernels/abi/cqe.h', '#include "wqe.h"', None),
    one('kernels/abi/cqe.h', '#include <stdlib.h>', 'of the C library'),
    one('kernels/abi/cqe.h', '#include "../host/wqe-parse.h"', 'leaves its folder'),
    one('kernels/dev/rma.h', '#include <shmd/abi/wqe.h>', None),
    one('kernels/dev/rma.h', '#include "kernels/host/wqe-parse.h"', 'kernels/dev does not include'),
    one('kernels/dev/impl/sq.h', '#include <shmd/dev/args.h>', None),
    one('kernels/cuda/library.cu', '#include <shmd/dev/impl/sq.h>', 'kernels/cuda does not include'),
    one('libclient/client.c', '#include "proto/codec.h"', None),
    one('libclient/client.c', '#include <cuda.h>', 'does not include cuda'),
    one('libclient/client.c', '#include "daemon/nic/nic.h"', 'libclient does not include'),
    one('libclient/ctl/shmemctl.c', '#include <shmemclient.h>', None),
    one('libclient/ctl/dump.c', '#include "kernels/host/wqe-parse.h"', None),
    one('libclient/client.c', '#include "kernels/host/wqe-parse.h"', 'libclient does not include'),
    one('libclient/ctl/shmemctl.c', '#include "proto/codec.h"', 'libclient/ctl does not include'),
    one('proto/codec.c', '#include "proto/shmemd.pb-c.h"', None),
    one('libclient/client.c', '#include "proto/shmemd.pb-c.h"', 'libclient does not include generated'),
    one('libclient/client.c', '#include <shmemclient.h>', None),
    one('libclient/runtime/world.c', '#include <shmemclient.h>', None),
    one('libclient/runtime/world.c', '#include "libclient/state.h"', 'libclient/runtime does not include'),
    one('libclient/runtime/gpu/device.c', '#include "libclient/cuda/cuda-api.h"', None, **{'libclient/cuda/cuda-api.h': ''}),
    one('libclient/cuda/cuda-api.c', '#include "libclient/state.h"', 'libclient/cuda does not include'),
    one('daemon/main.c', '#include "config.h"', None),
    one('daemon/engine/qp.c', '#include "config.h"', 'does not include config'),
    one('libclient/ctl/shmemctl.c', '#include "proto/shmemd.pb-c.h"', 'libclient/ctl does not include'),
    one('proto/base/hash.c', '#include "proto/codec.h"', 'proto/base does not include'),
    one('daemon/nic/nic.c', '#include "nic.h"', 'does not name a file from the root'),
    one('daemon/main.c', '#include HEADER', 'a computed include'),
    one('elsewhere/x.c', '#include <stdio.h>', 'is in no room'),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED)
