/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running daemon as its service manager sees it.
 *
 * The watchdog's pings come only from a timer of the control loop: if the loop hangs, they stop, and the manager kills the
 * daemon. The timer is urgent and goes before everything else that is due, so that many short jobs in one turn do not look like
 * a hang. When the manager does not read, READY, RELOADING, STOPPING and kept descriptors reach it later (fdstore-tell.c); pings and the
 * status line that it misses are repeated. The status line is formatted only after activity, at most once a second: an idle daemon sleeps.
 * systemd/OPERATION.md describes both for administrators. Control thread.
 */
#include "daemon/service/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/log.h"
#include "daemon/node/nics.h"
#include "daemon/service/fdstore.h"
#include "daemon/session/node-map.h"
#include "proto/base/nsec.h"
#include "proto/base/show.h"

#define STATUS_NSEC NSEC_PER_SEC
#define PINGS_PER_WATCHDOG 3

/* ---- watchdog ------------------------------------------------------------------------------------------------- */

/* One that finds no room is as good as none: the next comes in time. */
static void ping(struct service *service)
{
	fdstore_try_notify("WATCHDOG=1");
	service->last_ping_nsec = nsec_now();
	loop_timer_arm(service->watchdog, service->watchdog_nsec / PINGS_PER_WATCHDOG);
}

static void on_watchdog(void *arg)
{
	struct service *service = arg;
	uint64_t since = nsec_now() - service->last_ping_nsec;

	if (since > service->watchdog_nsec / PINGS_PER_WATCHDOG * 2)
		log_line(LOG_WARNING, &(struct log_fields){.event = CATALOG_LOOP_LATE},
			 "the control loop was blocked for %" PRIu64 " ms; the watchdog ends the daemon after %" PRIu64
			 " ms", (since - service->watchdog_nsec / PINGS_PER_WATCHDOG) / NSEC_PER_MSEC,
			 service->watchdog_nsec / NSEC_PER_MSEC);
	ping(service);
}

/* One session's end may hold the loop for the whole quiesce-timeout. */
static void warn_short_watchdog(const struct service *service)
{
	uint64_t quiesce = service->registry->attr.quiesce_nsec;

	if (service->watchdog && quiesce > service->watchdog_nsec / 2)
		log_line(LOG_WARNING, NULL,
			 "quiesce-timeout is %" PRIu64 " ms, too close to the %" PRIu64
			 " ms of the watchdog; lower it or raise WatchdogSec", quiesce / NSEC_PER_MSEC,
			 service->watchdog_nsec / NSEC_PER_MSEC);
}

/* ---- status line ---------------------------------------------------------------------------------------------- */

static void format_status(const struct service *service, char *buf, size_t size)
{
	const struct registry *registry = service->registry;
	uint64_t n_sessions = registry->quota.total.n[QUOTA_SESSIONS], n_qps = registry->quota.total.n[QUOTA_QPS];
	const char *doubts = node_map_doubts(registry->node_map);
	char nics[NICS_TEXT_BYTES];

	snprintf(buf, size, "%s%s%s%s%s%" PRIu64 " session%s, %" PRIu64 " QP%s on %s; listening on %s",
		 service->trouble, service->trouble[0] ? "; " : "", doubts, *doubts ? "; " : "",
		 registry->draining ? "draining; " : "", n_sessions, plural_s(n_sessions), n_qps, plural_s(n_qps),
		 nics_text(registry, nics), service->place);
}

static void on_status(void *arg)
{
	struct service *service = arg;
	char text[sizeof(service->told)];

	service->status_armed = false;
	if (!fdstore_flush())
		service_activity(service);
	format_status(service, text, sizeof(text));
	if (strcmp(text, service->told) == 0)
		return;
	if (fdstore_try_notify("STATUS=%s", text) == -EAGAIN) {
		service_activity(service);
		return;
	}
	memcpy(service->told, text, sizeof(text));
}

void service_activity(struct service *service)
{
	if (!service->status || service->status_armed)
		return;
	service->status_armed = loop_timer_arm(service->status, STATUS_NSEC) == 0;
}

/* ---- states --------------------------------------------------------------------------------------------------- */

static void tell_ready(struct service *service)
{
	format_status(service, service->told, sizeof(service->told));
	fdstore_notify("READY=1\nSTATUS=%s", service->told);
	warn_short_watchdog(service);
	/* If it waits for a busy manager, no client may come to move it on. Removals of the start may be left, too. */
	service_activity(service);
}

void service_ready(struct service *service)
{
	tell_ready(service);
	if (service->watchdog)
		ping(service);
}

void service_reloading(struct service *service)
{
	fdstore_notify("RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=reloading the settings",
		       nsec_now() / NSEC_PER_USEC);
}

void service_set_trouble(struct service *service, const char *trouble)
{
	snprintf(service->trouble, sizeof(service->trouble), "%s%.*s", trouble ? "settings kept, " : "",
		 SERVICE_TEXT_BYTES - 32, trouble ? trouble : "");
}

void service_reloaded(struct service *service, const char *trouble)
{
	service_set_trouble(service, trouble);
	tell_ready(service);
}

void service_stopping(struct service *service)
{
	fdstore_notify("STOPPING=1\nSTATUS=stopping");
}

/* ---- birth and death ------------------------------------------------------------------------------------------ */

static int make_watchdog(struct service *service, struct loop *loop)
{
	int r;

	service->watchdog_nsec = fdstore_watchdog_nsec();
	if (!service->watchdog_nsec)
		return 0;
	r = loop_timer_new(loop, on_watchdog, service, &service->watchdog);
	return r < 0 ? r : loop_timer_set_urgent(service->watchdog);
}

int service_init(struct service *service, struct loop *loop, const struct registry *registry, const char *place)
{
	int r;

	*service = (struct service){.registry = registry, .place = place};
	r = make_watchdog(service, loop);
	if (r < 0 || !fdstore_has_manager())
		return r;
	return loop_timer_new(loop, on_status, service, &service->status);
}

void service_deinit(struct service *service)
{
	service->watchdog = loop_timer_free(service->watchdog);
	service->status = loop_timer_free(service->status);
}
