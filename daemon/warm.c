/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts in advance: when NICs make and destroy them.
 *
 * One step at a time for all NICs, as a work of the daemon's own, so that sessions have all workers but one. Nobody tells
 * that a context was handed out: that is a work's end, after which the daemon looks here, as after each event of a NIC and
 * each turn of a client. While the daemon drains nothing is kept ready. What cannot be made is told once, and tried again
 * after a while: no session waits for it or fails by it.
 *
 * Control thread, but step_run().
 */
#include "daemon/warm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/log.h"
#include "proto/base/nsec.h"

#define RETRY_SEC 5u

/* What is known of one NIC. */
struct warm_nic {
	bool waits; /* for the next try */
	bool told; /* that it fails: once, until all are there */
};

struct warm {
	struct registry *registry;
	struct loop_timer *retry;
	struct nic_warm_attr attr;
	bool stopped, drained; /* what NICs were told: none */
	struct work work;
	bool is_busy;
	struct registry_nic *at; /* of the work */
	int result;
	unsigned int next; /* NIC whose turn it is */
	struct warm_nic nics[REGISTRY_MAX_NICS];
};

static void warm_freep(struct warm **warm)
{
	warm_free(*warm);
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static void step_run(struct work *work)
{
	struct warm *warm = container_of(work, struct warm, work);

	warm->result = warm->at->nic->ops->warm_step(warm->at->nic);
}

/* Of a NIC that is gone other lines tell. */
static void tell(struct warm_nic *of, const char *name, int r)
{
	if (of->told || r == -ENODEV)
		return;
	of->told = true;
	log_line(LOG_WARNING, &(struct log_fields){.nic = name},
		 "cannot create a spare context of %s: %s; sessions create their own, and shmemd tries again every %u s",
		 name, strerror(-r), RETRY_SEC);
}

static void step_done(struct work *work)
{
	struct warm *warm = container_of(work, struct warm, work);
	struct warm_nic *of = &warm->nics[warm->at->index];

	warm->is_busy = false;
	if (warm->result < 0 && warm->result != -EAGAIN) {
		tell(of, warm->at->info.name, warm->result);
		of->waits = true;
		loop_timer_arm(warm->retry, RETRY_SEC * NSEC_PER_SEC);
	}
	warm_look(warm);
}

static void on_retry(void *arg)
{
	struct warm *warm = arg;

	for (unsigned int i = 0; i < REGISTRY_MAX_NICS; i++)
		warm->nics[i].waits = false;
	warm_look(warm);
}

/* ---- what is to be done ------------------------------------------------------------------------------------------ */

static bool has_step(struct warm *warm, struct registry_nic *rnic)
{
	struct warm_nic *of = &warm->nics[rnic->index];
	struct nic_warm_info info;

	if (!rnic->nic->blocks || rnic->nic->ops->warm_query(rnic->nic, &info) < 0)
		return false;
	of->told &= info.n_ready < info.n_wanted;
	return info.todo == NIC_WARM_DESTROY || (info.todo == NIC_WARM_MAKE && !of->waits);
}

/* NICs take turns. */
static struct registry_nic *next_step(struct warm *warm)
{
	for (unsigned int i = 0; i < warm->registry->n_nics; i++) {
		unsigned int at = (warm->next + i) % warm->registry->n_nics;

		if (!has_step(warm, &warm->registry->nics[at]))
			continue;
		warm->next = at + 1;
		return &warm->registry->nics[at];
	}
	return NULL;
}

static void tell_nics(struct warm *warm, unsigned int from)
{
	struct nic_warm_attr attr = warm->attr;

	if (warm->stopped || warm->drained)
		attr.n_ctxs = 0;
	for (unsigned int i = from; i < warm->registry->n_nics; i++) {
		struct registry_nic *rnic = &warm->registry->nics[i];
		int r = rnic->nic->blocks ? rnic->nic->ops->warm_set(rnic->nic, &attr) : 0;

		warm->nics[i] = (struct warm_nic){0};
		if (r < 0 && r != -EOPNOTSUPP)
			tell(&warm->nics[i], rnic->info.name, r);
	}
}

void warm_look(struct warm *warm)
{
	if (!warm)
		return;
	if (warm->drained != warm->registry->draining) {
		warm->drained = warm->registry->draining;
		tell_nics(warm, 0);
	}
	if (warm->is_busy)
		return;
	warm->at = next_step(warm);
	if (!warm->at)
		return;
	warm->is_busy = true;
	warm->work = (struct work){.run = step_run, .done = step_done};
	registry_work(warm->registry, true, &warm->work);
}

void warm_set(struct warm *warm, const struct nic_warm_attr *attr)
{
	if (!warm)
		return;
	warm->attr = *attr;
	tell_nics(warm, 0);
	warm_look(warm);
}

void warm_take_nics(struct warm *warm, unsigned int from)
{
	if (!warm)
		return;
	tell_nics(warm, from);
	warm_look(warm);
}

void warm_stop(struct warm *warm)
{
	if (!warm)
		return;
	warm->stopped = true;
	tell_nics(warm, 0);
	warm_look(warm);
}

int warm_new(struct loop *loop, struct registry *registry, struct warm **ret_warm)
{
	_cleanup_(warm_freep) struct warm *warm = calloc(1, sizeof(*warm));
	int r;

	if (!warm)
		return -ENOMEM;
	warm->registry = registry;
	r = loop_timer_new(loop, on_retry, warm, &warm->retry);
	if (r < 0)
		return r;
	*ret_warm = take_ptr(warm);
	return 0;
}

struct warm *warm_free(struct warm *warm)
{
	if (!warm)
		return NULL;
	loop_timer_free(warm->retry);
	free(warm);
	return NULL;
}
