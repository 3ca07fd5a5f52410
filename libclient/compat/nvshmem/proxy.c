/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See proxy.h.
 *
 * Kernels and the thread share words of host memory, and a ring in it. A kernel counts the bytes that it takes of the ring, and writes a request
 * there; the thread reads requests in their order and counts those that it has read. A kernel that makes a quiet says how far it has come, and
 * waits until the thread has completed all that. Former values of atomics lie in GPU memory; kernels read them behind a quiet.
 *
 * Requests go by the runtime's calls of the host, in order: behind puts a fence or an atomic waits for them, as a signal comes behind its data. A
 * request that fails ends the job, since kernels do not notice. The thread sleeps when there is no request, or when the next one lacks words.
 * Finalize waits until the thread has carried out what is there, up to the first request that lacks words.
 */
#include "libclient/compat/nvshmem/proxy.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "libclient/compat/nvshmem/proxy-requests.h"
#include "libclient/compat/nvshmem/rma.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

#define N_SPINS 2000 /* then it sleeps */
#define SLEEP_NSEC UINT64_C(20000) /* while kernels may ask; else: */
#define LONG_SLEEP_NSEC UINT64_C(5000000)

enum exit_state {
	EXIT_NOT_REQUESTED = 0,
	EXIT_BEGUN = 1, /* a kernel writes the code */
	EXIT_REQUESTED = 2,
};

/* Host memory that the GPU sees; on lines of their own. */
struct shared {
	_Alignas(64) int32_t exit_request;
	_Alignas(64) int32_t exit_code;
	_Alignas(64) uint64_t complete; /* bytes of the ring that the thread has read */
	_Alignas(64) uint64_t quiet_issue, quiet_ack;
	_Alignas(64) uint64_t cst_issue, cst_ack;
	_Alignas(4096) uint64_t ring[NVS_RING_BYTES / NVS_RING_WORD]; /* only with queues */
};

/* GPU memory of kernels alone. */
struct counters {
	uint64_t issue, complete, result;
};

struct nvs_proxy {
	struct shared *shared;
	size_t bytes;
	cuda_address shared_at;
	uint64_t counters; /* address of struct counters, or 0 */
	struct nvs_result_place *results; /* symmetric GPU memory; twice NVS_RESULTS, the second half for values of a whole warp */
	struct nvs_channel channel;
	bool is_open, ends; /* atomic */
	pthread_t thread;
	bool has_thread;
	sem_t wake;

	/* the thread's */
	uint64_t at; /* how far it has read */
	bool has_puts; /* since the last quiet */
};

/* ---- requests */

static struct shmd_ctx *ctx(void)
{
	return shmd_world_ctx(nvs.world);
}

static int complete(struct nvs_proxy *proxy)
{
	int r = proxy->has_puts ? shmd_quiet(ctx()) : 0;

	proxy->has_puts = false;
	return r;
}

static int find_atomic(const struct nvs_request *request, struct shmd_atomic *ret_atomic)
{
	static const enum shmd_atomic_op ops[] = {
		[NVS_ATOMIC_INC] = SHMD_ATOMIC_ADD, [NVS_ATOMIC_SET] = SHMD_ATOMIC_SWAP, [NVS_ATOMIC_ADD] = SHMD_ATOMIC_ADD,
		[NVS_ATOMIC_AND] = SHMD_ATOMIC_AND, [NVS_ATOMIC_OR] = SHMD_ATOMIC_OR, [NVS_ATOMIC_XOR] = SHMD_ATOMIC_XOR,
		[NVS_ATOMIC_SIGNAL] = SHMD_ATOMIC_SWAP, [NVS_ATOMIC_SIGNAL_SET] = SHMD_ATOMIC_SWAP, [NVS_ATOMIC_SIGNAL_ADD] = SHMD_ATOMIC_ADD,
		[NVS_ATOMIC_FETCH] = SHMD_ATOMIC_FETCH, [NVS_ATOMIC_FETCH_INC] = SHMD_ATOMIC_ADD, [NVS_ATOMIC_FETCH_ADD] = SHMD_ATOMIC_ADD,
		[NVS_ATOMIC_FETCH_AND] = SHMD_ATOMIC_AND, [NVS_ATOMIC_FETCH_OR] = SHMD_ATOMIC_OR, [NVS_ATOMIC_FETCH_XOR] = SHMD_ATOMIC_XOR,
		[NVS_ATOMIC_SWAP] = SHMD_ATOMIC_SWAP, [NVS_ATOMIC_COMPARE_SWAP] = SHMD_ATOMIC_COMPARE_SWAP,
	};
	bool is_inc = request->atomic == NVS_ATOMIC_INC || request->atomic == NVS_ATOMIC_FETCH_INC;

	if (request->atomic < NVS_ATOMIC_INC || request->atomic > NVS_ATOMIC_COMPARE_SWAP || request->atomic == NVS_ATOMIC_SIGNAL_ADD + 1)
		return shmd_error_set(-EINVAL, "a kernel asks for atomic %d, which does not exist", request->atomic);
	*ret_atomic = (struct shmd_atomic){
		.op = ops[request->atomic], .bytes = (uint32_t)request->bytes, .value = is_inc ? 1 : request->value, .compare = request->compare};
	return 0;
}

static int atomic(struct nvs_proxy *proxy, const struct nvs_request *request, void *dest)
{
	struct shmd_atomic atomic;
	uint64_t old = 0, place = (uint64_t)(uintptr_t)&proxy->results[request->result % NVS_RESULTS].value;
	int r = find_atomic(request, &atomic);

	if (!r)
		r = complete(proxy);
	if (!r)
		r = shmd_atomic_fetch(ctx(), dest, &atomic, request->pe, &old);
	if (r || request->atomic < NVS_ATOMIC_FETCH)
		return r;
	return device_write_word(nvs.device, place, old, sizeof(old));
}

static int move(const struct nvs_request *request, void *symmetric)
{
	void *local = NULL;
	int r = nvs_proxy_local(request, &local);

	if (r < 0)
		return r;
	if (request->op == NVS_REQUEST_PUT)
		return shmd_put_nbi(ctx(), symmetric, local, request->bytes, request->pe);
	return shmd_get_nbi(ctx(), local, symmetric, request->bytes, request->pe);
}

static int carry_out(struct nvs_proxy *proxy, const struct nvs_request *request)
{
	/* bounded: an offset has 40 bits, and the runtime refuses those outside the heap */
	void *symmetric = (void *)(uintptr_t)(nvs.facts.heap_base + request->offset);

	proxy->has_puts |= request->op != NVS_REQUEST_FENCE && request->op != NVS_REQUEST_ATOMIC;
	switch ((enum nvs_request_op)request->op) {
	case NVS_REQUEST_PUT:
	case NVS_REQUEST_GET:
	case NVS_REQUEST_G:
		return move(request, symmetric);
	case NVS_REQUEST_P:
		if (request->bytes > sizeof(request->value))
			return shmd_error_set(-EINVAL, "a kernel asks for a value of %llu bytes", (unsigned long long)request->bytes);
		return shmd_put(ctx(), symmetric, &request->value, request->bytes, request->pe);
	case NVS_REQUEST_FENCE:
		return complete(proxy);
	case NVS_REQUEST_ATOMIC:
		return atomic(proxy, request, symmetric);
	}
	return shmd_error_set(-EINVAL, "a kernel asks for operation %d, which does not exist", request->op);
}

/* ---- the thread */

static bool ends(const struct nvs_proxy *proxy)
{
	return __atomic_load_n(&proxy->ends, __ATOMIC_ACQUIRE);
}

static bool is_there(const struct nvs_proxy *proxy, uint64_t index, uint64_t *ret_word)
{
	*ret_word = __atomic_load_n(&proxy->shared->ring[index % NVS_RING_BYTES / NVS_RING_WORD], __ATOMIC_ACQUIRE);
	return nvs_ring_has(index, *ret_word);
}

/* False: some are missing. They are on their way, or the kernel has ended between two words, so the thread looks again later and waits for none. */
static bool take(const struct nvs_proxy *proxy, uint32_t n, uint64_t *words)
{
	for (uint32_t i = 1; i < n; i++)
		if (!is_there(proxy, proxy->at + (uint64_t)i * NVS_RING_WORD, &words[i]))
			return false;
	return true;
}

/* Kernels wait for an answer for ever. */
static void fail(void)
{
	char why[256];

	snprintf(why, sizeof(why), "a request of a kernel of PE %d has failed, which NVSHMEM's device code does not notice: %s", nvs.facts.mype, shmd_error_text());
	shmd_world_abort(nvs.world, 1, why);
}

/* Whether there was a whole request. */
static bool serve_request(struct nvs_proxy *proxy)
{
	uint64_t words[NVS_REQUEST_WORDS];
	struct nvs_request request;
	uint32_t n;

	if (!is_there(proxy, proxy->at, &words[0]))
		return false;
	n = nvs_request_words(words[0]);
	if (n && !take(proxy, n, words))
		return false;
	nvs_request_read(words, &request);
	if (carry_out(proxy, &request) < 0)
		fail();
	proxy->at += (uint64_t)n * NVS_RING_WORD;
	__atomic_store_n(&proxy->shared->complete, proxy->at, __ATOMIC_RELEASE);
	return true;
}

/* A quiet, or a flush of a NIC's writes, which soft NICs do not need. Both count bytes of the ring. */
static bool answer(struct nvs_proxy *proxy, const uint64_t *issue, uint64_t *ack)
{
	uint64_t asked = __atomic_load_n(issue, __ATOMIC_ACQUIRE);

	if (asked <= *ack || proxy->at < asked)
		return false;
	if (complete(proxy) < 0)
		fail();
	__atomic_store_n(ack, asked, __ATOMIC_RELEASE);
	return true;
}

static bool serve_channel(struct nvs_proxy *proxy)
{
	struct shared *shared = proxy->shared;
	bool is_busy = serve_request(proxy);

	is_busy |= answer(proxy, &shared->quiet_issue, &shared->quiet_ack);
	return answer(proxy, &shared->cst_issue, &shared->cst_ack) || is_busy;
}

static void look_for_exit(struct nvs_proxy *proxy)
{
	int code;

	if (__atomic_load_n(&proxy->shared->exit_request, __ATOMIC_ACQUIRE) != EXIT_REQUESTED)
		return;
	code = __atomic_load_n(&proxy->shared->exit_code, __ATOMIC_ACQUIRE) & 0xff;
	/* The kernel waits until the process is gone. */
	shmd_world_abort(nvs.world, code ? code : SHMD_ABORT_SUCCESS, "nvshmem_global_exit() of a kernel");
}

/* Until something is to be looked at, which a wake says or the time. */
static void rest(struct nvs_proxy *proxy, uint64_t nsec)
{
	struct timespec at = nsec_to_timespec(nsec_now() + nsec);

	(void)sem_clockwait(&proxy->wake, CLOCK_MONOTONIC, &at);
}

/* Behind the request to end it carries out no more than one ring holds, so kernels that go on without end do not keep it. */
static bool has_done_all(const struct nvs_proxy *proxy, uint64_t *end)
{
	if (!*end)
		*end = proxy->at + NVS_RING_BYTES;
	return proxy->at >= *end;
}

static void *serve(void *context)
{
	struct nvs_proxy *proxy = context;
	unsigned int n_idle = 0;
	uint64_t end = 0;

	for (;;) {
		bool is_last = ends(proxy), is_open = __atomic_load_n(&proxy->is_open, __ATOMIC_ACQUIRE);

		if (is_last && has_done_all(proxy, &end))
			break;
		look_for_exit(proxy);
		if (is_open && serve_channel(proxy))
			n_idle = 0;
		else if (is_last)
			break;
		else if (!is_open || ++n_idle > N_SPINS)
			rest(proxy, is_open ? SLEEP_NSEC : LONG_SLEEP_NSEC);
	}
	if (complete(proxy) < 0)
		fail();
	return NULL;
}

/* ---- making and ending */

static int share_memory(struct nvs_proxy *proxy)
{
	const struct cuda_api *cuda = nvs.device->cuda;
	cuda_result result;
	void *memory;
	int r;

	proxy->bytes = nvs.ibgda ? sizeof(struct shared) : offsetof(struct shared, ring);
	memory = mmap(NULL, proxy->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return shmd_error_set(-errno, "no memory for requests of kernels: %s", strerror(errno));
	r = device_enter(nvs.device);
	result = r ? CUDA_OK : cuda->host_register(memory, proxy->bytes, CUDA_REGISTER_PORTABLE | CUDA_REGISTER_MAP);
	if (!r && result == CUDA_OK)
		proxy->shared = memory;
	else
		(void)munmap(memory, proxy->bytes);
	if (!r && result == CUDA_OK)
		result = cuda->host_address(&proxy->shared_at, memory, 0);
	return r ? r : device_leave(nvs.device, result, "share memory with kernels");
}

static int make_counters(struct nvs_proxy *proxy)
{
	uint64_t shared = proxy->shared_at, results = (uint64_t)(uintptr_t)proxy->results;
	int r = device_alloc(nvs.device, sizeof(struct counters), &proxy->counters);

	proxy->channel = (struct nvs_channel){
		.ring = shared + offsetof(struct shared, ring),
		.results = results,
		.warp_results = results + NVS_RESULTS * sizeof(struct nvs_result_place),
		.result_count = proxy->counters + offsetof(struct counters, result),
		.n_results = NVS_RESULTS,
		.log2_results = NVS_RESULTS_LOG2,
		.issue = proxy->counters + offsetof(struct counters, issue),
		.complete = shared + offsetof(struct shared, complete),
		.complete_local = proxy->counters + offsetof(struct counters, complete),
		.quiet_issue = shared + offsetof(struct shared, quiet_issue),
		.quiet_ack = shared + offsetof(struct shared, quiet_ack),
		.cst_issue = shared + offsetof(struct shared, cst_issue),
		.cst_ack = shared + offsetof(struct shared, cst_ack),
	};
	return r;
}

static int start(struct nvs_proxy *proxy)
{
	int r = share_memory(proxy);

	if (!r && nvs.ibgda)
		r = make_counters(proxy);
	if (r < 0)
		return r;
	nvs.facts.exit_request = proxy->shared_at + offsetof(struct shared, exit_request);
	nvs.facts.exit_code = proxy->shared_at + offsetof(struct shared, exit_code);
	r = -thread_start(&proxy->thread, 0, "nvs-proxy", serve, proxy);
	proxy->has_thread = !r;
	return r ? shmd_error_set(-r, "no thread for requests of kernels: %s", strerror(r)) : 0;
}

int nvs_proxy_make(void)
{
	struct nvs_proxy *proxy = calloc(1, sizeof(*proxy));
	int r = nvs_agree(proxy ? 0 : shmd_error_set(-ENOMEM, "no memory for a thread of the host"));

	if (proxy)
		(void)sem_init(&proxy->wake, 0, 0);
	nvs.proxy = proxy;
	if (!r && nvs.ibgda)
		r = shmd_calloc(nvs.world, 2 * (size_t)NVS_RESULTS, sizeof(struct nvs_result_place), SHMD_HINT_GPU, (void **)&proxy->results);
	return r ? r : nvs_agree(start(proxy));
}

/* The thread has ended. */
static void tell_what_is_left(const struct nvs_proxy *proxy)
{
	uint64_t issue = 0;

	if (!proxy->counters || device_read(nvs.device, &issue, proxy->counters + offsetof(struct counters, issue), sizeof(issue)) < 0 || issue <= proxy->at)
		return;
	fprintf(stderr, "shmemd: nvshmem_finalize: PE %d: a kernel has not written all words of its request, or kernels go on asking; "
			"%llu bytes of requests from there on are not carried out\n", nvs.facts.mype, (unsigned long long)(issue - proxy->at));
}

void nvs_proxy_finish(void)
{
	struct nvs_proxy *proxy = nvs.proxy;

	if (!proxy || !proxy->has_thread)
		return;
	__atomic_store_n(&proxy->ends, true, __ATOMIC_RELEASE);
	(void)sem_post(&proxy->wake);
	pthread_join(proxy->thread, NULL);
	proxy->has_thread = false;
	tell_what_is_left(proxy);
}

void nvs_proxy_drop(void)
{
	struct nvs_proxy *proxy = nvs.proxy;

	if (!proxy)
		return;
	nvs_proxy_finish();
	nvs.proxy = NULL;
	device_free(nvs.device, proxy->counters);
	if (proxy->results)
		(void)shmd_free(nvs.world, proxy->results);
	if (proxy->shared && !device_enter(nvs.device))
		(void)device_leave(nvs.device, nvs.device->cuda->host_unregister(proxy->shared), "give back memory that is shared with kernels");
	if (proxy->shared)
		(void)munmap(proxy->shared, proxy->bytes);
	(void)sem_destroy(&proxy->wake);
	free(proxy);
}

void nvs_proxy_open_channel(struct nvs_facts *facts)
{
	facts->channel = &nvs.proxy->channel;
	__atomic_store_n(&nvs.proxy->is_open, true, __ATOMIC_RELEASE);
	(void)sem_post(&nvs.proxy->wake);
}
