/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only NVML knows of GPUs: links between them and MIG; and UUIDs where the driver's files are not readable.
 *
 * The library is loaded for the call alone, and CUDA_VISIBLE_DEVICES does not concern it. Declarations are our own: fixed by its
 * stable interface, versions in the names of functions. GPUs that sysfs did not show are left out. Not for the control thread.
 */
#include <dlfcn.h>
#include <string.h>

#include "daemon/topo/topo-private.h"

#define NVML_OK 0
#define NVML_MAX_LINKS 36u
#define NVML_UUID_BYTES 96
#define NVML_FEATURE_ENABLED 1u
#define NVML_LINK_TO_GPU 0u
#define NVML_LINK_TO_CPU 1u
#define NVML_LINK_TO_UNKNOWN 255u

struct nvml_device; /* a handle */

struct nvml_pci {
	char bus_id_legacy[16];
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int device_id;
	unsigned int subsystem_id;
	char bus_id[32];
};

struct nvml {
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned int *);
	int (*get)(unsigned int, struct nvml_device **);
	int (*pci)(struct nvml_device *, struct nvml_pci *);
	int (*uuid)(struct nvml_device *, char *, unsigned int);
	int (*name)(struct nvml_device *, char *, unsigned int);
	int (*link_state)(struct nvml_device *, unsigned int, unsigned int *);
	int (*link_pci)(struct nvml_device *, unsigned int, struct nvml_pci *);
	int (*link_type)(struct nvml_device *, unsigned int, unsigned int *); /* NULL with an old library */
	int (*mig)(struct nvml_device *, unsigned int *, unsigned int *); /* NULL with an old library */
};

static bool find(void *library, const char *name, void *function)
{
	void *found = dlsym(library, name);

	memcpy(function, &found, sizeof(found));
	return found;
}

static bool find_all(void *library, struct nvml *nvml)
{
	find(library, "nvmlDeviceGetMigMode", &nvml->mig);
	find(library, "nvmlDeviceGetNvLinkRemoteDeviceType", &nvml->link_type);
	return find(library, "nvmlInit_v2", &nvml->init) && find(library, "nvmlShutdown", &nvml->shutdown) &&
	       find(library, "nvmlDeviceGetCount_v2", &nvml->count) &&
	       find(library, "nvmlDeviceGetHandleByIndex_v2", &nvml->get) &&
	       find(library, "nvmlDeviceGetPciInfo_v3", &nvml->pci) &&
	       find(library, "nvmlDeviceGetUUID", &nvml->uuid) && find(library, "nvmlDeviceGetName", &nvml->name) &&
	       find(library, "nvmlDeviceGetNvLinkState", &nvml->link_state) &&
	       find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &nvml->link_pci);
}

static uint64_t pci_of(const struct nvml_pci *info)
{
	return (uint64_t)info->domain << 16 | (info->bus & 0xff) << 8 | (info->device & 0x1f) << 3;
}

static struct topo_gpu *gpu_of(struct topo_builder *builder, uint64_t pci)
{
	struct topo *topo = builder->topo;

	for (unsigned int i = 0; i < topo->n_gpus; i++)
		if (topo->nodes[topo->gpus[i].node].pci == pci)
			return &topo->gpus[i];
	return NULL;
}

/* Links to the same GPU count together. */
static void add_link(struct topo_builder *builder, uint64_t from, uint64_t to)
{
	for (unsigned int i = 0; i < builder->n_links; i++) {
		if (builder->links[i].from == from && builder->links[i].to == to) {
			builder->links[i].count++;
			return;
		}
	}
	topo_add_links(builder, from, to, 1);
}

static void read_links(struct topo_builder *builder, const struct nvml *nvml, struct nvml_device *device, uint64_t pci)
{
	struct nvml_pci remote;
	unsigned int state, type;

	for (unsigned int link = 0; link < NVML_MAX_LINKS; link++) {
		if (nvml->link_state(device, link, &state) != NVML_OK || state != NVML_FEATURE_ENABLED)
			continue;
		if (!nvml->link_type || nvml->link_type(device, link, &type) != NVML_OK)
			type = NVML_LINK_TO_UNKNOWN;
		if (type == NVML_LINK_TO_CPU)
			continue;
		/* A virtual machine does not see the switches; what is at the other end of such a link is one, unless it is said to be a GPU. */
		if (nvml->link_pci(device, link, &remote) == NVML_OK && gpu_of(builder, pci_of(&remote)))
			add_link(builder, pci, pci_of(&remote));
		else if (type != NVML_LINK_TO_GPU)
			add_link(builder, pci, TOPO_NO_PCI);
	}
}

static void read_gpu(struct topo_builder *builder, const struct nvml *nvml, unsigned int index)
{
	unsigned int mode = 0, pending;
	char text[NVML_UUID_BYTES];
	struct nvml_device *device;
	struct topo_gpu *gpu;
	struct nvml_pci info;

	if (nvml->get(index, &device) != NVML_OK || nvml->pci(device, &info) != NVML_OK)
		return;
	gpu = gpu_of(builder, pci_of(&info));
	if (!gpu)
		return;
	if (nvml->uuid(device, text, sizeof(text)) == NVML_OK)
		topo_copy_text(gpu->uuid, text);
	if (nvml->name(device, text, sizeof(text)) == NVML_OK)
		topo_copy_text(gpu->name, text);
	gpu->has_mig = nvml->mig && nvml->mig(device, &mode, &pending) == NVML_OK && mode == NVML_FEATURE_ENABLED;
	read_links(builder, nvml, device, pci_of(&info));
}

void topo_read_nvml(struct topo_builder *builder, const char *name)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	struct nvml nvml = {0};
	unsigned int n = 0;

	if (!library)
		return;
	if (find_all(library, &nvml) && nvml.init() == NVML_OK) {
		nvml.count(&n);
		for (unsigned int i = 0; i < n && i < TOPO_MAX_GPUS; i++)
			read_gpu(builder, &nvml, i);
		nvml.shutdown();
	}
	dlclose(library);
}
