/* SPDX-License-Identifier: Apache-2.0 */
/* The porters (porter/) on the loop. */
#ifndef SHMEMD_PORTER_WATCH_H
#define SHMEMD_PORTER_WATCH_H

#include "daemon/loop.h"
#include "daemon/porter/porter.h"

struct porter_watch;

struct porter_watch_attr {
	struct loop *loop;
	int zygote; /* of zygote_start(); taken in any case */
	uint64_t linger_nsec; /* as struct porters_attr */
	void (*activity)(void *arg); /* called after a porter was heard */
	void (*zygote_ended)(void *arg); /* called once: no porter can be started any more */
	void *arg;
};

int porter_watch_new(const struct porter_watch_attr *attr, struct porter_watch **ret_watch);
struct porters *porter_watch_porters(struct porter_watch *watch); /* borrowed */
struct porter_watch *porter_watch_free(struct porter_watch *watch); /* no session is left. NULL allowed; returns NULL */

#endif
