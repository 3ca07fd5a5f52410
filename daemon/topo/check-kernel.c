/* SPDX-License-Identifier: Apache-2.0 */
/* Doorbell modes and kinds of memory that kernel, rdma-core and limits allow. Keeps nothing; see check.h. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/topo/check-private.h"
#include "daemon/host/sysfs.h"
#include "proto/base/cleanup.h"

#define VERBS_FOLDER "sys/class/infiniband_verbs"
#define FIRST_RDMA_CORE 44
#define FIRST_WITH_EXPORTS 63

/* ---- the kernel */

static bool is_before(const unsigned int version[2], unsigned int major, unsigned int minor)
{
	return version[0] < major || (version[0] == major && version[1] < minor);
}

/* A version says little where a distribution or a vendor brings newer drivers: what these answered counts. */
static bool has_newer_drivers(const struct check_host *host, struct check_teller *to, const unsigned int version[2])
{
	if (is_before(version, 5, 12) && check_dmabuf(host) == HOST_YES)
		check_say(to, CHECK_OK, "", "", "%u.%u, with drivers of a newer one: they register dmabufs", version[0], version[1]);
	else if (is_before(version, 5, 3) && check_devx_of_any(host->topo) == HOST_YES)
		check_say(to, CHECK_OK, "", "", "%u.%u, with drivers of a newer one: they let commands through to firmware (DEVX)",
			  version[0], version[1]);
	else
		return false;
	return true;
}

/* "4.18.0-553.el8_10.x86_64": of Red Hat and who builds the same. */
bool check_has_backports(const struct check_host *host)
{
	char text[CHECK_FILE_BYTES];

	return check_text(host, CHECK_KERNEL, text) > 0 && strstr(text, ".el") != NULL;
}

void check_say_backports(struct check_teller *to, const unsigned int version[2])
{
	check_say(to, CHECK_WARN, "", "run shmemctl doctor as root where the drivers are loaded: they tell what they have",
		  "not known: %u.%u of a distribution that brings newer drivers to it", version[0], version[1]);
}

void check_kernel_version(const struct check_host *host, struct check_teller *to)
{
	unsigned int version[2];
	int r = check_kernel(host, version);

	if (r < 0)
		check_say_unread(to, "", CHECK_KERNEL, r);
	else if (has_newer_drivers(host, to, version))
		return;
	else if (is_before(version, 5, 12) && check_has_backports(host))
		check_say_backports(to, version);
	else if (is_before(version, 5, 3))
		check_say(to, check_has_mlx5(host->topo) ? CHECK_FAIL : CHECK_WARN, "", "a kernel of 5.12 or later",
			  "%u.%u lets no commands through to firmware (DEVX): no queues on mlx5", version[0], version[1]);
	else if (is_before(version, 5, 7))
		check_say(to, CHECK_WARN, "", "a kernel of 5.12 or later", "%u.%u has no doorbell pages of one's own: no mode uar-mmap, only cpu",
			  version[0], version[1]);
	else if (is_before(version, 5, 12))
		check_say(to, CHECK_WARN, "", "a kernel of 5.12 or later",
			  "%u.%u has doorbell modes uar-mmap and cpu, and registers no dmabufs: memory of GPUs needs peermem", version[0],
			  version[1]);
	else
		check_say(to, CHECK_OK, "", "", "%u.%u: doorbell modes uar-mmap and cpu, dmabufs", version[0], version[1]);
}

/* ---- rdma-core */

/* "libmlx5.so.1.24.44.0": of rdma-core 44.0 */
static unsigned int parse_library(const char *target)
{
	const char *at = strstr(target, "libmlx5.so.");
	unsigned int abi, minor, version;

	return at && sscanf(at, "libmlx5.so.%4u.%4u.%4u", &abi, &minor, &version) == 3 ? version : 0;
}

/* Its version; 0: there is none; or -errno. `path`: what was looked at last. */
static int find_rdma_core(const struct check_host *host, char path[CHECK_PATH_BYTES])
{
	static const char *const folders[] = {"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib"};
	char target[SYSFS_PATH_BYTES];

	for (unsigned int i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		ssize_t n;

		snprintf(path, CHECK_PATH_BYTES, "%s/libmlx5.so.1", folders[i]);
		n = readlinkat(host->root, path, target, sizeof(target) - 1);
		if (n < 0 && errno != ENOENT && errno != ENOTDIR)
			return -errno;
		target[n > 0 ? n : 0] = 0;
		if (n > 0)
			return parse_library(target) ? (int)parse_library(target) : -EBADMSG;
	}
	return 0;
}

void check_rdma_core(const struct check_host *host, struct check_teller *to)
{
	char path[CHECK_PATH_BYTES] = "";
	int version;

	if (!check_has_machine(host, to))
		return;
	if (!check_has_mlx5(host->topo)) {
		check_say(to, CHECK_OK, "", "",
			  "no ConnectX that mlx5 drives is here, which would need it");
		return;
	}
	version = find_rdma_core(host, path);
	if (version < 0)
		check_say_unread(to, "", path, version);
	else if (!version && check_devx_of_any(host->topo) != HOST_NOT_KNOWN)
		check_say(to, CHECK_WARN, "", "see its version: ldconfig -p | grep libmlx5",
			  "not known: libmlx5 was loaded from a folder that is not looked at");
	else if (!version)
		check_say(to, CHECK_FAIL, "", "apt install ibverbs-providers, or dnf install libibverbs", "libmlx5 is not installed");
	else if (version < FIRST_RDMA_CORE)
		check_say(to, CHECK_FAIL, "", "rdma-core 44 or later", "rdma-core %d: too old for shmemd on mlx5, in every doorbell mode", version);
	else
		check_say(to, CHECK_OK, "", "", "rdma-core %d: doorbell modes uar-mmap and cpu; objects are %s", version,
			  version < FIRST_WITH_EXPORTS ? "made by shmemd's own calls, to be kept over restarts" : "exported by it");
}

/* ---- nodes */

/* Whether it is the node of a device whose every port is set aside. */
static bool is_of_spare(const struct check_host *host, const char *name)
{
	char path[CHECK_PATH_BYTES], text[CHECK_FILE_BYTES];
	unsigned int n_spare = 0;

	snprintf(path, sizeof(path), VERBS_FOLDER "/%.32s/ibdev", name);
	if (check_text(host, path, text) < 0)
		return false;
	text[strcspn(text, "\n")] = 0;
	for (unsigned int i = 0; i < host->topo->n_nics; i++) {
		if (strcmp(host->topo->nics[i].seen.name, text))
			continue;
		if (!check_is_spare(host->map, i))
			return false;
		n_spare++;
	}
	return n_spare;
}

static void judge_node(const struct check_host *host, struct check_teller *to, const char *name)
{
	char path[CHECK_PATH_BYTES];
	int r;

	if (is_of_spare(host, name))
		return;
	snprintf(path, sizeof(path), "dev/infiniband/%.32s", name);
	r = check_exists(host, path);
	if (r < 0)
		check_say_unread(to, name, path, r);
	else if (!r)
		check_say(to, CHECK_FAIL, name, "mount /dev/infiniband where shmemd runs (containers, PrivateDevices=), or udevadm trigger",
			  "/%s is not there: the device cannot be opened", path);
}

void check_device_nodes(const struct check_host *host, struct check_teller *to)
{
	_cleanup_(sysfs_close_dir) DIR *dir = sysfs_open_dir(host->root, VERBS_FOLDER);
	int error = dir ? 0 : -errno;
	struct dirent *entry;
	unsigned int n = 0;

	if (error && error != -ENOENT) {
		check_say_unread(to, "", VERBS_FOLDER, error);
		return;
	}
	while (dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, "uverbs", 6))
			continue;
		judge_node(host, to, entry->d_name);
		n++;
	}
	if (!n && !check_has_machine(host, to))
		return;
	if (!n && host->topo->n_nics)
		check_say(to, CHECK_FAIL, "", "modprobe ib_uverbs", "programs may use no NIC: the kernel's ib_uverbs is not loaded");
	else if (!n)
		check_say(to, CHECK_OK, "", "", "there is no RDMA NIC that would need one");
	else if (!to->n_bad)
		check_say(to, CHECK_OK, "", "", "%u, all below /dev/infiniband", n);
}

/* ---- limits */

static bool may_lock_all(const struct check_host *host, const char *folder)
{
	char path[CHECK_PATH_BYTES], text[CHECK_FILE_BYTES];
	const char *caps;

	snprintf(path, sizeof(path), "%s/status", folder);
	caps = check_text(host, path, text) > 0 ? check_line(text, "CapEff:") : NULL;
	return caps && strtoull(caps, NULL, 16) >> CAP_IPC_LOCK & 1;
}

static bool is_unlimited(const char *limit)
{
	return limit && strncmp(limit + strspn(limit, " \t"), "unlimited", strlen("unlimited")) == 0;
}

void check_memory_lock(const struct check_host *host, struct check_teller *to)
{
	bool has_daemon = host->daemon->error == 0 && host->daemon->pid;
	const char *who = has_daemon ? "the daemon" : "no daemon runs; what starts here";
	char folder[32] = "proc/self", path[CHECK_PATH_BYTES], text[CHECK_FILE_BYTES];
	const char *limit;
	bool is_number;
	uint64_t bytes;
	int r;

	if (host->daemon->error && host->daemon->error != -ENOENT)
		check_say_unasked(to, host->daemon->error);
	if (to->n_bad || (has_daemon && !check_has_process(host, to)))
		return;
	if (has_daemon)
		snprintf(folder, sizeof(folder), "proc/%" PRIu32, host->daemon->pid);
	snprintf(path, sizeof(path), "%s/limits", folder);
	r = check_text(host, path, text);
	limit = r < 0 ? NULL : check_line(text, "Max locked memory");
	is_number = limit && sscanf(limit, "%" SCNu64, &bytes) == 1;
	if (!is_number && !is_unlimited(limit))
		check_say_unread(to, "", path, r < 0 ? r : -EBADMSG);
	else if (!is_number || may_lock_all(host, folder))
		check_say(to, CHECK_OK, "", "", "%s may lock all memory", who);
	else
		check_say(to, CHECK_WARN, "",
			  has_daemon ? "systemctl edit shmemd: [Service] LimitMEMLOCK=infinity; then systemctl restart shmemd"
				     : "ulimit -l unlimited, or start shmemd.service, which has no such limit",
			  "%s may lock %" PRIu64 " KiB, for queues and regions of all sessions together", who, bytes >> 10);
}
