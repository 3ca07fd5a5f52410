/* SPDX-License-Identifier: Apache-2.0 */
/* Notifies the service manager while the daemon runs: readiness, reloads, a status line, and pings of the watchdog. */
#ifndef SHMEMD_SERVICE_SERVICE_H
#define SHMEMD_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop.h"
#include "daemon/session/registry.h"

#define SERVICE_TEXT_BYTES 384

struct service {
	const struct registry *registry;
	const char *place; /* of the socket */
	struct loop_timer *watchdog; /* NULL: the manager asked for none */
	uint64_t watchdog_nsec, last_ping_nsec;
	struct loop_timer *status; /* NULL: no service manager listens */
	bool status_armed;
	char trouble[SERVICE_TEXT_BYTES]; /* why the last reload was refused; "": it was not */
	char told[3 * SERVICE_TEXT_BYTES]; /* the last status line */
};

/* `registry` and `place` live as long as the service. Undone by service_deinit, also when it failed. */
int service_init(struct service *service, struct loop *loop, const struct registry *registry, const char *place);
void service_deinit(struct service *service);

void service_ready(struct service *service); /* the loop runs from now on */
void service_reloading(struct service *service);
/* For the status line until the next reload; NULL: none. */
void service_set_trouble(struct service *service, const char *trouble);
/* Ready again; trouble: why nothing was changed, or NULL. */
void service_reloaded(struct service *service, const char *trouble);
void service_stopping(struct service *service);
/* A client did something: the status line may be another one within a second. */
void service_activity(struct service *service);

#endif
