/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about GPUs that only NVML reports: links between them and MIG; also UUIDs when the driver's files are not readable.
 *
 * The library is loaded for the call alone, and CUDA_VISIBLE_DEVICES does not concern it. The declarations are our own; its
 * stable interface has versions in the names of functions. Not for the control thread.
 */
#include <dlfcn.h>
#include <string.h>

#include "daemon/host/host.h"
#include "daemon/host/sysfs.h"

#define NVML_OK 0
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

/* A virtual machine does not see the switches that some links end in. */
static void read_links(const struct nvml *nvml, struct nvml_device *device, struct host_gpu *gpu)
{
	unsigned int state, type;

	for (unsigned int number = 0; number < HOST_GPU_LINKS; number++) {
		struct host_gpu_link *link = &gpu->links[gpu->n_links];
		struct nvml_pci remote;

		if (nvml->link_state(device, number, &state) != NVML_OK || state != NVML_FEATURE_ENABLED)
			continue;
		if (!nvml->link_type || nvml->link_type(device, number, &type) != NVML_OK)
			type = NVML_LINK_TO_UNKNOWN;
		if (type == NVML_LINK_TO_CPU)
			continue;
		link->to = nvml->link_pci(device, number, &remote) == NVML_OK ? pci_of(&remote) : HOST_NO_PCI;
		link->is_to_gpu = type == NVML_LINK_TO_GPU;
		gpu->n_links++;
	}
}

static bool read_gpu(const struct nvml *nvml, unsigned int index, struct host_gpu *ret_gpu)
{
	unsigned int mode = 0, pending;
	char text[NVML_UUID_BYTES];
	struct nvml_device *device;
	struct nvml_pci info;

	*ret_gpu = (struct host_gpu){.n_links = 0};
	if (nvml->get(index, &device) != NVML_OK || nvml->pci(device, &info) != NVML_OK)
		return false;
	ret_gpu->pci = pci_of(&info);
	if (nvml->uuid(device, text, sizeof(text)) == NVML_OK)
		host_copy_text(ret_gpu->uuid, sizeof(ret_gpu->uuid), text);
	if (nvml->name(device, text, sizeof(text)) == NVML_OK)
		host_copy_text(ret_gpu->name, sizeof(ret_gpu->name), text);
	ret_gpu->has_mig = nvml->mig && nvml->mig(device, &mode, &pending) == NVML_OK && mode == NVML_FEATURE_ENABLED;
	read_links(nvml, device, ret_gpu);
	return true;
}

unsigned int host_ask_nvml(const char *name, struct host_gpu *gpus, unsigned int max)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	unsigned int n_devices = 0, n = 0;
	struct nvml nvml = {0};

	if (!library)
		return 0;
	if (find_all(library, &nvml) && nvml.init() == NVML_OK) {
		nvml.count(&n_devices);
		for (unsigned int i = 0; i < n_devices && n < max; i++)
			n += read_gpu(&nvml, i, &gpus[n]);
		nvml.shutdown();
	}
	dlclose(library);
	return n;
}
