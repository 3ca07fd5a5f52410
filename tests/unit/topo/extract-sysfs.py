#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""extract-sysfs.py ARCHIVE FOLDER: what discovery reads of an archived /sys, as FOLDER/sys."""
import pathlib
import re
import sys
import tarfile

WANTED = re.compile(r'/sys/(bus/pci/devices/|class/infiniband/|class/net/|devices/system/node/node\d+/numastat$'
                    r'|devices/(pci[^/]*/).*/(class|vendor|device|numa_node|fw_ver|node_guid|state|phys_state|rate|lid'
                    r'|link_layer|dev_port|mtu|driver)$)')


def main(archive, folder):
    with tarfile.open(archive) as tar:
        for member in tar:
            place = member.name.partition('/')[2]
            if not WANTED.search('/' + place) or not (member.isfile() or member.issym()):
                continue
            target = pathlib.Path(folder) / place
            target.parent.mkdir(parents=True, exist_ok=True)
            if member.issym():
                target.symlink_to(member.linkname)
            else:
                target.write_bytes(tar.extractfile(member).read())


if __name__ == '__main__':
    main(*sys.argv[1:])
