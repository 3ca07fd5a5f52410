/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fingerprints of everything that may change on a machine while the daemon runs. They read names and owners of files only and
 * call no driver. Keeps nothing; any thread.
 */
#include "daemon/host/changes.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/host/host.h"
#include "daemon/host/sysfs.h"
#include "proto/base/cleanup.h"

#define FNV_BASIS 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u
#define CLASS_DISPLAY 0x03
#define CLASS_ACCELERATOR 0x12

static uint64_t hash_bytes(const void *bytes, size_t n)
{
	uint64_t hash = FNV_BASIS;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * FNV_PRIME;
	return hash;
}

static int open_root(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The sum over the names in a folder, so that their order does not matter. */
static uint64_t sum_names(int at, const char *folder, uint64_t (*hash_name)(int folder, const char *name))
{
	_cleanup_(sysfs_close_dir) DIR *dir = sysfs_open_dir(at, folder);
	struct dirent *entry;
	uint64_t sum = 0;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			sum += hash_name(dirfd(dir), entry->d_name);
	return sum;
}

static uint64_t hash_name(int folder, const char *name)
{
	return hash_bytes(name, strlen(name));
}

/* The bond or bridge that an interface is in; 0: none. */
static uint64_t hash_master(int folder, const char *netdev)
{
	char path[SYSFS_PATH_BYTES], target[SYSFS_PATH_BYTES], text[2 * SYSFS_PATH_BYTES];

	snprintf(path, sizeof(path), "%.256s/master", netdev);
	if (!sysfs_link(folder, path, target))
		return 0;
	snprintf(text, sizeof(text), "%s %s", path, target);
	return hash_bytes(text, strlen(text));
}

/*
 * The bonds of a device's interfaces, and who may read its product data, since a rule of udev may come late. Only RDMA devices
 * count: interfaces of containers come and go.
 */
static uint64_t hash_device(int folder, const char *nic)
{
	char path[SYSFS_PATH_BYTES];
	struct stat st;
	uint64_t sum;

	snprintf(path, sizeof(path), "%.256s/device/net", nic);
	sum = sum_names(folder, path, hash_master);
	snprintf(path, sizeof(path), "%.256s/device/vpd", nic);
	if (fstatat(folder, path, &st, 0) == 0) {
		const uint64_t facts[2] = {st.st_uid, st.st_mode};

		sum += hash_name(folder, nic) ^ hash_bytes(facts, sizeof(facts));
	}
	return sum;
}

uint64_t changes_of_machine(const char *sysfs, const char *procfs)
{
	_cleanup_close_ int sys = open_root(sysfs), proc = open_root(procfs);
	const uint64_t sums[] = {
		sum_names(sys, "bus/pci/devices", hash_name),
		sum_names(sys, "class/infiniband", hash_name),
		/* UUIDs of GPUs come with their driver, which may be loaded long after the GPUs are there. */
		sum_names(proc, "driver/nvidia/gpus", hash_name),
		sum_names(sys, "class/infiniband", hash_device),
	};

	return hash_bytes(sums, sizeof(sums));
}

uint64_t changes_of_file(const char *path)
{
	uint64_t facts[4] = {0};
	struct stat st;

	if (stat(path, &st) == 0) {
		facts[0] = st.st_ino;
		facts[1] = (uint64_t)st.st_size;
		facts[2] = (uint64_t)st.st_mtim.tv_sec;
		facts[3] = (uint64_t)st.st_mtim.tv_nsec;
	}
	return hash_bytes(facts, sizeof(facts));
}

/* ---- GPUs ---------------------------------------------------------------------------------------------------------- */

bool host_sees_gpu(const char *sysfs, const char *pci)
{
	_cleanup_close_ int sys = open_root(sysfs);
	char path[SYSFS_PATH_BYTES], text[SYSFS_TEXT_BYTES];
	unsigned int class_code;

	snprintf(path, sizeof(path), "bus/pci/devices/%.32s/class", pci);
	if (!sysfs_text(sys, path, text) || sscanf(text, "%x", &class_code) != 1)
		return false;
	return class_code >> 16 == CLASS_DISPLAY || class_code >> 16 == CLASS_ACCELERATOR;
}

static uint64_t count_one(int folder, const char *name)
{
	return 1;
}

static uint64_t count_instance(int folder, const char *name)
{
	return strncmp(name, "gi", 2) == 0;
}

static uint64_t count_instances(int folder, const char *name)
{
	char path[SYSFS_PATH_BYTES];

	snprintf(path, sizeof(path), "%.256s/mig", name);
	return strncmp(name, "gpu", 3) == 0 ? sum_names(folder, path, count_instance) : 0;
}

bool host_has_whole_gpus(const char *procfs, unsigned int n_gpus)
{
	_cleanup_close_ int proc = open_root(procfs);

	return n_gpus && sum_names(proc, "driver/nvidia/gpus", count_one) == n_gpus &&
	       !sum_names(proc, "driver/nvidia/capabilities", count_instances);
}
