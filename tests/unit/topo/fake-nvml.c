/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NVML for tests: two GPUs at 0000:01:00.0 and 0000:02:00.0 with six links between them, twelve each into a switch, one of each
 * down, and one each to a GPU that is not shown, another to the CPU; the second has MIG. A third one at an address that no sysfs shows.
 */
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define NOT_SUPPORTED 3

struct pci {
	char legacy[16];
	unsigned int domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned int *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device);
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci);
int nvmlDeviceGetUUID(void *device, char *text, unsigned int n_bytes);
int nvmlDeviceGetName(void *device, char *text, unsigned int n_bytes);
int nvmlDeviceGetNvLinkState(void *device, unsigned int link, unsigned int *state);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned int link, struct pci *pci);
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned int link, unsigned int *type);
int nvmlDeviceGetMigMode(void *device, unsigned int *mode, unsigned int *pending);

static char handles[3];

static unsigned int index_of(const void *device)
{
	return (unsigned int)((const char *)device - handles);
}

EXPORT int nvmlInit_v2(void)
{
	return 0;
}

EXPORT int nvmlShutdown(void)
{
	return 0;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned int *n)
{
	*n = 3;
	return 0;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
	*device = &handles[index];
	return 0;
}

EXPORT int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci)
{
	memset(pci, 0, sizeof(*pci));
	pci->bus = 1 + index_of(device);
	return 0;
}

EXPORT int nvmlDeviceGetUUID(void *device, char *text, unsigned int n_bytes)
{
	snprintf(text, n_bytes, "GPU-00000000-0000-0000-0000-00000000000%u", index_of(device));
	return 0;
}

EXPORT int nvmlDeviceGetName(void *device, char *text, unsigned int n_bytes)
{
	snprintf(text, n_bytes, "NVIDIA Fake %u", index_of(device));
	return 0;
}

EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned int link, unsigned int *state)
{
	if (link >= 20)
		return NOT_SUPPORTED;
	*state = link != 0;
	return 0;
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned int link, struct pci *pci)
{
	memset(pci, 0, sizeof(*pci));
	pci->bus = link < 7 ? 2 - index_of(device) : 0x70;
	return 0;
}

/* GPU 0, CPU 1, switch 2; one link is unknown. */
EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned int link, unsigned int *type)
{
	*type = link < 7 || link == 18 ? 0 : link == 19 ? 1 : 2;
	return link == 17 ? NOT_SUPPORTED : 0;
}

EXPORT int nvmlDeviceGetMigMode(void *device, unsigned int *mode, unsigned int *pending)
{
	*mode = *pending = index_of(device) == 1;
	return 0;
}
