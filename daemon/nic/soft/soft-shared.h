/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables that the executors of a fabric share with one another: one mapping of a memfd, which other processes may map as well.
 *
 * Nothing here is a pointer, and no lock: each word is an atomic that one store changes, so a process that is killed at any
 * instruction leaves nothing half done. Pages are touched when they are first used; zero is the state of everything unused.
 * Whatever belongs to one process (mailboxes, descriptors, objects behind numbers) is in soft.h.
 */
#ifndef SHMEMD_NIC_SOFT_SHARED_H
#define SHMEMD_NIC_SOFT_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOFT_MAX_NICS 64u
#define SOFT_MAX_EXECS 256u /* users with contexts on one NIC */
#define SOFT_UID_SEVERAL UINT32_MAX /* nobody has this uid */
#define SOFT_NUMBER_SLOTS 65536u

/*
 * One executor as others reach it. Serves one executor after another; its `epoch` tells them apart. The first line hardly ever
 * changes; the second one does when somebody has news, the third one in each turn of the thread, by that alone.
 */
struct soft_shared_lane {
	uint32_t uid; /* whose contexts it serves, or SOFT_UID_SEVERAL */
	uint32_t running; /* a thread drains it */
	uint32_t epoch; /* executors that have begun here */
	uint32_t asleep __attribute__((aligned(64))); /* the thread must be woken, by its eventfd */
	uint32_t bell; /* some channel has news for the thread (soft-ring.h) */
	uint32_t turns __attribute__((aligned(64))); /* that the thread has begun */
} __attribute__((aligned(64)));

/*
 * 24-bit numbers of QPs or CQs of a NIC: the lower 16 bits are a slot, the upper 8 a generation (1..0xfe), so that one is not soon
 * used again. A slot that is taken holds number << 8 | executor.
 */
struct soft_shared_numbers {
	uint32_t slots[SOFT_NUMBER_SLOTS]; /* 0: free */
	uint32_t next; /* place of the next number in their order; SOFT_NUMBERS_GOES_ON: behind those of a former process */
} __attribute__((aligned(64)));

#define SOFT_NUMBERS_GOES_ON (1u << 31)

struct soft_shared_port {
	uint8_t gid[16]; /* constant once it is settled, which it is before its first executor starts */
	uint32_t present; /* there is such a NIC */
	uint32_t down; /* packets to and from it are dropped (soft-port.c) */
	uint32_t n_downs; /* how often that began */
	struct soft_shared_numbers qpns; /* which executor has which QP */
	struct soft_shared_numbers cqns;
	struct soft_shared_lane lanes[SOFT_MAX_EXECS];
} __attribute__((aligned(4096)));

struct soft_shared {
	struct soft_shared_port ports[SOFT_MAX_NICS]; /* by their id, the index */
};

/* A new one, and its memfd, sealed against change of its size. */
int soft_shared_new(struct soft_shared **ret_shared, int *ret_fd);
/* That of another process. -EBADF it is none. */
int soft_shared_map(int fd, struct soft_shared **ret_shared);
struct soft_shared *soft_shared_unmap(struct soft_shared *shared);

/* ---- numbers: any thread of any process ---------------------------------------------------------------------------------- */

/* Numbers begin at a random place. */
int soft_shared_numbers_init(struct soft_shared_numbers *numbers);
/* -ENOSPC */
int soft_shared_number_alloc(struct soft_shared_numbers *numbers, uint32_t exec, uint32_t *ret_number);
/* A number of a former process: new ones come behind it. -EEXIST its slot is taken, -EINVAL it is none. */
int soft_shared_number_reserve(struct soft_shared_numbers *numbers, uint32_t exec, uint32_t number);
/* By the executor that has it. */
void soft_shared_number_dealloc(struct soft_shared_numbers *numbers, uint32_t exec, uint32_t number);
/* The executor that has the number now, or -1. */
int soft_shared_number_exec(const struct soft_shared_numbers *numbers, uint32_t number);
/* All numbers of an executor that was killed. Returns how many those were. */
unsigned int soft_shared_numbers_drop(struct soft_shared_numbers *numbers, uint32_t exec);

/* ---- lanes ------------------------------------------------------------------------------------------------------------------- */

/* Call it after the store that the thread must find. True: the thread sleeps, and the caller alone must write the lane's eventfd. */
bool soft_shared_lane_must_wake(struct soft_shared_lane *lane);
/* The same for news of a channel. */
bool soft_shared_lane_ring(struct soft_shared_lane *lane);

#endif
