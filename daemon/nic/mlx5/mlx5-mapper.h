/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of clients: mapped, read, written and registered by a process of its user, the mapper, never by the daemon.
 *
 * A client can make whoever maps or touches its memory wait in the kernel for seconds, and a process dies no sooner than its last
 * thread wakes. So the daemon has descriptors alone, and asks: each request is a packet with its answer. A NIC has a mapper for each
 * user. Objects that a mapper makes in the kernel belong to the context of the command descriptor, as those of every process that
 * has it.
 *
 * Without a function that starts processes, as in tests, the requests are carried out here (mapper_serve).
 *
 * Any thread. Requests of one user wait for each other.
 */
#ifndef SHMEMD_NIC_MLX5_MAPPER_H
#define SHMEMD_NIC_MLX5_MAPPER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/nic/mlx5/mlx5-bell.h"
#include "daemon/nic/nic.h"
#include "proto/base/hash.h"
#include "proto/base/list.h"

/* ---- requests -------------------------------------------------------------------------------------------------------- */

enum mapper_op {
	MAPPER_INIT = 1, /* the first one: uid, settings */
	MAPPER_CTX_ADD, /* fd: the command descriptor, held until the context is removed. Answer: id */
	MAPPER_CTX_REMOVE, /* ctx */
	MAPPER_REG, /* fd: memory; ctx, offset, bytes, address, pd, access, is_writable. Answer: handle */
	MAPPER_DESTROY, /* ctx, kind, handle: pages are unpinned by the caller of the kernel */
	MAPPER_MAP, /* fd: memory; ctx, offset, bytes, fill_bytes, is_umem. Answer: id; handle and number of the umem */
	MAPPER_UNMAP, /* object */
	MAPPER_READ, /* object, offset, bytes. Answer: data */
	MAPPER_STORE, /* object, offset, value: one aligned word, with release order */
	MAPPER_PAGE_ADD, /* fds: a page's, in the order of enum MLX5_SAVED_*; ctx, address. Answer: id */
	MAPPER_PAGE_REMOVE, /* object: a page */
	MAPPER_PAGE_CATCH_UP,
	MAPPER_PAGE_LOOK,
	MAPPER_PAGE_SILENCE,
	MAPPER_QP_ADD, /* object: a page; memory, offset of the send word, qpn, is_gpu_driven */
	MAPPER_QP_REMOVE, /* object: a page; qpn */
	MAPPER_QP_RESET,
};

#define MAPPER_DATA_BYTES 4096u
#define MAPPER_MAX_FDS 3u

struct mapper_request {
	uint32_t op; /* enum mapper_op */
	uint32_t pd, access, kind, handle, qpn, value, uid;
	uint32_t gpu_poll_usec, spin_usec; /* MAPPER_INIT */
	bool is_writable, is_umem, is_gpu_driven;
	char name[NIC_NAME_BYTES]; /* MAPPER_INIT */
	uint64_t ctx, object, memory; /* ids */
	uint64_t offset, bytes, fill_bytes;
	uint64_t address; /* what the NIC calls the region's first byte; the doorbell page's place in the command descriptor */
};

struct mapper_answer {
	int32_t result; /* 0 or a negative errno of nic.h */
	uint32_t handle, number;
	uint64_t id;
	uint8_t data[MAPPER_DATA_BYTES]; /* a packet has the bytes that were asked for */
};

struct mapper_fds {
	unsigned int n;
	int fds[MAPPER_MAX_FDS];
};

/* ---- carrying out (mlx5-mapper-serve.c) -------------------------------------------------------------------------------- */

struct mapper_side {
	pthread_mutex_t lock; /* of the tables; what is in them belongs to whoever uses its context */
	struct hash ctxs, memories, pages; /* by id, owned */
	uint64_t last_id;
	struct bells bells;
};

void mapper_side_init(struct mapper_side *side, const struct bells_attr *attr);
/* Everything was removed. */
void mapper_side_deinit(struct mapper_side *side);
bool mapper_side_has_ctxs(struct mapper_side *side);
/* `fds` are borrowed. *ret_answer is written in every case. */
void mapper_serve(struct mapper_side *side, const struct mapper_request *request, const struct mapper_fds *fds,
		  struct mapper_answer *ret_answer);

/* ---- packets (mlx5-mapper-wire.c) -------------------------------------------------------------------------------------- */

/*
 * Both wait. -EPIPE: the other side has gone, or sends something else. Received descriptors are the caller's; ret_fds NULL: the kernel
 * closes them.
 */
int mapper_send(int sock, const void *data, size_t bytes, const struct mapper_fds *fds);
int mapper_recv(int sock, void *data, size_t most, size_t *ret_bytes, struct mapper_fds *ret_fds);
void mapper_fds_close(struct mapper_fds *fds);
/* How much of the answer is in its packet. */
size_t mapper_answer_bytes(const struct mapper_request *request);

/* ---- processes (mlx5-mapper.c) ----------------------------------------------------------------------------------------- */

struct mapper;

struct mappers_attr {
	struct bells_attr bells;
	int (*start_process)(void *arg, uint32_t uid, int *ret_channel); /* of nic.h; NULL: requests are carried out here */
	void *start_arg;
};

/* The mappers of one NIC. */
struct mappers {
	struct mappers_attr attr;
	struct mapper_side side; /* of requests that are carried out here */
	pthread_mutex_t lock; /* of what follows */
	struct list all; /* struct mapper.link */
	uint32_t n;
};

void mappers_init(struct mappers *mappers, const struct mappers_attr *attr);
void mappers_deinit(struct mappers *mappers);
/*
 * The mapper of this user, started if there is none; the caller's reference. `is_own`: of memory of the daemon's, which no client has:
 * its requests are carried out here. -EUSERS: too many users, or nobody starts a process; -ENOMEM.
 */
int mapper_get(struct mappers *mappers, uint32_t uid, bool is_own, struct mapper **ret_mapper);
struct mapper *mapper_ref(struct mapper *mapper);
void mapper_put(struct mapper *mapper);
bool mapper_is_dead(const struct mapper *mapper);
/* The control thread: its channel has ended, perhaps before a request noticed. */
bool mapper_has_hung_up(const struct mapper *mapper);
/* The channel, which hangs up when the mapper dies; -1: requests are carried out here. */
int mapper_channel(const struct mapper *mapper);
/*
 * The NIC page of this user's doorbell pages there: `saved_fd`, or if that is -1 the one of former calls, or a new one. All files that a
 * client gets are the daemon's making: an answer has no descriptors. The caller's duplicate.
 */
int mapper_nic_page(struct mapper *mapper, uint32_t uid, int saved_fd, int *ret_fd);
/* Waits as long as the user's memory makes it. The answer's result; -EPIPE: the mapper has died. */
int mapper_call(struct mapper *mapper, const struct mapper_request *request, const struct mapper_fds *fds,
		struct mapper_answer *ret_answer);

#endif
