/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One processing element of the GPU demo: a session, a heap, a QP to every PE and a stream on a GPU. This thread fills
 * payload, starts kernels and compares what arrived; it touches no queue.
 */
#include "gpu-demo-pe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu-demo.h"

/* Every wait in a kernel ends after DEMO_WAIT_NSEC; a kernel has several. */
#define KERNEL_LIMIT_NSEC (15 * DEMO_WAIT_NSEC)

struct pe {
	struct demo_shared *shared;
	struct demo_pe_info *info;
	unsigned int me, n;
	int ordinal;
	struct shmd_client *client;
	struct shmd_gpu *gpu;
	struct shmd_nic *nic;
	struct shmd_mem *mem, *result_mem;
	struct shmd_mr *mr;
	struct shmd_queues *queues;
	struct gpu_demo_stream *stream;
	uint8_t *heap;
	struct gpu_demo_result *result;
	struct gpu_demo_args args;
	struct demo_phase_result *phase; /* the one that runs */
};

/* The first failure is what people want to read. */
static bool fail(struct pe *pe, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct pe *pe, const char *format, ...)
{
	va_list args;

	if (!pe->info->error[0]) {
		va_start(args, format);
		vsnprintf(pe->info->error, sizeof(pe->info->error), format, args);
		va_end(args);
	}
	__atomic_store_n(&pe->shared->failed, 1, __ATOMIC_RELEASE);
	return false;
}

static bool good_call(struct pe *pe, const char *what, int result)
{
	return result >= 0 || fail(pe, "%s: %s", what, shmd_error_text());
}

static bool barrier(struct pe *pe)
{
	if (demo_barrier(pe->shared))
		return true;
	if (!__atomic_load_n(&pe->shared->failed, __ATOMIC_ACQUIRE))
		fail(pe, "the other PEs did not arrive in time");
	return false;
}

/* ---- set-up ---------------------------------------------------------------------------------------------- */

static bool open_session(struct pe *pe)
{
	struct shmd_nic_attr attr = {.doorbell = -1};
	struct shmd_nic_info info;
	struct shmd_gpu_info gpu;

	if (!good_call(pe, "connect to shmemd", shmd_client_open(NULL, &pe->client)) ||
	    !good_call(pe, "open the GPU", shmd_gpu_open(pe->client, pe->ordinal, &pe->gpu)) ||
	    !good_call(pe, "GPU", shmd_gpu_info(pe->gpu, &gpu)))
		return false;
	attr.gpu = gpu.pci;
	if (!good_call(pe, "open a NIC", shmd_nic_open(pe->client, &attr, &pe->nic)) ||
	    !good_call(pe, "NIC", shmd_nic_info(pe->nic, &info)))
		return false;
	pe->info->session = shmd_client_session(pe->client);
	snprintf(pe->info->nic, sizeof(pe->info->nic), "%s, GPU %s", info.name, gpu.pci);
	pe->stream = gpu_demo_stream_new(pe->ordinal);
	return pe->stream || fail(pe, "%s", gpu_demo_error());
}

static bool make_memory(struct pe *pe)
{
	uint64_t heap, result;

	if (!good_call(pe, "heap", shmd_mem_alloc(pe->client, GPU_DEMO_HEAP_BYTES, &pe->mem)) ||
	    !good_call(pe, "register the heap", shmd_mr_reg_mem(pe->nic, pe->mem, SHMD_ACCESS_ALL, &pe->mr)) ||
	    !good_call(pe, "heap on the GPU", shmd_gpu_map_mem(pe->gpu, pe->mem, &heap)) ||
	    !good_call(pe, "results", shmd_mem_alloc(pe->client, sizeof(*pe->result), &pe->result_mem)) ||
	    !good_call(pe, "results on the GPU", shmd_gpu_map_mem(pe->gpu, pe->result_mem, &result)))
		return false;
	pe->heap = shmd_mem_addr(pe->mem);
	pe->result = shmd_mem_addr(pe->result_mem);
	pe->info->heap = (uintptr_t)pe->heap;
	pe->info->rkey_be = shmd_mr_rkey_be(pe->mr);
	pe->args.heap = (uint8_t *)(uintptr_t)heap;
	pe->args.result = (struct gpu_demo_result *)(uintptr_t)result;
	pe->args.local = shmd_dev_addr_of((uintptr_t)pe->heap, shmd_mr_lkey_be(pe->mr));
	return true;
}

static bool make_queues(struct pe *pe)
{
	struct shmd_queues_attr attr = {
		.n_qps = pe->n, .sq_wqebbs = 256, .gpu_driven = 1, .sharing = SHMD_SHARING_GPU, .mem_fd = -1};
	uint64_t qps;
	unsigned int i;

	if (!good_call(pe, "create queues", shmd_queues_create(pe->nic, &attr, &pe->queues)) ||
	    !good_call(pe, "queues on the GPU", shmd_gpu_dev_qp(pe->gpu, pe->queues, 0, &qps)))
		return false;
	pe->args.qps = (struct shmd_dev_qp *)(uintptr_t)qps;
	for (i = 0; i < pe->n; i++) {
		if (!good_call(pe, "endpoint address", shmd_queues_addr(pe->queues, i, &pe->info->addrs[i])))
			return false;
	}
	return true;
}

static bool connect_queues(struct pe *pe)
{
	struct shmd_addr addrs[GPU_DEMO_MAX_PES];
	unsigned int i;

	for (i = 0; i < pe->n; i++) {
		const struct demo_pe_info *peer = &pe->shared->pes[i];

		addrs[i] = peer->addrs[pe->me];
		pe->args.remote[i] = shmd_dev_addr_of(peer->heap, peer->rkey_be);
	}
	return good_call(pe, "connect", shmd_queues_connect(pe->queues, 0, pe->n, addrs, NULL, NULL));
}

/* ---- running a kernel ---------------------------------------------------------------------------------------- */

static bool check_thread(struct pe *pe, const struct gpu_demo_thread *thread)
{
	struct shmd_qp_info qp;

	pe->phase->operations += thread->n_operations;
	pe->phase->bytes_verified += thread->n_right;
	pe->phase->errors += thread->n_wrong;
	if (thread->n_wrong)
		return fail(pe, "%s: %" PRIu64 " bytes that the kernel received from PE %u are wrong",
			    demo_phase_names[pe->phase - pe->info->phases], thread->n_wrong, thread->peer);
	if (thread->status == SHMD_DEV_OK)
		return true;
	if (thread->status == SHMD_DEV_CQE_ERROR && shmd_queues_query(pe->queues, thread->peer, &qp) >= 0)
		return fail(pe, "kernel, to PE %u: %s", thread->peer, shmd_syndrome_text(qp.first_error));
	return fail(pe, "kernel, to PE %u: %s", thread->peer, shmd_dev_status_text(thread->status));
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void take_times(struct pe *pe, uint64_t *ret_nsec)
{
	struct gpu_demo_result *result = pe->result;
	uint32_t n = result->n_samples;
	uint64_t nsec = 0;
	unsigned int t;

	for (t = 0; t < GPU_DEMO_MAX_THREADS; t++)
		nsec = result->threads[t].nsec > nsec ? result->threads[t].nsec : nsec;
	pe->phase->nsec += nsec;
	*ret_nsec = nsec;
	if (!pe->phase->latency_nsec && n && n <= GPU_DEMO_MAX_SAMPLES) {
		qsort(result->samples, n, sizeof(uint64_t), compare_u64);
		pe->phase->latency_nsec = result->samples[n / 2];
	}
}

static bool run(struct pe *pe, enum gpu_demo_kernel kernel, uint32_t n_threads, uint64_t *ret_nsec)
{
	bool good = true;
	unsigned int t;

	memset(pe->result, 0, sizeof(*pe->result));
	pe->args.me = pe->me;
	pe->args.n_pes = pe->n;
	pe->args.timeout_nsec = DEMO_WAIT_NSEC;
	if (gpu_demo_run(pe->stream, kernel, &pe->args, n_threads, KERNEL_LIMIT_NSEC) < 0)
		return fail(pe, "%s", gpu_demo_error());
	for (t = 0; t < n_threads; t++)
		good = check_thread(pe, &pe->result->threads[t]) && good;
	take_times(pe, ret_nsec);
	return good;
}

/* ---- patterns ------------------------------------------------------------------------------------------------ */

static void fill(uint8_t *at, uint32_t bytes, unsigned int pe, uint32_t salt)
{
	uint32_t i;

	for (i = 0; i < bytes; i++)
		at[i] = gpu_demo_pattern(pe, salt, i);
}

static bool verify(struct pe *pe, uint32_t offset, uint32_t bytes, unsigned int from, uint32_t salt)
{
	uint32_t i;

	for (i = 0; i < bytes; i++) {
		uint8_t expected = gpu_demo_pattern(from, salt, i);

		if (pe->heap[offset + i] == expected)
			continue;
		pe->phase->errors++;
		return fail(pe, "%s: byte %u of %u from PE %u is 0x%02x instead of 0x%02x",
			    demo_phase_names[pe->phase - pe->info->phases], i, bytes, from, pe->heap[offset + i],
			    expected);
	}
	pe->phase->bytes_verified += bytes;
	return true;
}

/* ---- phases -------------------------------------------------------------------------------------------------- */

static const struct {
	uint32_t bytes, repeats, n_threads;
} put_sizes[] = {{8, 256, 1}, {64, 256, 32}, {4096, 64, 32}, {65536, 16, 16}, {1u << 20, 4, 1}};
#define N_PUT_SIZES (sizeof(put_sizes) / sizeof(put_sizes[0]))

static bool phase_put(struct pe *pe)
{
	unsigned int left = (pe->me + pe->n - 1) % pe->n, s;
	uint64_t nsec = 0;

	for (s = 0; s < N_PUT_SIZES; s++) {
		uint32_t total = put_sizes[s].bytes * put_sizes[s].repeats;

		pe->args.bytes = put_sizes[s].bytes;
		pe->args.repeats = put_sizes[s].repeats;
		fill(pe->heap, total, pe->me, s);
		memset(pe->heap + GPU_DEMO_DST, 0, total);
		if (!barrier(pe) || !run(pe, GPU_DEMO_PUT_KERNEL, put_sizes[s].n_threads, &nsec) ||
		    !barrier(pe) || !verify(pe, GPU_DEMO_DST, total, left, s))
			return false;
		pe->phase->bandwidth_bytes = total;
		pe->phase->bandwidth_nsec = nsec;
	}
	return barrier(pe);
}

static const uint32_t get_sizes[] = {8, 1000, 4096, GPU_DEMO_GET_BYTES};
#define N_GET_SIZES (sizeof(get_sizes) / sizeof(get_sizes[0]))

static bool phase_get(struct pe *pe)
{
	unsigned int s, i;
	uint64_t nsec = 0;

	fill(pe->heap, GPU_DEMO_GET_BYTES, pe->me, 77);
	if (!barrier(pe))
		return false;
	for (s = 0; s < N_GET_SIZES; s++) {
		memset(pe->heap + GPU_DEMO_LAND, 0, pe->n * GPU_DEMO_GET_BYTES);
		pe->args.bytes = get_sizes[s];
		if (!run(pe, GPU_DEMO_GET_KERNEL, GPU_DEMO_MAX_THREADS, &nsec))
			return false;
		for (i = 0; i < pe->n; i++) {
			if (!verify(pe, GPU_DEMO_LAND + i * GPU_DEMO_GET_BYTES, get_sizes[s], i, 77))
				return false;
		}
		pe->phase->bandwidth_bytes = (uint64_t)get_sizes[s] * pe->n;
		pe->phase->bandwidth_nsec = nsec;
	}
	return barrier(pe);
}

/* A fetched value that somebody else fetched too, or one out of range, is an error. */
static bool claim(struct pe *pe, unsigned int peer, uint64_t old)
{
	if (old < (uint64_t)pe->n * GPU_DEMO_FETCH_ADDS &&
	    !__atomic_exchange_n(&pe->shared->seen[peer][old], 1, __ATOMIC_ACQ_REL)) {
		pe->phase->bytes_verified += sizeof(old);
		return true;
	}
	pe->phase->errors++;
	return fail(pe, "fetch-add on PE %u returned %" PRIu64 ", which cannot be", peer, old);
}

static bool check_counters(struct pe *pe)
{
	uint64_t total = (uint64_t)pe->n * GPU_DEMO_FETCH_ADDS, got;
	uint32_t got32;

	memcpy(&got, pe->heap + GPU_DEMO_COUNTER, sizeof(got));
	memcpy(&got32, pe->heap + GPU_DEMO_COUNTER32, sizeof(got32));
	pe->phase->bytes_verified += sizeof(got) + sizeof(got32);
	if (got == total && got32 == (uint32_t)(3 * total))
		return true;
	pe->phase->errors++;
	return fail(pe, "counters are %" PRIu64 " and %u instead of %" PRIu64 " and %" PRIu64, got, got32, total,
		    3 * total);
}

static bool phase_atomic(struct pe *pe)
{
	unsigned int i, k;
	uint64_t nsec = 0;

	if (!run(pe, GPU_DEMO_ATOMIC_KERNEL, GPU_DEMO_MAX_THREADS, &nsec))
		return false;
	pe->phase->latency_nsec = nsec * GPU_DEMO_MAX_THREADS / (GPU_DEMO_FETCH_ADDS * pe->n);
	for (i = 0; i < pe->n; i++) {
		for (k = 0; k < GPU_DEMO_FETCH_ADDS; k++) {
			if (!claim(pe, i, pe->result->olds[i][k]))
				return false;
		}
	}
	return barrier(pe) && check_counters(pe) && barrier(pe);
}

/* Every turn is verified by the kernel; the last message and the last signal once more here. */
static bool phase_signal(struct pe *pe)
{
	unsigned int peer = gpu_demo_partner(pe->me, pe->n);
	uint64_t nsec, turn;

	if (!run(pe, GPU_DEMO_SIGNAL_KERNEL, GPU_DEMO_MAX_THREADS, &nsec))
		return false;
	pe->phase->latency_nsec = nsec / GPU_DEMO_PING_PONGS / 2;
	memcpy(&turn, pe->heap + GPU_DEMO_SIGNAL, sizeof(turn));
	if (turn != GPU_DEMO_PING_PONGS)
		return fail(pe, "the last signal was %" PRIu64 " instead of %u", turn, GPU_DEMO_PING_PONGS);
	return verify(pe, GPU_DEMO_INBOX, GPU_DEMO_MESSAGE_BYTES, peer, 1000 + GPU_DEMO_PING_PONGS) && barrier(pe);
}

static bool run_phases(struct pe *pe)
{
	static bool (*const phases[DEMO_N_PHASES])(struct pe *pe) = {
		[DEMO_PUT] = phase_put,
		[DEMO_GET] = phase_get,
		[DEMO_ATOMIC] = phase_atomic,
		[DEMO_SIGNAL] = phase_signal,
	};
	unsigned int i;

	for (i = 0; i < DEMO_N_PHASES; i++) {
		pe->phase = &pe->info->phases[i];
		if (!phases[i](pe))
			return false;
	}
	return true;
}

static bool read_counters(struct pe *pe)
{
	struct shmd_counters counters;

	if (!good_call(pe, "counters", shmd_client_counters(pe->client, &counters)))
		return false;
	pe->info->n_operations = counters.wqes - counters.wqes_by_kind[0];
	return true;
}

bool gpu_demo_pe_main(struct demo_shared *shared, unsigned int me, int gpu)
{
	struct pe pe = {.shared = shared, .info = &shared->pes[me], .me = me, .n = shared->n_pes, .ordinal = gpu};
	bool good = open_session(&pe) && make_memory(&pe) && make_queues(&pe) && barrier(&pe) &&
		    connect_queues(&pe) && barrier(&pe) && run_phases(&pe);

	/* What was executed is worth knowing after a failure, too. */
	if (pe.client && !read_counters(&pe))
		good = false;
	if (good)
		good = barrier(&pe);
	gpu_demo_stream_free(pe.stream);
	shmd_client_close(pe.client);
	return good;
}
