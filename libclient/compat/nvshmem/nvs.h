/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host library of NVSHMEM programs on the runtime: what its files share.
 *
 * A process has one job, which is a world of the runtime with a GPU heap; all of its PEs are on one node. They map each other's memory, or reach it by
 * queues (ibgda.h).
 *
 *	life.c		init, the steps to a job, finalize		clients.c	device libraries that get the state
 *	ready.c		settings, the heap when it is needed		agree.c		agreements of PEs
 *	sets.c		scratch and teams of a class in GPU memory	teams.c		teams of the program
 *	memory.c	the heap					rma.c		puts and gets of the host, and on streams
 *	sync.c		barriers of the host, and on streams		coll.c		collectives on streams
 *	on-stream.c	words on streams				atomic.c	atomics of the host
 *	launch.c	launches with all blocks at once		region.c	regions of the host
 *	query.c		versions, names, data objects			log.c		failures
 *	ids.c		unique ids					proxy.c		a thread that kernels ask
 *	program-log.c	lines of the program
 *
 * Threads	init, finalize, teams and allocations: one at a time, as NVSHMEM has it; nvs.lock makes it so. All others any number, and
 *		frees wait for none of these
 */
#ifndef SHMD_NVSHMEM_NVS_H
#define SHMD_NVSHMEM_NVS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <shmd-info.h>
#include <shmd.h>

#include "libclient/compat/nvshmem/images.h"
#include "libclient/runtime/gpu/device.h"

#define NVS_API __attribute__((visibility("default")))

/* Results of the interface's functions. */
enum nvs_result {
	NVS_SUCCESS = 0,
	NVS_INVALID_VALUE = 1,
	NVS_OUT_OF_MEMORY = 2,
	NVS_NOT_SUPPORTED = 3,
	NVS_GPU_NOT_SELECTED = 5,
	NVS_INTERNAL = 7,
};

/* nvshmemx_init_status() */
enum nvs_status {
	NVS_STATUS_NONE = 0,
	NVS_STATUS_BOOTSTRAPPED = 1, /* has a rank; no GPU was selected yet */
	NVS_STATUS_INITIALIZED = 2,
};

enum nvs_signal_op {
	NVS_SIGNAL_SET = 9,
	NVS_SIGNAL_ADD = 10,
};

enum nvs_cmp {
	NVS_CMP_EQ = 0,
	NVS_CMP_NE = 1,
	NVS_CMP_GT = 2,
	NVS_CMP_LE = 3,
	NVS_CMP_LT = 4,
	NVS_CMP_GE = 5,
};

/* Scratch and teams of a class (sets.c), in GPU memory. */
struct nvs_set {
	bool is_there;
	enum nvs_class class;
	void *psync, *counters; /* symmetric */
	uint64_t pool; /* uint64_t[NVS_POOL_TEAMS] */
	uint64_t teams[NVS_POOL_TEAMS]; /* 0: this PE is not in it */
};

struct nvs_host_team {
	struct shmd_team *team; /* NULL: there is none with this index, or this PE is not in it */
	int32_t *pes; /* PEs of the world */
	uint64_t n_stream_syncs; /* by the driver */
	int32_t n_contexts; /* as the program has configured it */
	cuda_stream stream; /* of the host's reductions; NULL: there was none */
};

/* A device library, or a module or library of kernels, that has the state. */
struct nvs_client {
	uint64_t state, transport; /* addresses of its symbols */
	struct nvs_version version;
	uint32_t bytes; /* of its state */
	bool has_state; /* that of the job */
	int (*find)(void **state, void **transport); /* says where they are; NULL: they are known */
	struct nvs_client *next;
};

struct nvs {
	pthread_mutex_t lock;
	pthread_mutex_t frees; /* behind lock: a free, or the end of INITIALIZED */
	struct shmd_world *world; /* NULL: status is NONE */
	enum nvs_status status; /* atomic */
	int n_refs; /* of init calls */
	int (*start)(void); /* of life.c, which goes on from BOOTSTRAPPED; with the lock */
	struct device *device; /* that of the world's GPU heap */
	struct nvs_facts facts;
	uint64_t n_copies, n_copies_done; /* atomic; by the library's stream: begun, and those that a quiet has waited for */
	uint64_t tables; /* what facts.peers_p2p and the others point into */
	struct nvs_set sets[NVS_CLASSES];
	bool has_kernels; /* all PEs have those of the runtime (<shmd-stream.h>); the same on all */
	int max_teams;
	struct nvs_host_team teams[NVS_POOL_TEAMS];
	struct shmd_team *same_gpu, *gpu_leaders, *mc_shared; /* the runtime does not make these by itself; NULL: this PE is in none */
	uint64_t *agreement; /* in the host's heap: words by which PEs agree (agree.c) */
	uint64_t *stream_words; /* symmetric GPU memory: uint64_t[max_teams][npes], by the PE that syncs (sync.c) */
	struct nvs_client *clients;
	struct nvs_ibgda *ibgda; /* ibgda.h; NULL: all PEs map each other's memory */
	struct nvs_proxy *proxy; /* proxy.h */
};
extern struct nvs nvs;

/* ---- log.c */

/* Writes "NAME: PE n: sentence" of shmd_error_text(); returns what the interface has for this errno. */
int nvs_fail(const char *name, int error) __attribute__((cold));
/* The same for functions that return nothing else: 0 for 0. */
int nvs_result(const char *name, int error);
/* -EOPNOTSUPP with a sentence: the driver has no function for this. */
int nvs_lacks(const char *what) __attribute__((cold));

/* ---- query.c: words of the interface that programs may set */
NVS_API extern int nvshmem_debug_level;
NVS_API extern uint64_t nvshmem_debug_mask;

/* ---- binding.c */

/* Warns on stderr if calls of the process reach another library of this name. is_verbose: writes where they go. */
void nvs_binding_check(bool is_verbose);

/* ---- ready.c */

/* The job has its heap, or gets it: collective then. 0; -ENOTCONN with a sentence: there was no init. Takes no lock and needs none. */
int nvs_ready(void);
/* The job has its heap. */
bool nvs_is_running(void);
/* The job is that of the process from which this one was forked: CUDA does not work here, and the lock may be another thread's. */
bool nvs_is_forked(void);
/* -EOPNOTSUPP with a sentence: not all PEs have kernels, so none launches one, for which others might wait. */
int nvs_need_kernels(void);
bool nvs_newer_is_allowed(void);
/* The log is at debug or trace, which SHMD_DEBUG asks for. */
bool nvs_is_verbose(void);
/* The log's level for all parts as the user has set it; "" if nobody has. */
void nvs_log_setting(char ret_level[SHMD_INFO_TEXT_BYTES]);
int nvs_max_teams(void);
/* Entries of a queue, if the user says how many. */
uint32_t nvs_queue_depth(uint32_t otherwise);
/* The GPU as the user names it, else "current": the context of the thread that starts the job. */
void nvs_choose_gpu(char ret_which[SHMD_INFO_TEXT_BYTES]);

/* ---- ids.c */

/* The program's id as the runtime has it, for a job. */
void nvs_uid_use(const struct nvs_uid *uid, struct shmd_uid *ret_uid);

/* ---- sets.c */

int nvs_sets_make(void);
void nvs_sets_drop(void);
/* The team's structure in all sets, and fresh scratch. Its members have a sync of their own afterwards, before any of them uses it. */
int nvs_sets_add_team(const struct nvs_members *members);
void nvs_sets_drop_team(int index);

/* ---- clients.c */

/* find NULL: it has the state. Owns nothing of the caller. */
int nvs_client_add(struct nvs_client client);
/* Clients that have no state yet get it. After a failure all of them stay, and the next call goes on. */
int nvs_clients_show(void);
/* The state of queues has changed. */
int nvs_clients_show_queues(void);
/* The start of the job has failed: nobody has its state. */
void nvs_clients_hide(void);
void nvs_client_remove(uint64_t state);
void nvs_client_remove_newest(void);
void nvs_clients_drop(void);

/* ---- agree.c */

#define NVS_AGREEMENT_WORDS (NVS_POOL_TEAMS / 64)
#define NVS_PLACE_BYTES 16u
/* Collective; the heap is there. */
int nvs_agreement_make(void);
/* Collective: the error of this PE, or a sentence about another one that has failed. All PEs have called when it returns 0. */
int nvs_agree(int error);
/* Collective: the sum of the values of all PEs. */
int nvs_agree_on(uint64_t value, uint64_t *ret_sum);
/* NVS_PLACE_BYTES of this PE, and behind them room for those of all. */
uint64_t *nvs_agreement_places(void);
/* The same of the members of a team. */
int nvs_agree_in(struct shmd_team *team, int error);
/* The members of a team of the program; other teams may call at the same time. */
int nvs_agree_as(const struct nvs_host_team *team, int error);
/* Whether all PEs say so. Collective. */
int nvs_agree_all(bool mine, bool *ret_all);

/* ---- teams.c */

int nvs_teams_make(void);
/* Collective, after a start that has failed on all PEs: the runtime has the numbers of its teams again. */
void nvs_teams_return(void);
void nvs_teams_drop(void);
/* NULL with a sentence: no team of this PE. */
struct nvs_host_team *nvs_team_at(int32_t team);

/* ---- rma.c: `bytes`, to or from the copy of `pe`, in the order of the stream. */

int nvs_copy_on(cuda_stream stream, void *dest, const void *source, size_t bytes);
/* The address of pe's copy; NULL with a sentence. */
void *nvs_at(const void *symmetric, int pe);
/* All copies of the host are complete. */
int nvs_quiet(void);

/* ---- sync.c */

/* The members of a team meet on their streams. */
int nvs_sync_on(struct nvs_host_team *team, cuda_stream stream);

#endif
