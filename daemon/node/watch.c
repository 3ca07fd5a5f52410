/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the watch of daemon/host on the loop. The watch reports NICs that no backend drives, for lists, monitors and
 * nic-hotplug.c, and changes of the machine, for redraw.c.
 *
 * Unmanaged NICs have no `struct nic`, so no session can refer to them. If the kernel has no RDMA and the daemon no map of the
 * machine, there is no watch thread: a timer makes one non-blocking system call every 2 s until a module brings RDMA. Control
 * thread.
 */
#include "daemon/node/watch.h"

#include <string.h>
#include <syslog.h>

#include "daemon/host/host.h"
#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/node/nics.h"
#include "daemon/node/node.h"
#include "daemon/node/redraw.h"
#include "daemon/session/registry.h"
#include "daemon/session/unmanaged.h"

static void on_news(void *arg, unsigned int events)
{
	struct node_watch *watch = arg;
	struct host_news news;

	host_watch_take(watch->watch, &news);
	if (news.is_machine_changed)
		redraw_begin(watch->redraw);
	if (!news.list)
		return;
	unmanaged_update(watch->registry, news.list);
	if (watch->found)
		watch->found(watch->found_arg);
}

static int start(struct node_watch *watch)
{
	const struct registry *registry = watch->registry;
	struct host_managed managed[REGISTRY_MAX_NICS];
	const struct host_watch_attr attr = {
		.sysfs = node_sysfs(),
		.procfs = node_procfs(),
		.file = node_named_file(),
		.scan_nsec = node_scan_nsec(),
		.machine_nsec = watch->redraw ? node_look_nsec() : 0,
		.n_managed = registry->n_nics,
		.managed = managed,
	};
	int r;

	for (unsigned int i = 0; i < registry->n_nics; i++)
		managed[i] = nics_managed(&registry->nics[i].info);
	r = host_watch_new(&attr, &watch->watch);
	if (r < 0)
		return r;
	return loop_watch_new(watch->loop, host_watch_fd(watch->watch), LOOP_READ, on_news, watch, &watch->news);
}

static void on_timer(void *arg)
{
	struct node_watch *watch = arg;
	int r = 0;

	if (watch->redraw || host_watch_wanted(node_sysfs()))
		r = start(watch);
	if (r < 0) {
		log_line(LOG_WARNING, NULL, "cannot watch the devices of this machine: %s", strerror(-r));
		return;
	}
	if (!watch->watch)
		loop_timer_arm(watch->timer, node_look_nsec());
}

int node_watch_init(struct node_watch *watch, struct loop *loop, struct registry *registry, struct redraw *redraw)
{
	int r;

	watch->loop = loop;
	watch->registry = registry;
	watch->redraw = redraw;
	r = loop_timer_new(loop, on_timer, watch, &watch->timer);
	if (r == 0)
		on_timer(watch);
	return r;
}

void node_watch_manage(struct node_watch *watch, const struct nic_info *info)
{
	const struct host_managed managed = nics_managed(info);

	if (watch->watch)
		host_watch_manage(watch->watch, &managed);
}

void node_watch_deinit(struct node_watch *watch)
{
	watch->news = loop_watch_free(watch->news);
	watch->timer = loop_timer_free(watch->timer);
	watch->watch = host_watch_free(watch->watch);
}
