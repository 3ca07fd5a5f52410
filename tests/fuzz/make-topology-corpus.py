#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of fuzz-topology, machines of nobody: make-topology-corpus.py tests/fuzz/corpus/topology

Seeds have names that say what they are; what the fuzzer found has other names, and is left alone.
"""
import pathlib
import sys
from xml.sax.saxutils import quoteattr

BRIDGE, FUNCTION_GPU, FUNCTION_IB, FUNCTION_ETH = "0604", "0302", "0207", "0200"


def element(tag, /, *inside, **attrs):
    head = "".join(f" {key}={quoteattr(str(value))}" for key, value in attrs.items())
    return f"<{tag}{head}>{''.join(inside)}</{tag}>" if inside else f"<{tag}{head}/>"


def with_policy(machine, *lines):
    return "\n".join(lines) + "\n\f" + machine


# ---- our own form


def own(*inside, numa_nodes=2, **attrs):
    return element("shmemd-topology", *inside, version=1, numa_nodes=numa_nodes, **attrs)


def gpu(bus, *inside, **attrs):
    return element("function", element("gpu", *inside, uuid=f"GPU-{bus:02x}", **attrs), pci=f"0000:{bus:02x}:00.0",
                   **{"class": FUNCTION_GPU}, vendor="10de", device="2330")


def nic(bus, *inside, name=None, function=0, port=1, **attrs):
    said = {"name": name or f"mlx5_{bus}", "port": port, "state": "active", "rate_mbps": 400000, **attrs}
    return element("function", element("nic", *inside, **said), pci=f"0000:{bus:02x}:00.{function}", **{"class": FUNCTION_IB})


def switch(bus, *inside):
    return element("bridge", *(element("bridge", one, hops=1) for one in inside), hops=1, pci=f"0000:{bus:02x}:00.0")


def own_seeds():
    gid = element("gid", index=3, address="fe80:0000:0000:0000:0000:0000:0000:0001", roce_v2=1, netdev="eth0")
    links = element("links", to="0000:21:00.0", count=4)
    small = own(element("host", switch(1, gpu(0x11, links), nic(0x12)), numa=0), element("host", switch(2, gpu(0x21), nic(0x22)), numa=1))
    yield "own-two-switches", small
    yield "own-one-switch-for-all", own(element("host", switch(1, *(gpu(0x10 + i) for i in range(4)), nic(0x20), nic(0x21)), numa=0))
    yield "own-more-nics-than-gpus", own(element("host", switch(1, gpu(0x10), *(nic(0x20 + i) for i in range(3))), gpu(0x40), numa=0))
    yield "own-sets-that-overlap", own(element("host", element("bridge", nic(0x30), gpu(0x31), switch(1, gpu(0x10), gpu(0x11), nic(0x20)),
                                                               switch(2, gpu(0x12), nic(0x21)), gpu(0x32), hops=1), numa=0))
    yield "own-flat-hosts", own(*(element("host", gpu(0x10 + i), nic(0x20 + i), numa=i // 2) for i in range(4)))
    yield "own-one-numa", own(element("cpu", gpu(0x10), nic(0x20)), nic(0x30), numa_nodes=1)
    yield "own-mig-and-switch-links", own(element("host", gpu(0x10, mig=1, switch_links=18, name="A <GPU> & \"more\""), nic(0x20)), xgmi=1)
    yield "own-abilities", own(element("host", nic(0x20, *[gid] * 6, fabric="ethernet", netdev="eth0", netdev_up="yes", gids="yes", devx="no",
                                                   masked_atomics="yes", dmabuf="no", blueflame="yes", mtu_bytes=9000, lid=7, lanes=4,
                                                   active_mtu_bytes=4096, max_mtu_bytes=4096, max_rate_mbps=400000, max_lanes=4,
                                                   guid="a088c20300ab", node_guid="a088c20300ac", firmware="28.39", pci_mtps=32000,
                                                   pci_width=16, pci_max_mtps=32000, pci_max_width=16, phys_state=5)))
    why_not = own(element("host", gpu(0x10), nic(0x20), nic(0x21, state="down", phys_state=3), nic(0x22, role="management"),
                                     nic(0x23, role="storage"), nic(0x24, role="bridge"), nic(0x25, no_driver=1), nic(0x26, undriven=1),
                                     nic(0x27, rate_mbps=25000), nic(0x20, function=1, pf="0000:20:00.0"),
                                     nic(0x21, function=1, pf="0000:21:00.0"), nic(0x28, bond="bond0", fabric="ethernet"),
                                     nic(0x29, bond="bond0", fabric="ethernet")))
    yield "own-why-not", why_not
    yield "own-ports", own(element("host", gpu(0x10), element("function", *(element("nic", name="a", port=n) for n in (0, 1, 2)),
                                                              pci="0000:20:00.0")))
    yield "own-without-addresses", own(element("host", element("function", element("nic")), element("function", element("nic")),
                                               element("function", element("gpu"))), element("nic", port=3))
    yield "own-functions-below-functions", own(element("function", element("nic"), gpu(0x11, element("bridge", nic(0x12))), pci="1:00.0"))
    yield "own-flat-numa", own(element("host", *(element("function", pci=f"0:{0x10 + i}:00.0", numa=i % 2, **{"class": kind})
                                                 for i, kind in enumerate((FUNCTION_GPU, FUNCTION_IB) * 2))))
    yield "policy-map", with_policy(small, "# who gets what", "gpu-nic-map = 0:mlx5_34, GPU-21:0000:12:00.0:1:3 1:mlx5_34:1:7",
                                    "log-level = debug")
    yield "policy-lists", with_policy(small, "nics-include=mlx5_18:1,0000:22:00.0", "nics-exclude = mlx5_9, mlx5_18=storage a=management")
    for name, line in (("no-gpu", "gpu-nic-map=9:mlx5_18"), ("no-nic", "gpu-nic-map=0:mlx5_9:3"), ("none-included", "nics-include=a"),
                       ("excluded-and-given", "nics-exclude=mlx5_18\ngpu-nic-map=0:mlx5_18"), ("weight", "gpu-nic-map=0:a:1:1001"),
                       ("role", "nics-exclude=a=b"), ("byte", "nics-include=a\x7f\x1b[2J"), ("long-line", "nics-exclude=" + "a," * 4100),
                       ("long-name", "nics-include=" + "a" * 64), ("many", "nics-include=" + "a," * 1030)):
        yield f"hostile-policy-{name}", with_policy(small, line)
    yield "policy-lifts", with_policy(why_not, "gpu-nic-map=0:mlx5_34 0:mlx5_35 0:mlx5_39 0:mlx5_32 0:0000:20:00.1:1:5 0:mlx5_41")
    yield "policy-lost", with_policy(why_not, "gpu-nic-map=0:mlx5_33")


def hostile_own_seeds():
    link = element("links", to="0000:11:00.0", count=2)
    nameless = element("function", element("gpu", link))
    yield "hostile-own-links-of-what-has-no-address", own(element("host", gpu(0x11), nameless))
    yield "hostile-own-gpu-twice", own(gpu(1), gpu(1))
    yield "hostile-own-nic-twice", own(nic(1), nic(1))
    yield "hostile-own-version", element("shmemd-topology", version=2)
    yield "hostile-own-element", own(element("x"))
    yield "hostile-own-word", own(element("nic", state="odd"))
    yield "hostile-own-gpu-in-bridge", own(element("bridge", element("gpu")))
    yield "hostile-own-links-to-nowhere", own(element("links", to="a"))
    yield "hostile-own-gid-of-nobody", own(element("gid", address="fe80"))
    yield "hostile-own-address", own(element("bridge", pci="0:20:00.8"))
    yield "hostile-own-numbers", own(nic(0x10, port=999, lid=-1, rate_mbps=10 ** 30, mtu_bytes="0x10", guid="f" * 40),
                                     element("host", gpu(0x11, switch_links=999), numa=99999), numa_nodes=99999)
    deep = element("function", pci="1:00.0", **{"class": FUNCTION_IB})
    for _ in range(62):
        deep = element("bridge", deep)
    yield "hostile-own-nic-at-the-bottom", own(deep)
    yield "hostile-own-too-deep", own(element("bridge", deep))
    yield "hostile-own-too-many-gpus", own(*(gpu(i) for i in range(65))).replace(' uuid="GPU-', ' a="')


# ---- NCCL


def nccl(*inside):
    return element("system", *inside, version=1)


def cpu(*inside, numaid=0):
    return element("cpu", *inside, numaid=numaid, arch="x86_64", vendor="GenuineIntel")


def pci(bus, kind, *inside):
    return element("pci", *inside, busid=f"0000:{bus:02x}:00.0", **{"class": f"0x{kind}00"}, vendor="0x15b3", device="0x1021",
                   link_speed="16.0 GT/s PCIe", link_width=16)


def nccl_nic(bus, **attrs):
    return pci(bus, FUNCTION_IB, element("nic", element("net", **{"name": f"mlx5_{bus}", "dev": 0, "speed": 200000, "port": 1,
                                                                  "guid": "0xa088c20300ab", "gdr": 1, **attrs})))


def nccl_gpu(bus, *inside):
    return pci(bus, FUNCTION_GPU, element("gpu", *inside, dev=0, sm=90))


def nccl_seeds():
    link = element("nvlink", target="0000:12:00.0", count=4, tclass="0x030200")
    to_switch = element("nvlink", target="fffffff:ffff:ff", count=18, tclass="0x068000")
    yield "nccl-switches", nccl(cpu(pci(1, BRIDGE, nccl_gpu(0x11, link), nccl_nic(0x21)), pci(2, BRIDGE, nccl_gpu(0x12), nccl_nic(0x22))),
                                cpu(pci(3, BRIDGE, nccl_gpu(0x13, to_switch), nccl_gpu(0x14, to_switch)), numaid=1))
    yield "nccl-guessed-nics", nccl(cpu(pci(1, BRIDGE, nccl_gpu(0x11), pci(0x20, FUNCTION_ETH)), pci(0x21, FUNCTION_ETH), numaid=-1))
    yield "nccl-sockets", nccl(cpu(nccl_nic(0x20, port=0, gdr=0), nccl_nic(0x21, port=0), nccl_gpu(0x10), element("nic", element("net"))))
    yield "nccl-xgmi", nccl(cpu(nccl_gpu(0x10, element("xgmi", target="0000:11:00.0", count=1)), nccl_gpu(0x11)))
    yield "nccl-switches-nested", nccl(cpu(pci(1, BRIDGE, pci(2, BRIDGE, nccl_gpu(0x10)), nccl_nic(0x20)), nccl_nic(0x30, port=2)))
    yield "nccl-text", '<?xml version="1.0"?>\n<!DOCTYPE system>\n<!-- a --><system version=\'1\'><![CDATA[<]]>text<cpu\n numaid="&#48;">' \
        '<pci busid="&#x30;000:10:00.0" class="0x030200"/><pci busid="0000:20:00.0" class="0x020700"><net name="a&amp;&lt;&gt;&quot;&apos;" ' \
        '/></pci></cpu ></system>\n'
    yield "hostile-nccl-function-twice", nccl(nccl_gpu(1), nccl_gpu(1))
    yield "hostile-nccl-no-address", nccl(element("pci", busid="nowhere"))
    deep = nccl_gpu(0x10)
    for _ in range(61):
        deep = element("pci", deep, busid="0:1:00.0", **{"class": "0x060400"})
    yield "hostile-nccl-gpu-at-the-bottom", nccl(element("pci", deep, busid="0:1:00.0")).replace("<gpu dev=\"0\" sm=\"90\"/>", "")
    yield "hostile-nccl-many-links", nccl(nccl_gpu(0x10, *(link for _ in range(70))))


# ---- hwloc


def hwloc(*inside, version="2.0", nodeset="0x00000003"):
    return element("topology", obj("Machine", *inside, nodeset=nodeset), version=version)


def obj(kind, *inside, **attrs):
    return element("object", *inside, type=kind, **attrs)


def hwloc_pci(bus, kind, *inside, **attrs):
    return obj("PCIDev", *inside, pci_busid=f"0000:{bus:02x}:00.0", pci_type=f"{kind} [10de:2330] [10de:16c1] a1",
               pci_link_speed="15.75", **attrs)


def info(name, value):
    return element("info", name=name, value=value)


def hwloc_nic(bus, osdev=3, ports=(4,), **attrs):
    said = [info(f"Port{i + 1}State", state) for i, state in enumerate(ports)]
    return hwloc_pci(bus, FUNCTION_IB, obj("OSDev", name=f"ib{bus}", osdev_type=2 if osdev == 3 else 16),
                     obj("OSDev", info("NodeGUID", "ec0d:9a03:0067:fdd4"), *said, name=f"mlx5_{bus}", osdev_type=osdev), **attrs)


def host_bridge(*inside, **attrs):
    return obj("Bridge", *inside, bridge_type="0-1", **attrs)


def pci_bridge(bus, *inside):
    return obj("Bridge", *inside, bridge_type="1-1", pci_busid=f"0000:{bus:02x}:00.0")


def package(node, *inside):
    return obj("Package", obj("NUMANode", nodeset=f"0x{1 << node:08x}"), *inside, nodeset=f"0x{1 << node:08x}")


def hwloc_seeds():
    gpu_of = [hwloc_pci(0x10 + i, FUNCTION_GPU, info("NVIDIAUUID", f"GPU-{i}")) for i in range(4)]
    yield "hwloc-two-packages", hwloc(package(0, host_bridge(pci_bridge(1, gpu_of[0], hwloc_nic(0x20)))),
                                      package(1, host_bridge(pci_bridge(2, gpu_of[1], hwloc_nic(0x21, ports=(4, 1))))))
    yield "hwloc-3", hwloc(package(0, host_bridge(pci_bridge(1, gpu_of[0], hwloc_nic(0x20, osdev=32)))), version="3.0")
    yield "hwloc-1", hwloc(host_bridge(gpu_of[0], gpu_of[1], hwloc_nic(0x20)), version="", nodeset="0x1")
    yield "hwloc-rdma-without-pci", hwloc(package(0, host_bridge(gpu_of[0]), obj("OSDev", name="efa_0", osdev_type=3),
                                                  obj("OSDev", name="efa_1", osdev_type=3)), obj("OSDev", name="software", osdev_type=3))
    several = [host_bridge(gpu_of[i], nodeset=f"0x{3 << 2 * i:08x}") for i in range(2)]
    yield "hwloc-places-of-several-nodes", hwloc(package(0), package(1), package(2), package(3), *several, host_bridge(gpu_of[2], nodeset="0x1"),
                                                 host_bridge(hwloc_nic(0x20), nodeset="0x00000001,0x0000000c"), nodeset="0xffffffff,0xff")
    yield "hwloc-subfunctions", hwloc(host_bridge(hwloc_pci(0x20, FUNCTION_ETH, *(obj("OSDev", name=f"mlx5_{i}", osdev_type=3)
                                                                                   for i in range(3))), gpu_of[0]))
    yield "hwloc-silent", hwloc(host_bridge(hwloc_pci(0x20, FUNCTION_IB), gpu_of[0]))
    yield "hostile-hwloc-port-numbers", hwloc(host_bridge(hwloc_nic(0x20, ports=()).replace(
        info("NodeGUID", "ec0d:9a03:0067:fdd4"), "".join(info(f"Port{n}State", 4) for n in (0, 2, 255, 256, 999, -1)))))
    yield "hwloc-many-ports", hwloc(host_bridge(hwloc_nic(0x20, ports=(4,) * 40), gpu_of[0]))
    yield "hostile-hwloc-no-type", element("topology", element("object"))
    yield "hostile-hwloc-no-class", hwloc(obj("PCIDev", pci_busid="0:0:0.0"))
    yield "hostile-hwloc-bridge-without-address", hwloc(obj("Bridge", bridge_type="1-1"))
    yield "hostile-hwloc-nodesets", hwloc(host_bridge(gpu_of[0], nodeset="0x1," * 40), host_bridge(gpu_of[1], nodeset=",,x,"),
                                          host_bridge(gpu_of[2], nodeset="0x" + "f" * 30), host_bridge(nodeset=""))
    yield "hostile-hwloc-numbers", hwloc(host_bridge(hwloc_pci(0x10, "-1").replace("[10de:", "[-1:"), hwloc_nic(0x20, ports=(-1,)).replace(
        "ec0d:", "-1:")))
    deep = hwloc_nic(0x20)
    for _ in range(58):
        deep = obj("Bridge", deep, bridge_type="0")
    yield "hostile-hwloc-nic-at-the-bottom", element("topology", obj("Bridge", deep, bridge_type="0"))


def hostile_seeds():
    yield "hostile-empty", ""
    yield "hostile-no-xml", "hello"
    yield "hostile-other-xml", "<a/>"
    yield "hostile-two-roots", "<system/><system/>"
    yield "hostile-closed-early", "<system><cpu>\n</system>"
    yield "hostile-no-quotes", "<system><cpu a=b/></system>"
    yield "hostile-cut-in-a-tag", '<system><cpu a="b"'
    yield "hostile-cut-in-a-comment", "<system><!-- "
    yield "hostile-entity", '<system><cpu a="&nonsense;"/></system>'
    yield "hostile-character", '<system><cpu a="&#95"/></system>'
    yield "hostile-zero-byte", '<system><cpu a="\0"/></system>'
    yield "hostile-attributes", "<system><cpu" + "".join(f' a{i}=""' for i in range(50)) + "/></system>"
    yield "hostile-names", own(nic(0x10, name="\x1b[2J'<\"\x7f\xe4 ", netdev=" " * 70, firmware="x" * 70), gpu(0x11, name="&"))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for seeds in (own_seeds, hostile_own_seeds, nccl_seeds, hwloc_seeds, hostile_seeds):
        for name, text in seeds():
            (folder / name).write_bytes(text.encode("latin-1"))


if __name__ == "__main__":
    main()
