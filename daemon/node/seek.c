/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the watch of daemon/host on the loop: it finds NICs that no backend drives, for lists, monitors and nic-hotplug.c.
 *
 * Such NICs have no `struct nic`, so no session can refer to them. If the kernel has no RDMA there is no watch thread: a timer
 * makes one non-blocking system call every 2 s until a module brings RDMA. Control thread.
 */
#include "daemon/node/seek.h"

#include <string.h>
#include <syslog.h>

#include "daemon/host/host.h"
#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/node/nics.h"
#include "daemon/node/node.h"
#include "daemon/session/registry.h"
#include "daemon/session/unmanaged.h"
#include "proto/base/nsec.h"

#define SEEK_NSEC NSEC_PER_SEC
#define WANTED_NSEC (2 * NSEC_PER_SEC)
#define TREE_NSEC (50 * NSEC_PER_MSEC) /* a developer's tree: reading it sends no firmware command */

static void on_news(void *arg, unsigned int events)
{
	struct seek *seek = arg;
	struct host_list *list = host_watch_take(seek->watch);

	if (!list)
		return;
	unmanaged_update(seek->registry, list);
	if (seek->found)
		seek->found(seek->found_arg);
}

static int start(struct seek *seek)
{
	const struct registry *registry = seek->registry;
	struct host_managed managed[REGISTRY_MAX_NICS];
	const struct host_watch_attr attr = {
		.sysfs = seek->sysfs,
		.interval_nsec = seek->look_nsec,
		.n_managed = registry->n_nics,
		.managed = managed,
	};
	int r;

	for (unsigned int i = 0; i < registry->n_nics; i++)
		managed[i] = nics_managed(&registry->nics[i].info);
	r = host_watch_new(&attr, &seek->watch);
	if (r < 0)
		return r;
	return loop_watch_new(seek->loop, host_watch_fd(seek->watch), LOOP_READ, on_news, seek, &seek->news);
}

static void on_timer(void *arg)
{
	struct seek *seek = arg;
	int r = 0;

	if (host_watch_wanted(seek->sysfs))
		r = start(seek);
	if (r < 0) {
		log_line(LOG_WARNING, NULL, "cannot look for unmanaged NICs: %s", strerror(-r));
		return;
	}
	if (!seek->watch)
		loop_timer_arm(seek->timer, seek->wanted_nsec);
}

int seek_init(struct seek *seek, struct loop *loop, struct registry *registry)
{
	int r;

	seek->loop = loop;
	seek->registry = registry;
	seek->sysfs = node_sysfs();
	seek->look_nsec = node_named_tree() ? TREE_NSEC : SEEK_NSEC;
	seek->wanted_nsec = node_named_tree() ? TREE_NSEC : WANTED_NSEC;
	r = loop_timer_new(loop, on_timer, seek, &seek->timer);
	if (r == 0)
		on_timer(seek);
	return r;
}

void seek_manage(struct seek *seek, const struct nic_info *info)
{
	const struct host_managed managed = nics_managed(info);

	if (seek->watch)
		host_watch_manage(seek->watch, &managed);
}

void seek_deinit(struct seek *seek)
{
	seek->news = loop_watch_free(seek->news);
	seek->timer = loop_timer_free(seek->timer);
	seek->watch = host_watch_free(seek->watch);
}
