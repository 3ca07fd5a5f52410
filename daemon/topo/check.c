/* SPDX-License-Identifier: Apache-2.0 */
/* The table of checks, and running one. Keeps nothing. */
#include "daemon/topo/check-private.h"

/* clang-format off */
const struct check check_table[] = {
	{"devices", check_devices, CHECK_OF_NODE, true}, /* RDMA NICs and GPUs are there */
	{"assignment", check_assignment, CHECK_OF_GPUS, true}, /* every GPU has a NIC near it */
	{"settings", check_settings, CHECK_OF_NODE, false}, /* settings name what is here */
	{"driver", check_driver, CHECK_OF_GPUS, true}, /* the GPU's driver, with open kernel modules */
	{"peer-mapping", check_peer_mapping, CHECK_OF_GPUS, true}, /* GPUs may ring NICs: PeerMappingOverride */
	{"stream-memory", check_stream_memory, CHECK_OF_GPUS, true}, /* stream memory operations */
	{"gpu-memory", check_gpu_memory, CHECK_OF_GPUS, true}, /* NICs reach memory of GPUs: dmabuf or peermem */
	{"gdrcopy", check_gdrcopy, CHECK_OF_NODE, true}, /* GDRCopy, where it is there at all */
	{"kernel", check_kernel_version, CHECK_OF_NODE, false}, /* what the kernel has for each doorbell mode */
	{"rdma-core", check_rdma_core, CHECK_OF_NODE, true}, /* what rdma-core has for each doorbell mode */
	{"device-nodes", check_device_nodes, CHECK_OF_NODE, false}, /* nodes of RDMA devices */
	{"memory-lock", check_memory_lock, CHECK_OF_NODE, false}, /* limit of locked memory */
	{"iommu", check_iommu, CHECK_OF_NODE, true}, /* the IOMMU leaves DMA of GPUs and NICs alone */
	{"acs", check_acs, CHECK_OF_NICS, true}, /* bridges let GPUs and NICs talk directly */
	{"pci-link", check_pci_link, CHECK_OF_NICS, true}, /* PCI links run as fast as they can */
	{"port", check_port, CHECK_OF_NICS, true}, /* ports are active */
	{"rate", check_rate, CHECK_OF_NICS, true}, /* ports are equally fast, and as fast as they can be */
	{"mtu", check_mtu, CHECK_OF_NICS, true}, /* MTUs are large, and equal */
	{"gid", check_gid, CHECK_OF_NICS, true}, /* ports have an address that peers reach */
	{"devx", check_devx, CHECK_OF_NICS, true}, /* firmware commands are let through */
	{"atomics", check_atomics, CHECK_OF_NICS, true}, /* masked atomics */
	{"firmware", check_firmware, CHECK_OF_NICS, true}, /* firmware is new enough, and the same */
	{"guids", check_guids, CHECK_OF_NICS, true}, /* no two devices have one GUID */
	{"driven", check_driven, CHECK_OF_NODE, false}, /* the daemon has no NIC left out that it could drive */
	{"threads", check_threads, CHECK_OF_NODE, false}, /* the daemon's threads are near their NICs */
	{"doorbells", check_doorbells, CHECK_OF_NODE, false}, /* clients ring NICs themselves */
	{NULL, NULL, CHECK_OF_NODE, false},
};
/* clang-format on */

/* Whether there is something of that kind; else says so, or that this cannot be known. */
static bool has_any(const struct check_host *host, enum check_of of, struct check_teller *to)
{
	if (of == CHECK_OF_NODE || (of == CHECK_OF_NICS ? host->topo->n_nics : host->topo->n_gpus))
		return true;
	if (!check_has_machine(host, to) || (of == CHECK_OF_NICS && check_unseen_nics(host, to)))
		return false;
	check_say(to, CHECK_OK, "", "", "no %s is here", of == CHECK_OF_NICS ? "RDMA NIC" : "GPU");
	return false;
}

void check_run(const struct check *check, const struct check_host *host, check_tell_fn *tell, void *arg)
{
	struct check_teller to = {.check = check->name, .tell = tell, .arg = arg, .topo = check->needs_functions ? host->topo : NULL};

	if (has_any(host, check->of, &to))
		check->run(host, &to);
}
