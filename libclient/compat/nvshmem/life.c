/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From init to finalize.
 *
 * Init opens a world: the caller has a number then. If a GPU is selected (a current context, or SHMD_GPU), the job starts at once; otherwise
 * the first call that needs the heap starts it, as programs expect that ask for their number on the node to select a GPU. Every init takes a
 * reference, every finalize drops one; the last one closes the world, and a later init opens another.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmd-info.h>
#include <shmd-stream.h>
#include <shmd/dev/args.h>

#include "libclient/compat/nvshmem/ibgda.h"
#include "libclient/compat/nvshmem/proxy.h"
#include "proto/base/cleanup.h"

#define WITH_MPI_COMM 0x2u
#define WITH_SHMEM 0x4u
#define WITH_UNIQUEID 0x8u
#define THREAD_SERIALIZED 2

static const struct nvs_version own_version = {NVS_MAJOR, NVS_NEWEST_MINOR, 0};

static bool gpu_is_selected(void)
{
	const struct cuda_api *cuda = NULL;
	cuda_context context = NULL;
	char which[SHMD_INFO_TEXT_BYTES];

	nvs_choose_gpu(which);
	if (strcmp(which, "current") != 0)
		return true;
	return !cuda_api_get(&cuda) && cuda->context_current(&context) == CUDA_OK && context;
}

/* ---- the steps to a job; with the lock */

static void take_uid(const struct nvs_init_attr *attr, struct shmd_uid *uid, struct shmd_world_attr *ret_attr)
{
	const struct nvs_uid_args *args = &attr->args.uid_args;

	nvs_uid_use(args->id, uid);
	ret_attr->uid = uid;
	ret_attr->rank = args->myrank;
	ret_attr->size = args->nranks;
}

static int open_world(unsigned int flags, const struct nvs_init_attr *attr)
{
	char which[SHMD_INFO_TEXT_BYTES];
	/* A PE may compute for hours while others wait for it, so nothing but the user's own setting limits waits. */
	struct shmd_world_attr world = {.gpu = which, .timeout_nsec = getenv("SHMD_TIMEOUT") ? 0 : SHMD_DEV_NO_TIMEOUT};
	struct shmd_uid uid;

	nvs_choose_gpu(which);
	if (flags & (WITH_UNIQUEID | WITH_MPI_COMM) && !attr)
		return shmd_error_set(-EINVAL, "the program asks for a bootstrap by attributes, and passes none");
	if (flags & WITH_UNIQUEID && !attr->args.uid_args.id)
		return shmd_error_set(-EINVAL, "the attributes have no unique id; call nvshmemx_set_attr_uniqueid_args() first");
	if (flags & WITH_UNIQUEID)
		take_uid(attr, &uid, &world);
	else if (flags & WITH_MPI_COMM)
		world.mpi_comm = attr->mpi_comm;
	else if (flags & WITH_SHMEM)
		world.bootstrap = "openshmem";
	return shmd_world_open(&world, &nvs.world);
}

/* Where the heaps are, out of the world's copy for kernels. */
static int look_at_heap(void)
{
	struct nvs_facts *facts = &nvs.facts;
	struct shmd_world_info info;
	struct shmd_dev_world dev;
	uint64_t at = 0;
	int r = shmd_world_info(nvs.world, &info);

	if (!r)
		r = shmd_world_gpu_dev(nvs.world, &at);
	if (!r)
		r = device_read(nvs.device, &dev, at, sizeof(dev));
	if (r < 0)
		return r;
	*facts = (struct nvs_facts){
		.mype = info.pe,
		.npes = info.n_pes,
		.node_mype = info.node_pe,
		.node_npes = info.n_node_pes,
		.heap_base = dev.heap[SHMD_DEV_HEAP_GPU].own_addr,
		.heap_bytes = dev.heap[SHMD_DEV_HEAP_GPU].range_bytes,
	};
	return 0;
}

static int open_gpu(void)
{
	char which[SHMD_INFO_TEXT_BYTES];
	struct shmd_world_info info;
	int r = shmd_world_info(nvs.world, &info);

	nvs_choose_gpu(which);
	return r ? r : device_open(which, info.node_pe, &nvs.device);
}

/* Kernels reach a PE that is not mapped by queues, which lead to this node alone so far. */
static int find_peers(uint64_t *ret_bases)
{
	if (nvs.facts.node_npes != nvs.facts.npes)
		return shmd_error_set(-EOPNOTSUPP, "%d of %d PEs are on this node, and NVSHMEM programs need all of them here so far", nvs.facts.node_npes,
				      nvs.facts.npes);
	nvs.facts.n_apart = 0;
	for (int pe = 0; pe < nvs.facts.npes; pe++) {
		ret_bases[pe] = (uint64_t)(uintptr_t)shmd_ptr(nvs.world, (void *)(uintptr_t)nvs.facts.heap_base, pe);
		nvs.facts.n_apart += !ret_bases[pe];
	}
	return 0;
}

/* Words by which other GPU addresses are found: timeout, index, zero, then three words for each PE. */
static int make_tables(void)
{
	struct nvs_facts *facts = &nvs.facts;
	size_t n = (size_t)facts->npes, head = sizeof(struct nvs_timeout) / 8 + 2;
	_cleanup_free_ uint64_t *words = calloc(head + 3 * n, 8);
	int r = words ? device_alloc(nvs.device, (head + 3 * n) * 8, &nvs.tables) : shmd_error_set(-ENOMEM, "no memory for %zu PEs", n);

	if (r < 0)
		return r;
	((struct nvs_timeout *)(void *)words)->version = NVS_WORD(1, sizeof(struct nvs_timeout));
	r = find_peers(words + head);
	if (r < 0)
		return r;
	memcpy(words + head + n, words + head, n * 8);
	facts->timeout = nvs.tables;
	facts->wait_index = nvs.tables + sizeof(struct nvs_timeout);
	facts->zero = facts->wait_index + 8;
	facts->peers_p2p = nvs.tables + head * 8;
	facts->peers_remote = facts->peers_p2p + n * 8;
	facts->unicast_le_ids = facts->peers_remote + n * 8;
	return device_write(nvs.device, nvs.tables, words, (head + 3 * n) * 8);
}

static int prepare(void)
{
	int r = open_gpu();

	if (!r)
		r = look_at_heap();
	return r ? r : make_tables();
}

/*
 * Now, since CUDA may wait for kernels that run when the runtime's are loaded. A library that was built without nvcc has none: then syncs on
 * streams are by the driver, unless the job has queues, and what needs a kernel says so when it is called.
 */
static int find_kernels(void)
{
	int r = shmd_quiet_on_stream(shmd_world_ctx(nvs.world), nvs.device->stream);

	/* -EOPNOTSUPP: nothing is wrong, and the calls say so. */
	if (r < 0 && r != -EOPNOTSUPP)
		(void)nvs_result("kernels of calls on streams", r);
	return nvs_agree_all(!r, &nvs.has_kernels);
}

static void drop_parts(void)
{
	if (nvs.device) {
		nvs_proxy_drop();
		nvs_teams_drop();
		nvs_sets_drop();
		nvs_ibgda_drop();
		device_free(nvs.device, nvs.tables);
	}
	nvs.tables = 0;
	if (nvs.agreement)
		(void)shmd_free(nvs.world, nvs.agreement);
	nvs.agreement = NULL;
	nvs.has_kernels = false;
	nvs.facts = (struct nvs_facts){0};
}

static void close_gpu(void)
{
	device_close(nvs.device);
	nvs.device = NULL;
}

/* Collective: it succeeds on all PEs or on none, which may try again. */
static int start(void)
{
	int r = shmd_world_start(nvs.world);

	nvs.max_teams = nvs_max_teams();
	if (!r)
		r = nvs_agreement_make();
	if (!r)
		r = nvs_agree(prepare());
	if (!r)
		r = nvs_ibgda_make();
	if (!r)
		r = find_kernels();
	if (!r)
		r = nvs_proxy_make();
	if (!r)
		r = nvs_sets_make();
	if (!r)
		r = nvs_ibgda_follow();
	if (!r)
		r = nvs_agree(nvs_teams_make());
	/* A PE whose device library gets no state would be waited for by kernels of the others. */
	if (!r)
		r = nvs_agree(nvs_clients_show());
	if (!r) {
		__atomic_store_n(&nvs.status, NVS_STATUS_INITIALIZED, __ATOMIC_RELEASE);
		return 0;
	}
	nvs_clients_hide();
	nvs_teams_return();
	drop_parts();
	close_gpu();
	return r;
}

/* The GPU's context stays until the world has given back its own memory in it. */
static void stop(void)
{
	pthread_mutex_lock(&nvs.frees);
	__atomic_store_n(&nvs.status, NVS_STATUS_NONE, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&nvs.frees);
	if (nvs.device && nvs.has_kernels)
		(void)nvs_result("a call on a stream", shmd_stream_status(nvs.world));
	nvs_clients_drop();
	drop_parts();
	if (shmd_world_close(nvs.world) < 0)
		fprintf(stderr, "shmemd: nvshmem_finalize: %s\n", shmd_error_text());
	nvs.world = NULL;
	close_gpu();
}

/* The caller's device library, if it has one, is in the list. */
static int go_on(bool must_start)
{
	if (nvs.status == NVS_STATUS_INITIALIZED)
		return nvs_clients_show();
	return must_start || gpu_is_selected() ? start() : 0;
}

static int begin(unsigned int flags, const struct nvs_init_attr *attr)
{
	int r;

	nvs_binding_check(nvs_is_verbose());
	r = open_world(flags, attr);
	nvs.start = start;
	if (!r)
		__atomic_store_n(&nvs.status, NVS_STATUS_BOOTSTRAPPED, __ATOMIC_RELEASE);
	return r;
}

static int init(unsigned int flags, const struct nvs_init_attr *attr, struct nvs_version version, int (*find)(void **, void **))
{
	struct nvs_client client = {.version = version, .bytes = nvs_version_state_bytes(version), .find = find};
	/* A call without anything asks to finish what an earlier one has begun. */
	bool must_start = nvs.world && !attr && !find;
	int r = nvs_version_check(version, nvs_newer_is_allowed());

	if (!r && !nvs.world)
		r = begin(flags, attr);
	if (!r && find)
		r = nvs_client_add(client);
	if (!r) {
		r = go_on(must_start);
		if (r < 0 && find)
			nvs_client_remove_newest();
	}
	if (!r)
		nvs.n_refs++;
	else if (!nvs.n_refs && nvs.world)
		stop();
	return r;
}

/* ---- the interface */

NVS_API int nvshmemid_hostlib_init_attr(int requested, int *provided, unsigned int flags, struct nvs_init_attr *attr,
					struct nvs_version version, int (*find)(void **, void **));
int nvshmemid_hostlib_init_attr(int requested, int *provided, unsigned int flags, struct nvs_init_attr *attr,
				struct nvs_version version, int (*find)(void **, void **))
{
	int r;

	(void)requested;
	if (nvs_is_forked())
		return nvs_fail("nvshmem_init", shmd_error_set(-ENOTCONN, "this process was forked from a PE, and CUDA does not work here"));
	pthread_mutex_lock(&nvs.lock);
	r = init(flags, attr, version, find);
	pthread_mutex_unlock(&nvs.lock);
	if (!r && provided)
		*provided = THREAD_SERIALIZED;
	return nvs_result("nvshmem_init", r);
}

NVS_API int nvshmemx_hostlib_init_attr(unsigned int flags, struct nvs_init_attr *attr);
int nvshmemx_hostlib_init_attr(unsigned int flags, struct nvs_init_attr *attr)
{
	return nvshmemid_hostlib_init_attr(THREAD_SERIALIZED, NULL, flags, attr, own_version, NULL);
}

NVS_API void nvshmemid_hostlib_finalize(void *state, void *transport);
void nvshmemid_hostlib_finalize(void *state, void *transport)
{
	(void)transport;
	/* The job and all its parts are the parent's. */
	if (nvs_is_forked())
		return;
	pthread_mutex_lock(&nvs.lock);
	if (nvs.n_refs > 0) {
		nvs_client_remove((uint64_t)(uintptr_t)state);
		if (!--nvs.n_refs) {
			nvs_proxy_finish();
			nvs_ibgda_finish();
			stop();
		}
	}
	pthread_mutex_unlock(&nvs.lock);
}

NVS_API void nvshmemx_hostlib_finalize(void);
void nvshmemx_hostlib_finalize(void)
{
	nvshmemid_hostlib_finalize(NULL, NULL);
}

NVS_API int nvshmemid_init_status(void);
int nvshmemid_init_status(void)
{
	return nvs_is_forked() ? NVS_STATUS_NONE : (int)__atomic_load_n(&nvs.status, __ATOMIC_ACQUIRE);
}

NVS_API int nvshmemx_init_status(void);
int nvshmemx_init_status(void)
{
	return nvshmemid_init_status();
}

/* The rest of the attributes may be memory that nobody has written to. */
NVS_API int nvshmemx_set_attr_uniqueid_args(int rank, int n_ranks, struct nvs_uid *uid, struct nvs_init_attr *attr);
int nvshmemx_set_attr_uniqueid_args(int rank, int n_ranks, struct nvs_uid *uid, struct nvs_init_attr *attr)
{
	attr->args.uid_args = (struct nvs_uid_args){.version = NVS_WORD(1, sizeof(attr->args.uid_args)), .id = uid, .myrank = rank,
						    .nranks = n_ranks};
	return NVS_SUCCESS;
}

NVS_API int nvshmemx_set_attr_mpi_comm_args(void *mpi_comm, struct nvs_init_attr *attr);
int nvshmemx_set_attr_mpi_comm_args(void *mpi_comm, struct nvs_init_attr *attr)
{
	attr->mpi_comm = mpi_comm;
	return NVS_SUCCESS;
}

NVS_API void nvshmem_global_exit(int status);
void nvshmem_global_exit(int status)
{
	if (!nvs.world)
		exit(status);
	shmd_world_abort(nvs.world, status & 0xff ? status & 0xff : SHMD_ABORT_SUCCESS, "nvshmem_global_exit()");
}
