/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fault point soft.delay-memory: memory the CPU cannot address, as far as the engine can see, whose operations
 * all complete later and out of order.
 */
#ifndef SHMEMD_NIC_SOFT_DELAY_H
#define SHMEMD_NIC_SOFT_DELAY_H

#include "daemon/engine/engine.h"
#include "proto/base/list.h"

struct soft_nic;

/* Operations under way on one data thread. */
struct soft_delay {
	struct list ops; /* struct delayed, by the time they are due */
	uint64_t random;
};

void soft_delay_init(struct soft_delay *delay, uint64_t seed);
/* Completes everything at once: before the engine is freed. */
void soft_delay_drain(struct soft_delay *delay);
/* Data thread: completes what is due. Returns how many operations that were. */
unsigned int soft_delay_run(struct soft_delay *delay);
/* UINT64_MAX: nothing is under way. */
uint64_t soft_delay_deadline(const struct soft_delay *delay);

/* Like soft_mem_ops, delayed. */
extern const struct engine_mem_ops soft_delay_mem_ops;

#endif
