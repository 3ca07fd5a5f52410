/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One processing element of the GPU demo: a session, a heap, a QP to every PE and a stream on a GPU. This thread fills
 * payload, starts kernels and compares what arrived; it touches no queue. The heap is GPU memory where the NIC reaches that, and then
 * base.heap is a copy of it in memory of this thread.
 */
#include "gpu-demo-pe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu-demo.h"

/* Every wait in a kernel ends after DEMO_WAIT_NSEC; a kernel has several. */
#define KERNEL_LIMIT_NSEC (15 * DEMO_WAIT_NSEC)

struct pe {
	struct demo_pe base;
	int ordinal;
	struct shmd_gpu *gpu;
	struct shmd_mem *result_mem;
	struct shmd_gpu_mem *heap;
	enum shmd_gpu_mem_mode memory;
	bool is_copy; /* base.heap is */
	struct gpu_demo_stream *stream;
	struct gpu_demo_result *result;
	struct gpu_demo_args args;
};

/* ---- set-up ---------------------------------------------------------------------------------------------- */

static bool open_session(struct pe *pe)
{
	struct shmd_nic_attr attr = {0};
	struct shmd_nic_info info;
	struct shmd_gpu_info gpu;

	if (!demo_good_call(&pe->base, "connect to shmemd",
			    shmd_client_open(NULL, &pe->base.client)) ||
	    !demo_good_call(&pe->base, "open the GPU",
			    shmd_gpu_open(pe->base.client, pe->ordinal, &pe->gpu)) ||
	    !demo_good_call(&pe->base, "GPU", shmd_gpu_info(pe->gpu, &gpu)))
		return false;
	attr.gpu = gpu.pci;
	if (!demo_good_call(&pe->base, "open a NIC",
			    shmd_nic_open(pe->base.client, &attr, &pe->base.nic)) ||
	    !demo_good_call(&pe->base, "NIC", shmd_nic_info(pe->base.nic, &info)))
		return false;
	demo_note_atomics(&pe->base, &info);
	pe->base.info->session = shmd_client_session(pe->base.client);
	snprintf(pe->base.info->nic, sizeof(pe->base.info->nic), "%s, GPU %s", info.name, gpu.pci);
	pe->stream = gpu_demo_stream_new(pe->ordinal);
	return pe->stream || demo_fail(&pe->base, "%s", gpu_demo_error());
}

/* The heap as a kernel has it changes to base.heap, or the other way round. */
static bool push(struct pe *pe, uint32_t offset, uint32_t bytes)
{
	if (!pe->is_copy || gpu_demo_copy(pe->stream, pe->args.heap + offset, pe->base.heap + offset, bytes) >= 0)
		return true;
	return demo_fail(&pe->base, "%s", gpu_demo_error());
}

static bool pull(struct pe *pe, uint32_t offset, uint32_t bytes)
{
	if (!pe->is_copy || gpu_demo_copy(pe->stream, pe->base.heap + offset, pe->args.heap + offset, bytes) >= 0)
		return true;
	return demo_fail(&pe->base, "%s", gpu_demo_error());
}

static bool make_copy(struct pe *pe)
{
	pe->base.heap = calloc(1, GPU_DEMO_HEAP_BYTES);
	pe->is_copy = pe->base.heap != NULL;
	return pe->is_copy ? push(pe, 0, GPU_DEMO_HEAP_BYTES) : demo_fail(&pe->base, "no memory for a copy of the heap");
}

static bool make_heap(struct pe *pe)
{
	static const char *const kinds[] = {"", "GPU memory by dmabuf", "GPU memory by peermem", "host memory", "GPU memory behind the memory agent"};
	struct shmd_gpu_mem_attr attr = {.bytes = GPU_DEMO_HEAP_BYTES, .access = SHMD_ACCESS_ALL, .mode = pe->memory};
	struct shmd_gpu_mem_info info;
	size_t used = strlen(pe->base.info->nic);

	if (!demo_good_call(&pe->base, "heap", shmd_gpu_mem_alloc(pe->gpu, pe->base.nic, &attr, &pe->heap)) ||
	    !demo_good_call(&pe->base, "heap", shmd_gpu_mem_info(pe->heap, &info)))
		return false;
	snprintf(pe->base.info->nic + used, sizeof(pe->base.info->nic) - used, ", %s", kinds[info.mode]);
	pe->base.mr = info.mr;
	pe->args.heap = (uint8_t *)(uintptr_t)info.addr;
	pe->args.local = shmd_dev_addr_of(info.iova, shmd_mr_lkey_be(info.mr));
	demo_publish_heap(&pe->base, info.iova);
	if (!info.host_addr)
		return make_copy(pe);
	pe->base.heap = info.host_addr;
	memset(pe->base.heap, 0, GPU_DEMO_HEAP_BYTES);
	return true;
}

static bool make_memory(struct pe *pe)
{
	uint64_t result;

	if (!make_heap(pe) ||
	    !demo_good_call(
		    &pe->base, "results",
		    shmd_mem_alloc(pe->base.client, sizeof(*pe->result), &pe->result_mem)) ||
	    !demo_good_call(&pe->base, "results on the GPU",
			    shmd_gpu_map_mem(pe->gpu, pe->result_mem, &result)))
		return false;
	pe->result = shmd_mem_addr(pe->result_mem);
	pe->args.result = (struct gpu_demo_result *)(uintptr_t)result;
	return true;
}

static bool make_queues(struct pe *pe)
{
	struct shmd_queues_attr attr = {.n_qps = pe->base.n,
					.sq_wqebbs = 256,
					.gpu_driven = 1,
					.sharing = SHMD_SHARING_GPU};
	uint64_t qps;

	if (!demo_good_call(&pe->base, "create queues",
			    shmd_queues_create(pe->base.nic, &attr, &pe->base.queues)) ||
	    !demo_good_call(&pe->base, "queues on the GPU",
			    shmd_gpu_dev_qp(pe->gpu, pe->base.queues, 0, &qps)))
		return false;
	pe->args.qps = (struct shmd_dev_qp *)(uintptr_t)qps;
	return demo_publish_queues(&pe->base);
}

static bool connect_queues(struct pe *pe)
{
	unsigned int i;

	for (i = 0; i < pe->base.n; i++) {
		const struct demo_pe_info *peer = &pe->base.shared->pes[i];

		pe->args.remote[i] = shmd_dev_addr_of(peer->heap, peer->rkey_be);
	}
	return demo_connect_queues(&pe->base);
}

/* ---- running a kernel ---------------------------------------------------------------------------------------- */

static bool check_thread(struct pe *pe, const struct gpu_demo_thread *thread)
{
	struct shmd_qp_info qp;

	pe->base.phase->operations += thread->n_operations;
	pe->base.phase->bytes_verified += thread->n_right;
	pe->base.phase->errors += thread->n_wrong;
	if (thread->n_wrong)
		return demo_fail(&pe->base,
				 "%s: %" PRIu64
				 " bytes that the kernel received from PE %u are wrong",
				 demo_phase_names[pe->base.phase - pe->base.info->phases],
				 thread->n_wrong, thread->peer);
	if (thread->status == SHMD_DEV_OK)
		return true;
	if (thread->status == SHMD_DEV_CQE_ERROR &&
	    shmd_queues_query(pe->base.queues, thread->peer, &qp) >= 0)
		return demo_fail(&pe->base, "kernel, to PE %u: %s", thread->peer,
				 shmd_syndrome_text(qp.first_error));
	return demo_fail(&pe->base, "kernel, to PE %u: %s", thread->peer,
			 shmd_dev_status_text(thread->status));
}

static void take_times(struct pe *pe, uint64_t *ret_nsec)
{
	struct gpu_demo_result *result = pe->result;
	uint32_t n = result->n_samples;
	uint64_t nsec = 0;
	unsigned int t;

	for (t = 0; t < GPU_DEMO_MAX_THREADS; t++)
		nsec = result->threads[t].nsec > nsec ? result->threads[t].nsec : nsec;
	pe->base.phase->nsec += nsec;
	*ret_nsec = nsec;
	if (!pe->base.phase->latency_nsec && n && n <= GPU_DEMO_MAX_SAMPLES)
		pe->base.phase->latency_nsec = demo_median(result->samples, n);
}

static bool run(struct pe *pe, enum gpu_demo_kernel kernel, uint32_t n_threads, uint64_t *ret_nsec)
{
	bool good = true;
	unsigned int t;

	memset(pe->result, 0, sizeof(*pe->result));
	pe->args.me = pe->base.me;
	pe->args.n_pes = pe->base.n;
	pe->args.timeout_nsec = DEMO_WAIT_NSEC;
	pe->args.lacks_masked_4 = pe->base.shared->lacks & SHMD_ATOMIC_MASKED_4;
	pe->args.lacks_masked_8 = pe->base.shared->lacks & SHMD_ATOMIC_MASKED_8;
	if (gpu_demo_run(pe->stream, kernel, &pe->args, n_threads, KERNEL_LIMIT_NSEC) < 0)
		return demo_fail(&pe->base, "%s", gpu_demo_error());
	for (t = 0; t < n_threads; t++)
		good = check_thread(pe, &pe->result->threads[t]) && good;
	take_times(pe, ret_nsec);
	return good;
}

/* ---- phases -------------------------------------------------------------------------------------------------- */

static const struct {
	uint32_t bytes, repeats, n_threads;
} put_sizes[] = {{8, 256, 1}, {64, 256, 32}, {4096, 64, 32}, {65536, 16, 16}, {1u << 20, 4, 1}};
#define N_PUT_SIZES (sizeof(put_sizes) / sizeof(put_sizes[0]))

static bool phase_put(struct pe *pe)
{
	unsigned int left = (pe->base.me + pe->base.n - 1) % pe->base.n, s;
	uint64_t nsec = 0;

	for (s = 0; s < N_PUT_SIZES; s++) {
		uint32_t total = put_sizes[s].bytes * put_sizes[s].repeats;

		pe->args.bytes = put_sizes[s].bytes;
		pe->args.repeats = put_sizes[s].repeats;
		demo_fill(pe->base.heap, total, pe->base.me, s);
		memset(pe->base.heap + GPU_DEMO_DST, 0, total);
		if (!push(pe, 0, total) || !push(pe, GPU_DEMO_DST, total) || !demo_pe_barrier(&pe->base) ||
		    !run(pe, GPU_DEMO_PUT_KERNEL, put_sizes[s].n_threads, &nsec) ||
		    !demo_pe_barrier(&pe->base) || !pull(pe, GPU_DEMO_DST, total) ||
		    !demo_verify(&pe->base, GPU_DEMO_DST, total, left, s))
			return false;
		pe->base.phase->bandwidth_bytes = total;
		pe->base.phase->bandwidth_nsec = nsec;
	}
	return demo_pe_barrier(&pe->base);
}

static const uint32_t get_sizes[] = {8, 1000, 4096, GPU_DEMO_GET_BYTES};
#define N_GET_SIZES (sizeof(get_sizes) / sizeof(get_sizes[0]))

static bool phase_get(struct pe *pe)
{
	unsigned int s, i;
	uint64_t nsec = 0;

	demo_fill(pe->base.heap, GPU_DEMO_GET_BYTES, pe->base.me, 77);
	if (!push(pe, 0, GPU_DEMO_GET_BYTES) || !demo_pe_barrier(&pe->base))
		return false;
	for (s = 0; s < N_GET_SIZES; s++) {
		memset(pe->base.heap + GPU_DEMO_LAND, 0, pe->base.n * GPU_DEMO_GET_BYTES);
		pe->args.bytes = get_sizes[s];
		if (!push(pe, GPU_DEMO_LAND, pe->base.n * GPU_DEMO_GET_BYTES) ||
		    !run(pe, GPU_DEMO_GET_KERNEL, GPU_DEMO_MAX_THREADS, &nsec) ||
		    !pull(pe, GPU_DEMO_LAND, pe->base.n * GPU_DEMO_GET_BYTES))
			return false;
		for (i = 0; i < pe->base.n; i++) {
			if (!demo_verify(&pe->base, GPU_DEMO_LAND + i * GPU_DEMO_GET_BYTES,
					 get_sizes[s], i, 77))
				return false;
		}
		pe->base.phase->bandwidth_bytes = (uint64_t)get_sizes[s] * pe->base.n;
		pe->base.phase->bandwidth_nsec = nsec;
	}
	return demo_pe_barrier(&pe->base);
}

static bool phase_atomic(struct pe *pe)
{
	unsigned int i, k;
	uint64_t nsec = 0;

	if (pe->base.shared->lacks & SHMD_ATOMIC_8)
		return true;
	if (!run(pe, GPU_DEMO_ATOMIC_KERNEL, GPU_DEMO_MAX_THREADS, &nsec))
		return false;
	pe->base.phase->latency_nsec = nsec * GPU_DEMO_MAX_THREADS / (DEMO_FETCH_ADDS * pe->base.n);
	for (i = 0; i < pe->base.n; i++) {
		for (k = 0; k < DEMO_FETCH_ADDS; k++) {
			if (!demo_claim(&pe->base, i, pe->result->olds[i][k]))
				return false;
		}
	}
	return demo_pe_barrier(&pe->base) && pull(pe, GPU_DEMO_COUNTER, 128) &&
	       demo_check_counters(&pe->base, GPU_DEMO_COUNTER, GPU_DEMO_COUNTER32) &&
	       demo_pe_barrier(&pe->base);
}

/* Every turn is verified by the kernel; the last message and the last signal once more here. */
static bool phase_signal(struct pe *pe)
{
	unsigned int peer = demo_partner(pe->base.me, pe->base.n);
	uint64_t nsec, turn;

	if (pe->base.shared->lacks & SHMD_ATOMIC_8)
		return true;
	if (!run(pe, GPU_DEMO_SIGNAL_KERNEL, GPU_DEMO_MAX_THREADS, &nsec))
		return false;
	pe->base.phase->latency_nsec = nsec / GPU_DEMO_PING_PONGS / 2;
	if (!pull(pe, GPU_DEMO_SIGNAL, GPU_DEMO_HEAP_BYTES - GPU_DEMO_SIGNAL))
		return false;
	memcpy(&turn, pe->base.heap + GPU_DEMO_SIGNAL, sizeof(turn));
	if (turn != GPU_DEMO_PING_PONGS)
		return demo_fail(&pe->base, "the last signal was %" PRIu64 " instead of %u", turn,
				 GPU_DEMO_PING_PONGS);
	return demo_verify(&pe->base, GPU_DEMO_INBOX, GPU_DEMO_MESSAGE_BYTES, peer,
			   1000 + GPU_DEMO_PING_PONGS) &&
	       demo_pe_barrier(&pe->base);
}

static bool run_phases(struct pe *pe)
{
	static bool (*const phases[])(struct pe * pe) = {
		[DEMO_PUT] = phase_put,
		[DEMO_GET] = phase_get,
		[DEMO_ATOMIC] = phase_atomic,
		[DEMO_SIGNAL] = phase_signal,
	};
	unsigned int i;

	for (i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
		pe->base.phase = &pe->base.info->phases[i];
		if (!phases[i](pe))
			return false;
	}
	return true;
}

bool gpu_demo_pe_main(struct demo_shared *shared, unsigned int me, int gpu, bool host_memory)
{
	struct pe pe = {
		.base = {.shared = shared, .info = &shared->pes[me], .me = me, .n = shared->n_pes},
		.ordinal = gpu,
		.memory = host_memory ? SHMD_GPU_MEM_HOST : SHMD_GPU_MEM_AUTO};
	bool good = open_session(&pe) && make_memory(&pe) && make_queues(&pe) &&
		    demo_pe_barrier(&pe.base) && connect_queues(&pe) && demo_pe_barrier(&pe.base) &&
		    run_phases(&pe);

	/* The executed operations are worth printing after a failure, too. */
	if (pe.base.client && !demo_read_counters(&pe.base))
		good = false;
	if (good)
		good = demo_pe_barrier(&pe.base);
	gpu_demo_stream_free(pe.stream);
	shmd_client_close(pe.base.client);
	if (pe.is_copy)
		free(pe.base.heap);
	return good;
}
