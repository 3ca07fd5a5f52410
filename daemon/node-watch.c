/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unit has no netlink access, so sysfs is polled every 2 s: the names of PCI functions, RDMA devices and GPUs that NVIDIA's
 * driver has, which bonds the devices' interfaces are in, and who may read their product data. That asks no driver anything. Only where
 * they differ the machine is read again, and once more at the next look: a device is not whole at once. Both are works of the daemon's
 * own, since sysfs may wait for a driver. States and rates of ports are not looked at: the registry knows them. Nor are MTUs, which the
 * map does not use.
 *
 * A machine that cannot be read leaves the map as it is. Control thread, but look_run().
 */
#include "daemon/node-watch.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/node.h"
#include "daemon/session/node-map.h"
#include "daemon/session/registry.h"
#include "daemon/session/work.h"
#include "daemon/topo/topo.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/show.h"

#define MACHINE_LOOK_NSEC (2 * NSEC_PER_SEC)
#define NAMED_NSEC (50 * NSEC_PER_MSEC) /* a developer's file or tree */
#define FNV_BASIS 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u

struct node_watch {
	struct registry *registry;
	struct node_map *map;
	struct loop_timer *timer;
	struct work work;
	uint64_t look_nsec;
	bool is_busy, is_stopped;
	/* of the work, while it is under way */
	uint64_t seen; /* what was there at the last look */
	bool is_settling; /* something was new then */
	struct topo *topo; /* what was read; NULL: there was no need, or it failed */
};

static void node_watch_freep(struct node_watch **watch)
{
	node_watch_free(*watch);
}

/* ---- a look -------------------------------------------------------------------------------------------------------- */

static uint64_t hash_bytes(const void *bytes, size_t n)
{
	uint64_t hash = FNV_BASIS;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * FNV_PRIME;
	return hash;
}

/* Of the names in a folder, in whatever order. */
static uint64_t hash_folder(const char *root, const char *folder)
{
	char path[512];
	struct dirent *entry;
	uint64_t sum = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%.400s/%s", root, folder);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		sum += hash_bytes(entry->d_name, strlen(entry->d_name));
	if (dir)
		closedir(dir);
	return sum;
}

/* Which bond or bridge an interface is in; 0: none. */
static uint64_t hash_master(int folder, const char *netdev)
{
	char path[300], target[256], text[600];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/master", netdev);
	n = readlinkat(folder, path, target, sizeof(target) - 1);
	if (n <= 0)
		return 0;
	target[n] = 0;
	snprintf(text, sizeof(text), "%s %s", path, target);
	return hash_bytes(text, strlen(text));
}

static uint64_t hash_masters_of(const char *root, const char *nic)
{
	char folder[512];
	struct dirent *entry;
	uint64_t sum = 0;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%.300s/class/infiniband/%.100s/device/net", root, nic);
	dir = opendir(folder);
	while (dir && (entry = readdir(dir)))
		sum += hash_master(dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
	return sum;
}

/* Whose product data are and who may read them: a rule of udev may come late. Asks sysfs, no device. */
static uint64_t hash_owner(const char *root, const char *nic)
{
	uint64_t facts[2];
	char path[512];
	struct stat st;

	snprintf(path, sizeof(path), "%.300s/class/infiniband/%.100s/device/vpd", root, nic);
	if (stat(path, &st) < 0)
		return 0;
	facts[0] = st.st_uid;
	facts[1] = st.st_mode;
	return hash_bytes(nic, strlen(nic)) ^ hash_bytes(facts, sizeof(facts));
}

/* Of RDMA devices only: interfaces of containers come and go. */
static uint64_t hash_devices(const char *root)
{
	char folder[512];
	struct dirent *entry;
	uint64_t sum = 0;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%.400s/class/infiniband", root);
	dir = opendir(folder);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			sum += hash_masters_of(root, entry->d_name) +
			       hash_owner(root, entry->d_name);
	if (dir)
		closedir(dir);
	return sum;
}

static uint64_t hash_file(const char *path)
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

static uint64_t look(void)
{
	const char *file = node_named_file(), *sys = node_sysfs();

	if (file)
		return hash_file(file);
	/* UUIDs of GPUs come with their driver, which may be loaded long after they are there. */
	return hash_folder(sys, "bus/pci/devices") +
	       FNV_PRIME * (hash_folder(sys, "class/infiniband") +
			    FNV_PRIME * (hash_folder(node_procfs(), "driver/nvidia/gpus") +
					 FNV_PRIME * hash_devices(sys)));
}

/* It says nothing of the machine, so that is read again: a change is not to be lost. */
static bool is_want(int r)
{
	return r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

static void look_run(struct work *work)
{
	struct node_watch *watch = container_of(work, struct node_watch, work);
	uint64_t seen = look();
	bool is_new = seen != watch->seen;
	int r = 0;

	watch->topo = NULL;
	if (is_new || watch->is_settling)
		r = node_read(&watch->topo);
	if (r < 0)
		watch->topo = NULL;
	if (r < 0 && !is_want(r))
		log_line(LOG_WARNING, NULL, "cannot read this machine again; GPUs get NICs as before");
	watch->seen = seen;
	watch->is_settling = is_new || is_want(r);
}

/* ---- the loop ------------------------------------------------------------------------------------------------------ */

static void look_done(struct work *work)
{
	struct node_watch *watch = container_of(work, struct node_watch, work);

	watch->is_busy = false;
	if (watch->topo && watch->is_settling)
		log_line(LOG_INFO, NULL,
			 "the GPUs, NICs or bonds of this machine have changed: it has %u GPU%s and %u NIC port%s", watch->topo->n_gpus,
			 plural_s(watch->topo->n_gpus), watch->topo->n_nics, plural_s(watch->topo->n_nics));
	if (watch->topo)
		node_map_redraw(watch->map, take_ptr(watch->topo));
	if (!watch->is_stopped)
		loop_timer_arm(watch->timer, watch->look_nsec);
}

static void on_timer(void *arg)
{
	struct node_watch *watch = arg;

	if (watch->is_stopped || watch->is_busy)
		return;
	watch->is_busy = true;
	watch->work = (struct work){.run = look_run, .done = look_done};
	registry_work(watch->registry, watch->registry->blocks, &watch->work);
}

void node_watch_stop(struct node_watch *watch)
{
	if (watch)
		watch->is_stopped = true;
}

struct node_watch *node_watch_free(struct node_watch *watch)
{
	if (!watch)
		return NULL;
	loop_timer_free(watch->timer);
	free(watch);
	return NULL;
}

int node_watch_new(struct loop *loop, struct registry *registry, struct node_map *map, struct node_watch **ret_watch)
{
	_cleanup_(node_watch_freep) struct node_watch *watch = NULL;
	int r;

	/* Soft NICs are of no machine, but of one in a file. */
	if (!map || (!registry->blocks && !node_named_file()))
		return 0;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	watch->registry = registry;
	watch->map = map;
	watch->look_nsec = node_named_file() || node_named_tree() ? NAMED_NSEC : MACHINE_LOOK_NSEC;
	watch->seen = look();
	/* Between the first reading and now something may have changed. */
	watch->is_settling = true;
	r = loop_timer_new(loop, on_timer, watch, &watch->timer);
	if (r < 0)
		return r;
	loop_timer_arm(watch->timer, watch->look_nsec);
	*ret_watch = take_ptr(watch);
	return 0;
}
