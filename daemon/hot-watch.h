/* SPDX-License-Identifier: Apache-2.0 */
/* The hot-spot watch: looks at the counters of NICs while sessions use them, and tells of one that carries most of all. */
#ifndef SHMEMD_HOT_WATCH_H
#define SHMEMD_HOT_WATCH_H

#include "daemon/loop.h"
#include "daemon/session/hot-spot.h"
#include "daemon/session/registry.h"

struct hot_watch;

/* The registry has all its NICs, and outlives it; its hot_spot is set. Does nothing before hot_watch_set(). */
int hot_watch_new(struct loop *loop, struct registry *registry, struct hot_watch **ret_watch);
/* Workers are gone already. NULL allowed. */
struct hot_watch *hot_watch_free(struct hot_watch *watch);
/* From now on. period_nsec 0: nobody looks, and nothing is told. */
void hot_watch_set(struct hot_watch *watch, uint64_t period_nsec, const struct hot_spot_rule *rule);
/* Something has happened: a session may have opened a NIC. Cheap. NULL allowed. */
void hot_watch_look(struct hot_watch *watch);

#endif
