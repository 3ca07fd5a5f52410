/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executors of a fabric share this with one another, in memory that several processes may map.
 *
 * The table (struct soft_shared) says who is where: ports, numbers, users. It has one writer, the process that probed the NICs. If
 * executors are elsewhere that is the daemon; the memfd is sealed, and the processes of the executors read it. The state of an executor's
 * thread (struct soft_shared_lane) is written by its own process alone.
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

/* A place for one executor after the other, and the one that has it. */
struct soft_shared_owner {
	uint32_t uid; /* whose contexts it serves, or SOFT_UID_SEVERAL */
	uint32_t epoch; /* executors that have begun here */
	uint32_t is_there; /* its process lives; not used within one process */
	uint32_t unused;
};

/* The thread of an executor. The second line changes when somebody has news for it, the third one in each turn, by that thread alone. */
struct soft_shared_lane {
	uint32_t running; /* a thread drains it */
	uint32_t asleep __attribute__((aligned(64))); /* the thread must be woken, by an eventfd */
	uint32_t bell; /* some channel within the process has news for the thread (soft-ring.h) */
	uint32_t turns __attribute__((aligned(64))); /* that the thread has begun */
} __attribute__((aligned(64)));

/* The executors of one process, by port: what others read of it. */
struct soft_shared_part {
	struct soft_shared_lane lanes[SOFT_MAX_NICS];
} __attribute__((aligned(4096)));

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
	struct soft_shared_owner owners[SOFT_MAX_EXECS];
} __attribute__((aligned(4096)));

struct soft_shared {
	struct soft_shared_port ports[SOFT_MAX_NICS]; /* by their id, the index */
};

/* A new one, and its memfd, sealed against change of its size and against all other writers. */
int soft_shared_new(struct soft_shared **ret_shared, int *ret_fd);
/* That of another process, to be read. -EBADF it is none. */
int soft_shared_map(int fd, struct soft_shared **ret_shared);
struct soft_shared *soft_shared_unmap(struct soft_shared *shared);

/* The memfd of a part, which this process need not map. */
int soft_part_memfd(int *ret_fd);
/* The part of this process, or another's, which is only read. -EBADF. */
int soft_part_map(int fd, bool is_own, struct soft_shared_part **ret_part);
struct soft_shared_part *soft_part_unmap(struct soft_shared_part *part);

/* ---- numbers: any thread of any process ---------------------------------------------------------------------------------- */

/* Numbers begin at a random place. */
int soft_shared_numbers_init(struct soft_shared_numbers *numbers);
/* -ENOSPC */
int soft_shared_number_alloc(struct soft_shared_numbers *numbers, uint32_t exec, uint32_t *ret_number);
/* A number of a former process: new ones come behind it. -EEXIST its slot is taken, -EINVAL it is none. */
int soft_shared_number_reserve(struct soft_shared_numbers *numbers, uint32_t exec, uint32_t number);
/* By who has taken it for that executor. */
void soft_shared_number_dealloc(struct soft_shared_numbers *numbers, uint32_t exec, uint32_t number);
/* The executor that has the number now, or -1. */
int soft_shared_number_exec(const struct soft_shared_numbers *numbers, uint32_t number);

/* ---- lanes ------------------------------------------------------------------------------------------------------------------- */

/* Call it after the store that the thread must find. True: the thread sleeps, and the caller alone must write the lane's eventfd. */
bool soft_shared_lane_must_wake(struct soft_shared_lane *lane);
/* The same for news of a channel. */
bool soft_shared_lane_ring(struct soft_shared_lane *lane);

#endif
