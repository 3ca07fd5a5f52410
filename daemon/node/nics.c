/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConnectX NICs before soft ones: settings decide, or what there is. NICs outlive sessions, and none is closed before the
 * daemon ends: one that is gone stays lost, as sessions may have it open.
 */
#include "daemon/node/nics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/node/ctx-pool.h"
#include "daemon/node/node.h"
#include "daemon/service/fdstore.h"
#include "proto/base/nsec.h"
#include "proto/base/show.h"

#define EVENTS_PER_TURN 64
#define REST_NSEC (1 * NSEC_PER_SEC)
#define REST_LOOK_USEC 50

static void on_nic(void *arg, unsigned int events)
{
	struct nics_watch *watched = arg;
	struct nic *nic = watched->rnic->nic;
	struct nic_event event;

	for (int i = 0; i < EVENTS_PER_TURN && nic->ops->next_event(nic, &event) == 0; i++)
		registry_event(watched->nics->registry, watched->rnic, &event);
	/* It may have gone, or have returned. */
	ctx_pool_look(watched->nics->ctx_pool);
}

struct nic_probe_attr nics_probe_attr(const struct nics *nics)
{
	const struct settings *settings = nics->settings;

	return (struct nic_probe_attr){
		.soft = {.n_nics = (unsigned int)settings->soft_nics,
			 .gpu_poll_usec = (uint32_t)settings->gpu_poll_usec,
			 .spin_usec = (uint32_t)settings->spin_usec,
			 .max_mtu_log2 = (uint8_t)settings->mtu_log2,
			 .saves = nics->registry->attr.save,
			 .fault = nics->fault,
			 .start_process = nics->start_executor,
			 .start_arg = nics->start_arg},
		.mlx5 = {.trace = getenv("SHMEMD_MLX5_TRACE"),
			 .objects = getenv("SHMEMD_MLX5_OBJECTS"),
			 .gpu_poll_usec = (uint32_t)settings->gpu_poll_usec,
			 .spin_usec = (uint32_t)settings->spin_usec,
			 .max_mtu_log2 = (uint8_t)settings->mtu_log2,
			 .start_process = nics->start_mapper,
			 .start_arg = nics->start_arg},
	};
}

/* By itself the service has a /dev without them. */
static const char *advice(const char *unusable)
{
	return fdstore_has_manager() && strstr(unusable, "/dev/infiniband/")
		? "; the service needs a drop-in to see devices: section SERVICE of shmemd(8)" : "";
}

static int probe_mlx5(struct nics *nics)
{
	const struct nic_probe_attr attr = nics_probe_attr(nics);
	bool is_fatal;
	int r;

	if (nic_mlx5_backend.why_not)
		return 0;
	r = nic_mlx5_backend.probe(&attr, &nics->list, &nics->report);
	is_fatal = nics->settings->backend == SETTINGS_BACKEND_MLX5 && list_empty(&nics->list);
	if (r < 0)
		log_line(is_fatal ? LOG_ERR : LOG_WARNING, NULL, "cannot look for ConnectX NICs: %s", strerror(-r));
	else if (nics->report.unusable[0] && !is_fatal)
		log_line(LOG_WARNING, NULL, "cannot use these NICs: %s%s", nics->report.unusable,
			 advice(nics->report.unusable));
	return r;
}

static int probe_soft(struct nics *nics)
{
	const struct nic_probe_attr attr = nics_probe_attr(nics);
	int r = nic_soft_backend.probe(&attr, &nics->list, &nics->report);

	if (r == -EINVAL && nics->fault)
		log_line(LOG_ERR, NULL, "SHMEMD_FAULT: there is no fault point \"%s\"", nics->fault);
	else if (r < 0)
		log_line(LOG_ERR, NULL, "cannot make %u simulated NIC%s: %s", attr.soft.n_nics, plural_s(attr.soft.n_nics), strerror(-r));
	return r;
}

/* "; this host has NAME and N more ...", or nothing. */
static void unmanaged_hint(char *text, size_t size)
{
	struct host_list *list = malloc(sizeof(*list));
	char more[32] = "";

	text[0] = 0;
	if (!list)
		return;
	host_scan(node_sysfs(), NULL, 0, list);
	if (list->n > 1)
		snprintf(more, sizeof(more), " and %u more", list->n - 1);
	if (list->n > 0)
		snprintf(text, size, "; this host has %s (%s)%s, which shmemd does not support yet: "
			 "--backend soft gives simulated NICs for tests",
			 list->nics[0].name, list->nics[0].driver[0] ? list->nics[0].driver : "unknown driver", more);
	free(list);
}

/* The one line about a start that fails for want of a ConnectX. */
static int refuse_without_mlx5(const struct nics *nics)
{
	char hint[256];

	unmanaged_hint(hint, sizeof(hint));
	if (nic_mlx5_backend.why_not)
		log_line(LOG_ERR, NULL, "%s; use --backend soft, or build it where rdma-core is installed%s", nic_mlx5_backend.why_not, hint);
	else if (nics->report.unusable[0])
		log_line(LOG_ERR, NULL, "cannot use these NICs: %s%s; \"shmemctl doctor\" says what they need",
			 nics->report.unusable, advice(nics->report.unusable));
	else
		log_line(LOG_ERR, NULL, "--backend mlx5 found no ConnectX NIC; \"shmemctl doctor\" says what is missing%s", hint);
	return -ENODEV;
}

static int probe(struct nics *nics)
{
	uint64_t backend = nics->settings->backend;
	int r;

	if (backend == SETTINGS_BACKEND_SOFT)
		return probe_soft(nics);
	r = probe_mlx5(nics);
	if (r == -ENOMEM || !list_empty(&nics->list))
		return r;
	/* probe_mlx5() has logged what is wrong with the others. */
	if (backend == SETTINGS_BACKEND_AUTO)
		return probe_soft(nics);
	if (r < 0)
		return r;
	return refuse_without_mlx5(nics);
}

static int watch_nic(struct nics *nics, struct nic *nic, const struct nic_info *info)
{
	unsigned int index = nics->registry->n_nics;
	struct nics_watch *watched = &nics->watched[index];
	int r = 0;

	if (index == REGISTRY_MAX_NICS)
		return -ENOSPC;
	*watched = (struct nics_watch){.nics = nics, .rnic = &nics->registry->nics[index]};
	if (nic->event_fd >= 0)
		r = loop_watch_new(nics->loop, nic->event_fd, LOOP_READ, on_nic, watched,
				   &watched->watch);
	return r < 0 ? r : registry_add_nic(nics->registry, nic, info);
}

static int tell(const struct nic *nic, int r)
{
	if (r < 0)
		log_line(LOG_WARNING, NULL, "cannot use NIC %s: %s", nic->name, strerror(-r));
	return r;
}

int nics_add(struct nics *nics, struct nic *nic, const struct nic_info *info)
{
	int r = watch_nic(nics, nic, info);

	if (r == 0) {
		list_del(&nic->link);
		list_add_tail(&nics->list, &nic->link);
	}
	return tell(nic, r);
}

/* One that has gone since it was found is left out, as it would be a moment later. */
static int add_found(struct nics *nics, struct nic *nic)
{
	struct nic_info info;
	int r = tell(nic, nic_query(nic, &info));

	if (r == 0)
		return tell(nic, watch_nic(nics, nic, &info));
	list_del(&nic->link);
	nic->ops->close(nic);
	return 0;
}

int nics_open(struct nics *nics)
{
	struct nic *nic, *tmp;
	int r;

	r = probe(nics);
	if (r < 0)
		return r;
	list_for_each_entry_safe(nic, tmp, &nics->list, link) {
		r = add_found(nics, nic);
		/* A host may have more ports than are counted here: functions of its NICs. */
		if (r == -ENOSPC)
			break;
		if (r < 0)
			return r;
	}
	return list_empty(&nics->list) ? -ENODEV : 0;
}

const char *nics_text(const struct registry *registry, char buf[NICS_TEXT_BYTES])
{
	unsigned int n = registry->n_nics, n_soft = 0;

	for (unsigned int i = 0; i < n; i++)
		n_soft += strcmp(registry->nics[i].info.backend, nic_soft_backend.name) == 0;
	/* Simulated ones stand in for NICs that the machine lacks: the two are never together. */
	snprintf(buf, NICS_TEXT_BYTES, "%u %sNIC%s", n, n && n_soft == n ? "simulated " : "", plural_s(n));
	return buf;
}

void nics_init(struct nics *nics)
{
	*nics = (struct nics){0};
	list_init(&nics->list);
}

static bool all_rest(struct nics *nics)
{
	bool all = true;
	struct nic *nic;

	list_for_each_entry(nic, &nics->list, link)
		all &= nic->ops->rest(nic);
	return all;
}

void nics_rest(struct nics *nics)
{
	uint64_t end = nsec_add(nsec_now(), REST_NSEC);

	while (!all_rest(nics)) {
		if (nsec_now() > end) {
			log_line(LOG_WARNING, NULL, "a NIC does not stop; the end of this process may cut off its work");
			return;
		}
		usleep(REST_LOOK_USEC);
	}
}

void nics_deinit(struct nics *nics)
{
	struct nic *nic, *tmp;

	for (unsigned int i = 0; i < REGISTRY_MAX_NICS; i++)
		nics->watched[i].watch = loop_watch_free(nics->watched[i].watch);
	list_for_each_entry_safe(nic, tmp, &nics->list, link) {
		list_del(&nic->link);
		nic->ops->close(nic);
	}
}
