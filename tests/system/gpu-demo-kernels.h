/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bodies of the demo's kernels, for CUDA and for C: one block of at most 32 threads, thread `t` of `n`. In C a
 * block is one thread. Each returns a status; what was posted is counted before the status of the last one is known.
 */
#ifndef SHMEMD_GPU_DEMO_KERNELS_H
#define SHMEMD_GPU_DEMO_KERNELS_H

#include "gpu-demo.h"

struct gpu_demo_lane {
	struct gpu_demo_args args;
	struct gpu_demo_thread *mine;
	uint32_t t, n;
};

DEMO_FN uint64_t gpu_demo_now(void)
{
#ifdef __CUDACC__
	return shmdi_clock_nsec();
#else
	return shmd_dev_host_now_nsec();
#endif
}

DEMO_FN struct shmd_dev_qp *gpu_demo_qp(const struct gpu_demo_lane *lane, uint32_t peer)
{
	lane->mine->peer = peer;
	return &lane->args.qps[peer];
}

DEMO_FN struct shmd_dev_addr gpu_demo_at(struct shmd_dev_addr addr, uint64_t offset)
{
	addr.iova += offset;
	return addr;
}

DEMO_FN struct shmd_dev_mode gpu_demo_mode(const struct gpu_demo_lane *lane, enum shmd_dev_scope scope)
{
	struct shmd_dev_mode mode = shmd_dev_mode_const(scope, SHMD_SHARING_GPU);

	mode.timeout_nsec = lane->args.timeout_nsec;
	return mode;
}

/* `repeats` messages of `bytes` to the right neighbour, each thread its own ones. */
DEMO_FN int gpu_demo_put(struct gpu_demo_lane *lane)
{
	const struct gpu_demo_args *a = &lane->args;
	uint32_t right = (a->me + 1) % a->n_pes, i;
	struct shmd_dev_qp *qp = gpu_demo_qp(lane, right);
	int rc;

	for (i = lane->t; i < a->repeats; i += lane->n) {
		uint64_t offset = (uint64_t)i * a->bytes, start = gpu_demo_now();

		lane->mine->n_operations++;
		rc = shmd_dev_qp_put_as(qp, gpu_demo_at(a->remote[right], GPU_DEMO_DST + offset),
					gpu_demo_at(a->local, offset), a->bytes,
					gpu_demo_mode(lane, SHMD_DEV_THREAD));
		if (rc)
			return rc;
		if (lane->n == 1 && i < GPU_DEMO_MAX_SAMPLES) {
			a->result->samples[i] = gpu_demo_now() - start;
			a->result->n_samples = i + 1;
		}
	}
	return SHMD_DEV_OK;
}

/* `bytes` from every PE, by the warp. */
DEMO_FN int gpu_demo_get(struct gpu_demo_lane *lane)
{
	const struct gpu_demo_args *a = &lane->args;
	uint32_t i;
	int rc;

	for (i = 0; i < a->n_pes; i++) {
		uint32_t peer = (a->me + i) % a->n_pes;
		uint64_t start = gpu_demo_now();

		rc = shmd_dev_qp_get_as(gpu_demo_qp(lane, peer), a->remote[peer],
					gpu_demo_at(a->local, GPU_DEMO_LAND + peer * GPU_DEMO_GET_BYTES),
					a->bytes, gpu_demo_mode(lane, SHMD_DEV_WARP));
		if (lane->t == 0) {
			lane->mine->n_operations++;
			a->result->samples[i] = gpu_demo_now() - start;
			a->result->n_samples = i + 1;
		}
		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

/* Fetching adds of 8 bytes, and adds of 4 bytes whose result is not fetched, on every PE. */
DEMO_FN int gpu_demo_atomic(struct gpu_demo_lane *lane)
{
	const struct gpu_demo_args *a = &lane->args;
	struct shmd_dev_mode mode = gpu_demo_mode(lane, SHMD_DEV_THREAD);
	uint32_t i, k;
	int rc;

	for (i = 0; i < a->n_pes; i++) {
		uint32_t peer = (a->me + i) % a->n_pes;
		struct shmd_dev_qp *qp = gpu_demo_qp(lane, peer);

		for (k = lane->t; k < DEMO_FETCH_ADDS; k += lane->n) {
			uint64_t old = 0;

			lane->mine->n_operations++;
			rc = shmd_dev_qp_atomic_fetch_as(qp, gpu_demo_at(a->remote[peer], GPU_DEMO_COUNTER),
							 shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), mode, &old);
			if (rc)
				return rc;
			a->result->olds[peer][k] = old;
			if (a->lacks_masked_4)
				continue;
			lane->mine->n_operations++;
			rc = shmd_dev_qp_atomic_as(qp, gpu_demo_at(a->remote[peer], GPU_DEMO_COUNTER32),
						   shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 4, 3), mode);
			if (rc)
				return rc;
		}
		rc = shmd_dev_qp_quiet_as(qp, mode);
		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

DEMO_FN int gpu_demo_throw(struct gpu_demo_lane *lane, uint32_t peer, uint32_t turn)
{
	const struct gpu_demo_args *a = &lane->args;
	struct shmd_dev_signal signal = shmd_dev_signal_of(gpu_demo_at(a->remote[peer], GPU_DEMO_SIGNAL),
							   SHMD_DEV_SIGNAL_SET, turn);
	uint32_t i;

	/* To set a word takes a masked atomic; one more than before is the same. */
	if (a->lacks_masked_8)
		signal = shmd_dev_signal_of(signal.word, SHMD_DEV_SIGNAL_ADD, 1);
	for (i = lane->t; i < GPU_DEMO_MESSAGE_BYTES; i += lane->n)
		a->heap[GPU_DEMO_OUTBOX + i] = demo_pattern(a->me, 1000 + turn, i);
	if (lane->t == 0)
		lane->mine->n_operations += 2; /* the message and its signal */
	return shmd_dev_qp_put_signal_nbi_as(gpu_demo_qp(lane, peer), gpu_demo_at(a->remote[peer], GPU_DEMO_INBOX),
					     gpu_demo_at(a->local, GPU_DEMO_OUTBOX), GPU_DEMO_MESSAGE_BYTES, signal,
					     gpu_demo_mode(lane, SHMD_DEV_WARP));
}

DEMO_FN int gpu_demo_catch(struct gpu_demo_lane *lane, uint32_t peer, uint32_t turn)
{
	const struct gpu_demo_args *a = &lane->args;
	const uint64_t *word = (const uint64_t *)(a->heap + GPU_DEMO_SIGNAL);
	uint32_t i;
	int rc;

	rc = shmd_dev_qp_wait_until64_as(gpu_demo_qp(lane, peer), word, SHMD_DEV_CMP_GE, turn,
					 gpu_demo_mode(lane, SHMD_DEV_WARP));
	if (rc)
		return rc;
	for (i = lane->t; i < GPU_DEMO_MESSAGE_BYTES; i += lane->n) {
		if (a->heap[GPU_DEMO_INBOX + i] == demo_pattern(peer, 1000 + turn, i))
			lane->mine->n_right++;
		else
			lane->mine->n_wrong++;
	}
	return SHMD_DEV_OK;
}

DEMO_FN int gpu_demo_signal(struct gpu_demo_lane *lane)
{
	uint32_t me = lane->args.me, peer = demo_partner(me, lane->args.n_pes), turn;
	int rc;

	for (turn = 1; turn <= GPU_DEMO_PING_PONGS; turn++) {
		if (me <= peer) {
			rc = gpu_demo_throw(lane, peer, turn);
			if (rc)
				return rc;
		}
		rc = gpu_demo_catch(lane, peer, turn);
		if (rc)
			return rc;
		if (me > peer) {
			rc = gpu_demo_throw(lane, peer, turn);
			if (rc)
				return rc;
		}
	}
	return shmd_dev_qp_quiet_as(gpu_demo_qp(lane, peer), gpu_demo_mode(lane, SHMD_DEV_WARP));
}

/* One thread of the kernel. */
DEMO_FN void gpu_demo_body(enum gpu_demo_kernel kernel, const struct gpu_demo_args *args, uint32_t t, uint32_t n)
{
	struct gpu_demo_lane lane;
	uint64_t start = gpu_demo_now();

	lane.args = *args;
	lane.mine = &args->result->threads[t];
	lane.t = t;
	lane.n = n;
	if (kernel == GPU_DEMO_PUT_KERNEL)
		lane.mine->status = gpu_demo_put(&lane);
	else if (kernel == GPU_DEMO_GET_KERNEL)
		lane.mine->status = gpu_demo_get(&lane);
	else if (kernel == GPU_DEMO_ATOMIC_KERNEL)
		lane.mine->status = gpu_demo_atomic(&lane);
	else
		lane.mine->status = gpu_demo_signal(&lane);
	lane.mine->nsec = gpu_demo_now() - start;
}

#endif
