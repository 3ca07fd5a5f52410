/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime: PEs, worlds, a symmetric heap, teams, one-sided operations.
 *
 * A world is a set of processes, its PEs, which are numbered from 0. Each has a symmetric heap: shmd_malloc() returns memory that
 * exists on all PEs, and the address of one PE's copy names the copies of all others. A PE puts to, gets from and counts in the
 * memory of other PEs without their help: through mapped memory on one node, by queues that shmemd owns otherwise.
 *
 * Errors: functions return 0 or a negative errno; shmd_error_text() then has a sentence for this thread that names the PE, its node
 * and the cause. Every function that waits has a time limit.
 *
 * These rules hold for every function, unless its comment says otherwise:
 *	Ownership	a handle belongs to the caller until the function that ends it, and at the latest until shmd_world_close()
 *	Attrs		zero in a field means the default that its comment names, NULL in place of an attr all defaults
 *	Collective	the comment says so if all PEs of the world or team must call, with equal arguments, in the same order
 *	Threads		any number, if the world was opened with SHMD_THREAD_MULTIPLE (the default); collective calls on one world
 *			or team one at a time
 *	Blocks		at most the time limit of the world or context: -ETIMEDOUT. The text of a collective call names PEs that did not come.
 *			Operations that were begun may still be carried out
 *	Errors		-EINVAL an argument, also a context or team that is NULL, as those of a world are before shmd_world_start();
 *			-ETIMEDOUT; -ENOMEM; -EHOSTDOWN the PE has ended, or for waits and collective calls any PE that
 *			shmd_world_forgive() has not been called for; -ENOTCONN a world that is not started, or there is no path to the
 *			PE; -ECONNRESET shmemd or this session has ended, or the NIC is down; -EIO a request failed at the NIC;
 *			-ECHILD in a forked child
 *	Since		0.2
 * Device functions on the same objects are in <shmd/dev/pe.h>; they compile as C and as CUDA.
 */
#ifndef SHMD_H
#define SHMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmd-bootstrap.h>
#include <shmd-coll.h>
#include <shmd/abi/world.h>
#include <shmemclient.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shmd_world;
struct shmd_ctx;
struct shmd_team;

/* ---- worlds --------------------------------------------------------------------------------------------------------------- */

enum shmd_thread_level {
	SHMD_THREAD_SINGLE = 1,
	SHMD_THREAD_FUNNELED = 2,
	SHMD_THREAD_SERIALIZED = 3,
	SHMD_THREAD_MULTIPLE = 4,
};

/* struct shmd_world_attr.paths */
#define SHMD_ALLOW_MAPPED 0x1u
#define SHMD_ALLOW_QUEUE 0x2u

struct shmd_world_attr {
	const char *bootstrap; /* module: "auto", "uid", "pmi1", ...; NULL: $SHMD_BOOTSTRAP, else "auto" */
	const struct shmd_uid *uid; /* with rank and size: the bootstrap is "uid"; NULL: as `bootstrap` says */
	int rank, size; /* with uid */
	const void *mpi_comm; /* pointer to an MPI_Comm: the bootstrap is "mpi"; NULL: as `bootstrap` says */
	const char *socket_path; /* of shmemd, as in shmd_client_attr; all worlds of a process that are open have the same */
	uint64_t heap_bytes; /* of the first chunk; 0: $SHMD_HEAP_SIZE */
	uint32_t paths; /* SHMD_ALLOW_*; 0: $SHMD_PATHS, else all */
	enum shmd_thread_level threads; /* 0: SHMD_THREAD_MULTIPLE */
	uint64_t timeout_nsec; /* of every operation; 0: $SHMD_TIMEOUT; SHMD_DEV_NO_TIMEOUT: none */
	const char *gpu; /* of the GPU heap: "none", "auto", "current" or a number; NULL: $SHMD_GPU */
	uint64_t gpu_heap_bytes; /* of its first chunk; 0: $SHMD_GPU_HEAP_SIZE */
};

/* shmd_uid_make - a unique id for a new world, to be given to all its ranks. The caller becomes rank 0 of that world. */
SHMD_EXPORT int shmd_uid_make(struct shmd_uid *ret_uid);
/*
 * shmd_world_open - join a world: the caller has a rank afterwards
 *
 * Collective. Makes no heap and needs no daemon yet: shmd_world_start() does. A process may have any number of worlds, of any size,
 * one after the other or at once; they share the process's session with shmemd.
 *
 * attr		in; may be NULL. Its strings are not kept
 * Blocks	until all ranks have called, at most $SHMD_BOOTSTRAP_TIMEOUT
 * Errors	-ETIMEDOUT ranks are missing, the text names them; -EPROTO another version of the library, or two ranks with one number
 */
SHMD_EXPORT int shmd_world_open(const struct shmd_world_attr *attr, struct shmd_world **ret_world);
/*
 * shmd_world_start - make the heap and the paths to all PEs
 *
 * Collective; a second call does nothing. shmd_malloc() and the other collective calls on a world do it where it was not done.
 *
 * While shmemd restarts under a service manager that keeps its socket, it waits for the next one, at most the time limit.
 *
 * Blocks	in each step until all PEs have come, at most $SHMD_BOOTSTRAP_TIMEOUT
 * Errors	-ECONNREFUSED, -ENOENT shmemd does not run; -EHOSTUNREACH the allowed paths do not lead to a PE; those of
 *		shmd_nic_open() and shmd_queues_create(). If one PE fails all do
 */
SHMD_EXPORT int shmd_world_start(struct shmd_world *world);
/*
 * shmd_world_close - leave the world
 *
 * Collective: waits for all PEs, then frees contexts, teams, heap. It always frees; the result says whether all PEs came, but for those
 * that were forgiven. If a PE has ended it waits for none: PEs that still use each other's memory then sync before, by a team of theirs.
 * NULL is allowed. In a forked child it frees the child's copy only.
 *
 * Blocks	for the caller's operations, and then for the PEs, each at most the time limit of the world; for the PEs no longer than
 *		$SHMD_BOOTSTRAP_TIMEOUT, either, and with a plug-in for that time. When the limit of one PE has passed, the call ends for all
 * Threads	no other call on the world, its contexts or teams is under way in this process, nor a device function on them: the caller
 *		joins its threads before. The memory of the heap is unmapped
 */
SHMD_EXPORT int shmd_world_close(struct shmd_world *world);
/* The status of shmd_world_abort() that stands for the exit status 0. */
#define SHMD_ABORT_SUCCESS (-1)
/*
 * End the processes of all PEs with this exit status (0: 1). Not collective; does not return. All PEs flush their stdio before, unless that
 * takes longer than half a second.
 */
SHMD_EXPORT void shmd_world_abort(struct shmd_world *world, int status, const char *why) __attribute__((noreturn));

enum shmd_world_status {
	SHMD_WORLD_NONE = 0, /* NULL, or closed in a forked child */
	SHMD_WORLD_OPEN = 1, /* has a rank, and no heap yet */
	SHMD_WORLD_STARTED = 2,
	SHMD_WORLD_BROKEN = 3, /* a PE has ended, or the session has */
};
/* Never blocks. */
SHMD_EXPORT enum shmd_world_status shmd_world_status(const struct shmd_world *world);

struct shmd_world_info {
	int pe, n_pes;
	int node_pe, n_node_pes; /* among the PEs of this node */
	int node, n_nodes; /* nodes are numbered by their lowest PE; before the start as the launcher says, or -1 */
	int n_gone; /* PEs that have ended */
	char bootstrap[32]; /* the module */
	uint64_t heap_bytes, heap_used_bytes, heap_max_bytes; /* in chunks, allocated, reserved */
};
SHMD_EXPORT int shmd_world_info(const struct shmd_world *world, struct shmd_world_info *ret_info);
/* -1 for NULL. Never block. */
SHMD_EXPORT int shmd_my_pe(const struct shmd_world *world);
SHMD_EXPORT int shmd_n_pes(const struct shmd_world *world);

struct shmd_pe_info {
	enum shmd_path path;
	int node, node_pe;
	int pid; /* as the PE saw itself */
	char host[64];
	char nic[32]; /* by which requests go to it, "mlx5_0,mlx5_1" if contexts have several; empty without a queue */
	char reason[128]; /* why this path and not a better one */
};
SHMD_EXPORT int shmd_pe_info(const struct shmd_world *world, int pe, struct shmd_pe_info *ret_info);
/*
 * shmd_world_forgive - go on after a failure: without the PEs that have ended so far, and with queues that failed made anew
 *
 * Until then the end of a PE ends every wait for memory and every collective call with -EHOSTDOWN. Operations to it keep failing.
 * Until then, too, a queue that failed fails every operation: those to its PE, and by DC, where PEs share senders, also those to others. A
 * PE whose RC QP failed is reached by DC from then on; the PE at its other end calls this as well. Operations under way on such a queue
 * are lost.
 *
 * Threads	no thread posts on this world meanwhile, and no kernel
 * Errors	those of shmd_queues_create(): queues stay failed; the call may be repeated
 */
SHMD_EXPORT int shmd_world_forgive(struct shmd_world *world);
/*
 * shmd_world_hot_peers - an RC QP for the busiest pairs of PEs, where the others go by DC
 *
 * Collective. Each PE names the PEs that shall be hot for it from now on, instead of those before. A pair becomes hot if one of the two names
 * the other and both have room: a PE has QPs for at most $SHMD_HOT_PEERS, first for those that it names, in their order, then for PEs
 * that name it. Requests to all others go by DC; so do those of contexts with senders of their own. If no PE has more than $SHMD_RC_PEERS
 * peers by queues, all have an RC QP anyway, and the call does nothing. Completes all operations first, so it is a shmd_quiet() too: order
 * holds across it.
 *
 * pes		in; n of them. The caller and PEs that need no queue are passed over. NULL with n 0: those with the most operations of
 *		the default context since the last such call, at least 1000
 * Threads	no thread posts on this world meanwhile
 * Errors	as all collective calls; all PEs then go by DC. A pair that cannot have QPs, by a quota for example, stays on DC, with a
 *		line in the log. shmd_pe_info() has the outcome
 */
SHMD_EXPORT int shmd_world_hot_peers(struct shmd_world *world, const int *pes, int n);

/* ---- symmetric memory ---------------------------------------------------------------------------------------------------------- */

/*
 * Hints: bits of `hints`. With one of these the memory has cache lines of its own (64 bytes) also if it is less than one, so that what
 * PEs do to its words does not slow those that use the memory beside it. Memory of a line or more always has. SHMD_HINT_GPU chooses the heap.
 * Other bits have no effect.
 */
#define SHMD_HINT_ATOMICS 0x1u /* used by atomics of remote PEs */
#define SHMD_HINT_SIGNALS 0x2u /* used as signal words */
/*
 * Memory of the GPU heap, which kernels use by device functions (shmd_ctx_gpu_dev()). The world has such a heap if shmd_world_attr or $SHMD_GPU,
 * $SHMD_GPU_HEAP_SIZE ask for it.
 *
 * On the host puts, gets, p, g, signals and atomics take it as symmetric memory, and puts and gets as their local side too, if it is this
 * PE's own. Where the world has queues they carry it. Else CUDA copies, and atomics and SHMD_SIGNAL_ADD are a kernel (-EOPNOTSUPP: the library
 * was built without nvcc); an operation is complete then when the function returns. Waits, tests, locks, collectives and registration of
 * buffers refuse it with -EINVAL. shmd_signal_fetch() and device functions on CPU threads must not get it, nor any function other memory of a GPU.
 */
#define SHMD_HINT_GPU 0x4u

/*
 * shmd_malloc - symmetric memory
 *
 * Collective on the world; a barrier at its end. The same offset on all PEs. The heap grows by chunks when it is full.
 * shmd_calloc() zeroes it on each PE before the barrier. shmd_align() takes an alignment, a power of two. shmd_realloc() keeps the
 * contents, may move, and with ptr NULL allocates.
 *
 * bytes	0: succeeds with NULL
 * ret_ptr	out: 16-byte aligned or better, valid until shmd_free()
 * Errors	-ENOMEM the heap is full on one PE at least, so no PE has the memory; -EINVAL the PEs pass different arguments.
 *		-ETIMEDOUT, -EHOSTDOWN, -ECONNRESET or -EIO while the PEs tell each other what they ask for loses the heap to this PE: the
 *		others may have the memory, so later calls of these functions but shmd_free() fail here with the same error
 */
SHMD_EXPORT int shmd_malloc(struct shmd_world *world, size_t bytes, uint32_t hints, void **ret_ptr);
SHMD_EXPORT int shmd_calloc(struct shmd_world *world, size_t n, size_t bytes, uint32_t hints, void **ret_ptr);
SHMD_EXPORT int shmd_align(struct shmd_world *world, size_t alignment, size_t bytes, uint32_t hints, void **ret_ptr);
SHMD_EXPORT int shmd_realloc(struct shmd_world *world, void *ptr, size_t bytes, void **ret_ptr);
/*
 * shmd_free - this PE does not need the memory any more
 *
 * Not collective and never waits. The memory serves again when all PEs have freed it. NULL is allowed.
 *
 * Errors	-EINVAL not the start of an allocation, or freed already
 */
SHMD_EXPORT int shmd_free(struct shmd_world *world, void *ptr);
/* The address at which this process reaches pe's copy by loads and stores; NULL if it does not. Never blocks. */
SHMD_EXPORT void *shmd_ptr(const struct shmd_world *world, const void *ptr, int pe);

/*
 * shmd_buffer_register - let the NIC of this PE read and write memory of the program in place
 *
 * Local. Puts from the buffer and gets into it that go by queues need no copy then. It stays local: peers do not reach it. Its whole pages move
 * into a memfd of the same address and contents, as shmd_mem_adopt() says, which forked children share; the bytes beside its whole
 * pages keep travelling as other memory. Where no PE needs a queue, nothing happens to the memory. Several worlds may register one buffer.
 *
 * addr, bytes	in: private anonymous memory that can be read and written, from malloc or mmap, not a stack; stays the caller's, and
 *		there until shmd_buffer_unregister() or shmd_world_close(). No thread writes to it during the call
 * Errors	-EEXIST it overlaps with a registered buffer of this world; -EINVAL not such memory, or in the symmetric heap; -EDQUOT,
 *		-ENOSPC, -ECONNRESET and others of shmd_mr_reg()
 */
SHMD_EXPORT int shmd_buffer_register(struct shmd_world *world, void *addr, size_t bytes);
/*
 * shmd_buffer_unregister - end that
 *
 * Local; by the address that was registered. Completes the operations of all contexts of the world first, so no other thread uses one with
 * SHMD_CTX_PRIVATE or SHMD_CTX_SERIALIZED during the call. The last world of the process that ends it makes the memory private again; no
 * thread writes to it during the call. shmd_world_close() ends what is left, and leaves the memory as it is.
 *
 * Errors	-EINVAL no buffer is registered there; -ETIMEDOUT operations did not complete, it stays registered; -ENOMEM it is
 *		unregistered, but stays in its memfd
 */
SHMD_EXPORT int shmd_buffer_unregister(struct shmd_world *world, void *addr);

/*
 * shmd_buffer_register_symmetric - memory of the program as symmetric memory
 *
 * Collective on the world; a barrier at its end. Each PE passes a buffer of its own, all of one size. The memory appears a second time in the
 * range of the heap, at the same offset on all PEs: *ret_ptr names the copies of all PEs in every function, addr does not. It takes the place
 * of a chunk of the heap, of which there are SHMD_DEV_HEAP_CHUNKS; a place serves again for a buffer of that size or less.
 *
 * In a world with a GPU heap it may be memory of the GPUs instead, on all PEs, and *ret_ptr lies in the GPU heap: memory that cuMemCreate() has made,
 * with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, from its begin on, in multiples of 2 MiB, and not memory that CUDA has allocated otherwise or
 * registered. The program's own mapping of it stays. Worlds with queues have not been tried with it.
 *
 * addr, bytes	in: pages of private anonymous memory, as shmd_buffer_register() wants it, or memory of a GPU; stays the caller's, and there
 *		until shmd_buffer_unregister_symmetric() or shmd_world_close()
 * ret_ptr	out: valid until then; not for shmd_free()
 * Errors	-EINVAL not whole pages or not such memory on one PE, or the sizes differ; -EOPNOTSUPP memory of a GPU that CUDA passes to no other
 *		process; -EXDEV a peer's GPU has no way to it; -ENOMEM no place in the heap's range (SHMD_HEAP_RESERVE, SHMD_GPU_HEAP_RESERVE); those of shmd_mr_reg(),
 *		shmd_publish(). If one PE fails all do. After -ETIMEDOUT or -EHOSTDOWN as shmd_malloc()
 */
SHMD_EXPORT int shmd_buffer_register_symmetric(struct shmd_world *world, void *addr, size_t bytes, void **ret_ptr);
/*
 * shmd_buffer_unregister_symmetric - end that
 *
 * Collective on the world: completes the operations of all contexts, and waits for all PEs. Contexts and memory as shmd_buffer_unregister()
 * says. Kernels, and calls on streams, that use memory of a GPU have ended before, on all PEs.
 *
 * ptr		in: as shmd_buffer_register_symmetric() returned it
 * Errors	-EINVAL no such buffer on one PE, or the PEs pass different ones; -ENOMEM it is unregistered, but stays in its memfd on
 *		one PE. After -ETIMEDOUT or -EHOSTDOWN as shmd_malloc()
 */
SHMD_EXPORT int shmd_buffer_unregister_symmetric(struct shmd_world *world, void *ptr);

/* ---- contexts --------------------------------------------------------------------------------------------------------------------- */

/* struct shmd_ctx_attr.flags */
#define SHMD_CTX_PRIVATE 0x1u /* used by the thread that made it only */
#define SHMD_CTX_SERIALIZED 0x2u /* by one thread at a time */

struct shmd_ctx_attr {
	uint32_t flags; /* SHMD_CTX_* */
	uint64_t timeout_nsec; /* 0: the world's */
};

/* The default context of a world; NULL before its start. Never blocks. */
SHMD_EXPORT struct shmd_ctx *shmd_world_ctx(struct shmd_world *world);
/*
 * shmd_ctx_create - a context on a team: PEs are numbered as in it
 *
 * Local. Its operations have an order of their own, and its quiet waits for no other context: on the path queue it has DC senders of its
 * own ($SHMD_CTX_DCIS). It shares the queues of the world, and then a quiet waits for all who do, if that setting is 0 or the NIC of a PE
 * has no dynamic connections. Contexts are spread over the NICs of this PE ($SHMD_NICS_PER_PE); each uses one, and on NICs other than soft ones the first one
 * for atomics and signals, with as many senders again. A context ends before its team.
 *
 * Errors	-EDQUOT, -ENOSPC there is no room for its queues; those of shmd_queues_create()
 */
SHMD_EXPORT int shmd_ctx_create(struct shmd_team *team, const struct shmd_ctx_attr *attr, struct shmd_ctx **ret_ctx);
/* Waits until its operations are complete, and frees it, on failure too. NULL is allowed. */
SHMD_EXPORT int shmd_ctx_destroy(struct shmd_ctx *ctx);
/* For device functions on CPU threads; valid until destroy. Never block. */
SHMD_EXPORT struct shmd_dev_ctx *shmd_ctx_dev(struct shmd_ctx *ctx);
SHMD_EXPORT struct shmd_dev_world *shmd_world_dev(struct shmd_world *world);
/*
 * shmd_world_gpu_dev, shmd_ctx_gpu_dev, shmd_team_gpu_dev - for device functions in kernels on the GPU of the GPU heap
 *
 * Addresses in GPU memory of a struct shmd_dev_world, shmd_dev_ctx, shmd_dev_team, valid until the object ends; no kernel uses it then.
 * Kernels reach addresses of the GPU heap only. They count the syncs of a team apart from those of the host: members make the same calls
 * in kernels, and kernels complete their operations (shmd_dev_quiet()) before a team or context of theirs ends. The end of a PE ends waits of
 * kernels as it does those of the host. With SHMD_CTX_PRIVATE and SHMD_CTX_SERIALIZED the same holds among the threads of kernels and the host.
 *
 * PEs that are not mapped are reached by queues which kernels drive: each context has DC senders for them ($SHMD_CTX_DCIS, at least one), apart
 * from those of the host, on the first NIC of the PE. In such a world kernels send all atomics and signals by queues, also to themselves:
 * no store, atomic or copy of CUDA in place is exact against them.
 *
 * Blocks	the first call for an object while CUDA allocates and zeroes its copy, and for requests if the world has queues
 * Errors	-EOPNOTSUPP the world has no GPU heap, or the NIC of a PE no dynamic connections; -ENOTCONN it has not started; -ENOMEM no GPU memory;
 *		those of shmd_queues_create()
 */
SHMD_EXPORT int shmd_world_gpu_dev(struct shmd_world *world, uint64_t *ret_addr);
SHMD_EXPORT int shmd_ctx_gpu_dev(struct shmd_ctx *ctx, uint64_t *ret_addr);
SHMD_EXPORT int shmd_team_gpu_dev(struct shmd_team *team, uint64_t *ret_addr);
/*
 * shmd_ctx_gpu_copy - the context as shmd_ctx_gpu_dev() has it in GPU memory, for the parameters of a kernel
 *
 * A kernel with a parameter `const __grid_constant__ struct shmd_dev_ctx ctx` calls device functions with shmd_dev_ctx_of(&ctx). It is quicker than with
 * the address: parameters lie in memory that the waits of a kernel do not empty. Valid as long as the address is, and any number of copies.
 * Calls on memory that the GPU heap got after the copy was made take a longer way. A call for the address of the context shows the growth to all
 * kernels that have the address.
 *
 * ret_ctx	out; the size of the caller's header is that of the library, whose world state has one version
 * Blocks, errors	as shmd_ctx_gpu_dev()
 * Since		1.0
 */
SHMD_EXPORT int shmd_ctx_gpu_copy(struct shmd_ctx *ctx, struct shmd_dev_ctx *ret_ctx);

/* ---- teams ------------------------------------------------------------------------------------------------------------------------ */

/* Teams that every world has; NULL before its start. Never block. */
SHMD_EXPORT struct shmd_team *shmd_team_world(struct shmd_world *world);
/* The PEs whose memory is mapped here, and the PEs of this node. */
SHMD_EXPORT struct shmd_team *shmd_team_shared(struct shmd_world *world);
SHMD_EXPORT struct shmd_team *shmd_team_node(struct shmd_world *world);
/* The PEs that have the place of the caller on their nodes (node_pe), in the order of the world: one of each node that has so many. */
SHMD_EXPORT struct shmd_team *shmd_team_same_index(struct shmd_world *world);
/*
 * shmd_team_split_strided - PEs start, start + stride, ... of the parent as a new team
 *
 * Collective on the parent; PEs that are not members get NULL. At most SHMD_DEV_MAX_TEAMS live on a PE.
 */
SHMD_EXPORT int shmd_team_split_strided(struct shmd_team *parent, int start, int stride, int n_pes, struct shmd_team **ret_team);
/* A grid with rows of xrange PEs: the caller's row and its column. Collective on the parent. */
SHMD_EXPORT int shmd_team_split_2d(struct shmd_team *parent, int xrange, struct shmd_team **ret_row, struct shmd_team **ret_column);
/* PEs with equal colors, ordered by key, then by PE; color -1: no team. Collective on the parent. */
SHMD_EXPORT int shmd_team_split_color(struct shmd_team *parent, int color, int key, struct shmd_team **ret_team);
/* The members of a new team as each of them names them; all pass the same, but for my_pe. */
struct shmd_team_members {
	uint64_t tag; /* any number that tells the team from others that some of its members make at the same time */
	int n_pes;
	const int *pes; /* n_pes PEs of the world, each once, in the order of the team; NULL: the callers find each other by the tag */
	int my_pe; /* without pes: the number of the caller in the team */
};
/*
 * shmd_team_from_members - a team of any PEs, which they make by themselves
 *
 * Collective on the members; other PEs of the world take no part and need not know of it. A PE may make several teams at once, in
 * threads, if their tags differ. When the call returns all members have the team, and the tag may serve again.
 *
 * members	in; not kept
 * Blocks	until all members have called
 * Errors	-EINVAL a PE is not in the world, or named twice, the caller is not named, or two PEs have one number; -ENOSPC
 *		SHMD_DEV_MAX_TEAMS live on a PE, all members get it; -ETIMEDOUT a PE did not call with these members and this tag, the text
 *		names it; -EHOSTDOWN a PE has ended that was not forgiven. After a failure members may call again
 */
SHMD_EXPORT int shmd_team_from_members(struct shmd_world *world, const struct shmd_team_members *members,
				       struct shmd_team **ret_team);
/*
 * Collective on the team, whose contexts have been destroyed. Teams that every world has are left alone. NULL is allowed. Unless all
 * members map each other it completes the operations of all contexts first; where the team was used by private ones, the program has done so.
 * The program has completed those of its own kernels and of its calls on streams. A PE whose operations do not complete gets the error; no member
 * uses the team's number again then, and the others get 0.
 */
SHMD_EXPORT int shmd_team_destroy(struct shmd_team *team);
/* A program's plans with a team. Each PE keeps its own; a new team has zeros. */
struct shmd_team_config {
	uint32_t n_contexts; /* that will live on it at once; no limit: each is made when shmd_ctx_create() asks for it */
};
/* config		in; NULL: zeros. Local. Never block. */
SHMD_EXPORT int shmd_team_set_config(struct shmd_team *team, const struct shmd_team_config *config);
SHMD_EXPORT int shmd_team_config(const struct shmd_team *team, struct shmd_team_config *ret_config);
/* -1 for NULL. Never block. */
SHMD_EXPORT int shmd_team_my_pe(const struct shmd_team *team);
SHMD_EXPORT int shmd_team_n_pes(const struct shmd_team *team);
/* PE `pe` of one team as a PE of another; -1 if it is not in it. to NULL: in the world. Never blocks. */
SHMD_EXPORT int shmd_team_translate(const struct shmd_team *from, int pe, const struct shmd_team *to);
/* As shmd_ptr(), with a PE of the team. */
SHMD_EXPORT void *shmd_team_ptr(const struct shmd_team *team, const void *ptr, int pe);
SHMD_EXPORT struct shmd_dev_team *shmd_team_dev(struct shmd_team *team);
/*
 * All PEs of the team have called; stores and mapped operations before it are visible. Does not complete operations on queues. A team whose PE has
 * ended has no more syncs, barriers and collectives: -EHOSTDOWN, also when that PE was forgiven, before the call or during it.
 */
SHMD_EXPORT int shmd_team_sync(struct shmd_team *team);
/* Completes all operations of this PE on the default context, then syncs. */
SHMD_EXPORT int shmd_team_barrier(struct shmd_team *team);
SHMD_EXPORT int shmd_barrier_all(struct shmd_world *world);
SHMD_EXPORT int shmd_sync_all(struct shmd_world *world);

/* ---- one-sided operations ------------------------------------------------------------------------------------------------------------ */

/*
 * dest of a put and source of a get are symmetric; pe is a PE of the context's team. put returns when the source may be changed, get
 * when the data is there; the _nbi forms return at once, and shmd_quiet() waits for them. 0 bytes succeed, whatever the addresses.
 */
SHMD_EXPORT int shmd_put(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe);
SHMD_EXPORT int shmd_put_nbi(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe);
SHMD_EXPORT int shmd_get(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe);
SHMD_EXPORT int shmd_get_nbi(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe);
/* One value of 1, 2, 4 or 8 bytes. */
SHMD_EXPORT int shmd_p(struct shmd_ctx *ctx, void *dest, uint64_t value, size_t bytes, int pe);
SHMD_EXPORT int shmd_g(struct shmd_ctx *ctx, const void *source, size_t bytes, int pe, uint64_t *ret_value);

/* n blocks of block_bytes, whose starts are so many bytes apart on each side. */
struct shmd_stride {
	size_t n, block_bytes;
	size_t dest_stride_bytes, source_stride_bytes;
};
SHMD_EXPORT int shmd_put_strided(struct shmd_ctx *ctx, void *dest, const void *source, const struct shmd_stride *stride, int pe);
SHMD_EXPORT int shmd_put_strided_nbi(struct shmd_ctx *ctx, void *dest, const void *source, const struct shmd_stride *stride, int pe);
SHMD_EXPORT int shmd_get_strided(struct shmd_ctx *ctx, void *dest, const void *source, const struct shmd_stride *stride, int pe);
SHMD_EXPORT int shmd_get_strided_nbi(struct shmd_ctx *ctx, void *dest, const void *source, const struct shmd_stride *stride, int pe);

/* One of several puts: dest, source, bytes, pe. */
struct shmd_put_item {
	void *dest;
	const void *source;
	size_t bytes;
	int pe;
};
/* n puts at once, announced together where they go by one queue. As put_nbi. */
SHMD_EXPORT int shmd_put_batch_nbi(struct shmd_ctx *ctx, const struct shmd_put_item *items, size_t n);

/* One of several gets. */
struct shmd_get_item {
	void *dest;
	const void *source;
	size_t bytes;
	int pe;
};
/* The same with gets. As get_nbi. */
SHMD_EXPORT int shmd_get_batch_nbi(struct shmd_ctx *ctx, const struct shmd_get_item *items, size_t n);

enum shmd_signal_op {
	SHMD_SIGNAL_SET = 0,
	SHMD_SIGNAL_ADD = 1,
};
/* A put, then the signal: a PE that sees the signal also sees the data. */
SHMD_EXPORT int shmd_put_signal(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, uint64_t *signal, uint64_t value,
				enum shmd_signal_op op, int pe);
SHMD_EXPORT int shmd_put_signal_nbi(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, uint64_t *signal,
				    uint64_t value, enum shmd_signal_op op, int pe);
SHMD_EXPORT int shmd_signal(struct shmd_ctx *ctx, uint64_t *signal, uint64_t value, enum shmd_signal_op op, int pe);
/* The caller's own copy. Never blocks. */
SHMD_EXPORT uint64_t shmd_signal_fetch(const uint64_t *signal);

enum shmd_atomic_op {
	SHMD_ATOMIC_FETCH = 0,
	SHMD_ATOMIC_ADD = 1,
	SHMD_ATOMIC_AND = 2,
	SHMD_ATOMIC_OR = 3,
	SHMD_ATOMIC_XOR = 4,
	SHMD_ATOMIC_SWAP = 5, /* shmd_atomic(): set */
	SHMD_ATOMIC_COMPARE_SWAP = 6,
	SHMD_ATOMIC_ADD_FLOAT = 7, /* bytes 4: a float, 8: a double, by its bits in `value` */
};
struct shmd_atomic {
	enum shmd_atomic_op op;
	uint32_t bytes; /* 4 or 8 */
	uint64_t value;
	uint64_t compare; /* COMPARE_SWAP */
};
/*
 * Atomic with each other, from whatever PE and by whatever path, if all are made by these functions. shmd_atomic() returns when
 * it is posted, shmd_atomic_fetch() with the former value (for which ret_old may be NULL).
 */
SHMD_EXPORT int shmd_atomic(struct shmd_ctx *ctx, void *dest, const struct shmd_atomic *atomic, int pe);
SHMD_EXPORT int shmd_atomic_fetch(struct shmd_ctx *ctx, void *dest, const struct shmd_atomic *atomic, int pe, uint64_t *ret_old);
/*
 * The former value is in `bytes` aligned bytes at ret_old, not NULL, when shmd_quiet() returned. By a queue it waits nevertheless where
 * ret_old is not in the heap or registered, and for words of 4 bytes and operations that the NIC lacks, such as ADD_FLOAT.
 */
SHMD_EXPORT int shmd_atomic_fetch_nbi(struct shmd_ctx *ctx, void *dest, const struct shmd_atomic *atomic, int pe, void *ret_old);

/* ---- order and waiting ------------------------------------------------------------------------------------------------------------------ */

/* Operations of this context before it take effect at each PE before those after it. */
SHMD_EXPORT int shmd_fence(struct shmd_ctx *ctx);
SHMD_EXPORT int shmd_fence_pe(struct shmd_ctx *ctx, int pe);
/* All operations of this context are complete and visible. The first error of any of them since the last quiet. */
SHMD_EXPORT int shmd_quiet(struct shmd_ctx *ctx);
SHMD_EXPORT int shmd_quiet_pe(struct shmd_ctx *ctx, int pe);

enum shmd_cmp {
	SHMD_CMP_EQ = 0,
	SHMD_CMP_NE = 1,
	SHMD_CMP_GT = 2,
	SHMD_CMP_GE = 3,
	SHMD_CMP_LT = 4,
	SHMD_CMP_LE = 5,
};
/* Added to enum shmd_cmp: words and values are signed. */
#define SHMD_CMP_SIGNED 0x10
/* Words of the caller's own copy, of 2, 4 or 8 bytes, and what they are compared with. */
struct shmd_wait {
	const void *words;
	size_t n; /* words, one behind the other */
	uint32_t bytes; /* of a word: 2, 4 or 8 */
	uint32_t cmp; /* enum shmd_cmp, and SHMD_CMP_SIGNED */
	const int *status; /* n of them: words whose status is not 0 are left out; NULL: none is */
	uint64_t value; /* for all words */
	const void *values; /* n of them instead of value, of `bytes` each; NULL: value */
};
/* One word: until `*word cmp value`. */
SHMD_EXPORT int shmd_wait_until(struct shmd_ctx *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value);
SHMD_EXPORT int shmd_wait_until_all(struct shmd_ctx *ctx, const struct shmd_wait *wait);
/* ret_index: one whose comparison holds; SIZE_MAX if n is 0 or all are left out. */
SHMD_EXPORT int shmd_wait_until_any(struct shmd_ctx *ctx, const struct shmd_wait *wait, size_t *ret_index);
/* ret_indexes: room for n; those that hold, at least one. */
SHMD_EXPORT int shmd_wait_until_some(struct shmd_ctx *ctx, const struct shmd_wait *wait, size_t *ret_indexes, size_t *ret_n);
/* Look once: 1 it holds, 0 it does not, or a negative errno. any and some: their outputs are written with 1 only. */
SHMD_EXPORT int shmd_test(struct shmd_ctx *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value);
SHMD_EXPORT int shmd_test_all(struct shmd_ctx *ctx, const struct shmd_wait *wait);
SHMD_EXPORT int shmd_test_any(struct shmd_ctx *ctx, const struct shmd_wait *wait, size_t *ret_index);
SHMD_EXPORT int shmd_test_some(struct shmd_ctx *ctx, const struct shmd_wait *wait, size_t *ret_indexes, size_t *ret_n);

/*
 * A lock is a symmetric word of 8 bytes that is 0 at first. Its state is in the copy of PE 0; waiters are served in turn. A PE that was forgiven and
 * whose memory is mapped holds no lock; what the lock protects may be half changed.
 */
SHMD_EXPORT int shmd_lock(struct shmd_ctx *ctx, uint64_t *lock);
/* 1 it is taken now, 0 another PE has it. */
SHMD_EXPORT int shmd_lock_test(struct shmd_ctx *ctx, uint64_t *lock);
/* Completes the operations of the context first. */
SHMD_EXPORT int shmd_unlock(struct shmd_ctx *ctx, uint64_t *lock);

#ifdef __cplusplus
}
#endif

#endif
