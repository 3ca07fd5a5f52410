/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One processing element of the demo. It owns a session, a heap in a sealed memfd and one QP to every PE, itself
 * included; or, with dynamic connections, one sender and one target for all of them. Every operation is driven through the device functions; the CPU never copies payload between heaps.
 */
#include "demo.h"

#include <stdio.h>
#include <string.h>

/* The heap, the same on every PE. */
#define SRC_OFFSET 0u
#define SRC_BYTES (4u << 20)
#define DST_OFFSET (SRC_OFFSET + SRC_BYTES)
#define GET_BLOCK_BYTES (64u << 10)
#define LAND_OFFSET (DST_OFFSET + SRC_BYTES) /* one block for each PE */
#define COUNTER_OFFSET (LAND_OFFSET + DEMO_MAX_PES * GET_BLOCK_BYTES)
#define COUNTER32_OFFSET (COUNTER_OFFSET + 64u)
#define SIGNAL_OFFSET (COUNTER_OFFSET + 128u)
#define MESSAGE_OFFSET (COUNTER_OFFSET + 4096u)
#define HEAP_BYTES (MESSAGE_OFFSET + 4096u)

#define PING_PONGS 200u
#define MESSAGE_BYTES 64u

/* The sender to this PE, and its way. */
static struct shmd_dev_way way_to(const struct demo_pe *pe, unsigned int peer)
{
	if (pe->shared->is_dc)
		return shmd_dev_way_to(shmd_queues_dev_state(pe->queues), shmd_queues_dev_qp(pe->queues, 0), peer);
	return (struct shmd_dev_way){.qp = shmd_queues_dev_qp(pe->queues, peer)};
}

static struct shmd_dev_qp *qp_to(const struct demo_pe *pe, unsigned int peer)
{
	return way_to(pe, peer).qp;
}

static struct shmd_dev_mode mode_to(const struct demo_pe *pe, unsigned int peer)
{
	struct shmd_dev_way way = way_to(pe, peer);

	return shmd_dev_mode_to(shmd_dev_mode_of(way.qp, pe->shared->wait_nsec), way.peer);
}

static void count_posts(struct demo_pe *pe, unsigned int peer, unsigned int n)
{
	pe->phase->operations += n;
	if (!pe->hot)
		return;
	shmd_dev_way_count(shmd_queues_dev_state(pe->queues), peer, n);
	if (!way_to(pe, peer).peer)
		pe->info->n_rc_operations += n;
}

static bool good_op(struct demo_pe *pe, const char *what, unsigned int peer, int status)
{
	uint32_t index;

	if (status == SHMD_DEV_OK)
		return true;
	if (status == SHMD_DEV_CQE_ERROR)
		return demo_fail(pe, "%s to PE %u: %s", what, peer,
			    shmd_syndrome_text(shmd_dev_qp_error(qp_to(pe, peer), &index)));
	return demo_fail(pe, "%s to PE %u: %s", what, peer, shmd_dev_status_text(status));
}

/* ---- set-up ---------------------------------------------------------------------------------------------- */

static bool open_session(struct demo_pe *pe, const char *socket_path)
{
	struct shmd_client_attr attr = {.socket_path = socket_path, .timeout_nsec = pe->shared->request_nsec};
	struct shmd_nic_info info;

	if (!demo_good_call(pe, "connect to shmemd", shmd_client_open(&attr, &pe->client)) ||
	    !demo_good_call(pe, "open a NIC", shmd_nic_open(pe->client, NULL, &pe->nic)) ||
	    !demo_good_call(pe, "NIC", shmd_nic_info(pe->nic, &info)))
		return false;
	pe->info->session = shmd_client_session(pe->client);
	snprintf(pe->info->nic, sizeof(pe->info->nic), "%s", info.name);
	pe->info->is_uncounted = strcmp(info.backend, "mlx5") == 0;
	demo_note_atomics(pe, &info);
	return true;
}

static bool make_heap(struct demo_pe *pe)
{
	if (!demo_good_call(pe, "heap", shmd_mem_alloc(pe->client, HEAP_BYTES, &pe->mem)) ||
	    !demo_good_call(pe, "register the heap",
			 shmd_mr_reg_mem(pe->nic, pe->mem, SHMD_ACCESS_ALL, &pe->mr)))
		return false;
	pe->heap = shmd_mem_addr(pe->mem);
	demo_publish_heap(pe, (uintptr_t)pe->heap);
	return true;
}

/* The target goes with the session. */
static bool make_dc_queues(struct demo_pe *pe)
{
	struct shmd_queues_attr attr = {
		.n_qps = 1, .sq_wqebbs = 256, .qp_type = SHMD_QP_TYPE_DCI};
	struct shmd_dct *dct;

	return demo_good_call(pe, "create a DCI", shmd_queues_create(pe->nic, &attr, &pe->queues)) &&
	       demo_good_call(pe, "create a DCT", shmd_dct_create(pe->nic, 0, &dct)) &&
	       demo_good_call(pe, "address of the DCT", shmd_dct_addr(dct, &pe->info->addrs[0]));
}

static bool connect_dc_queues(struct demo_pe *pe)
{
	struct shmd_dev_peer peers[DEMO_MAX_PES];
	struct shmd_addr addrs[DEMO_MAX_PES];

	for (unsigned int i = 0; i < pe->n; i++)
		addrs[i] = pe->shared->pes[i].addrs[0];
	return demo_good_call(pe, "connect", shmd_queues_connect(pe->queues, 0, 1, NULL, NULL, NULL)) &&
	       demo_good_call(pe, "resolve the peers", shmd_peers_resolve(pe->nic, pe->n, addrs, 0, peers, NULL)) &&
	       demo_good_call(pe, "table of peers", shmd_queues_set_peers(pe->queues, pe->n, peers)) &&
	       demo_hot_open(pe);
}

static bool make_queues(struct demo_pe *pe)
{
	struct shmd_queues_attr attr = {.n_qps = pe->n, .sq_wqebbs = 256};

	if (pe->shared->is_dc)
		return make_dc_queues(pe);

	return demo_good_call(pe, "create queues", shmd_queues_create(pe->nic, &attr, &pe->queues)) &&
	       demo_publish_queues(pe);
}

/* ---- operations -------------------------------------------------------------------------------------------- */

static struct shmd_dev_addr remote(const struct demo_pe *pe, unsigned int peer, uint32_t offset)
{
	const struct demo_pe_info *info = &pe->shared->pes[peer];

	return shmd_dev_addr_of(info->heap + offset, info->rkey_be);
}

static struct shmd_dev_addr local(const struct demo_pe *pe, uint32_t offset)
{
	return shmd_dev_addr_of((uintptr_t)pe->heap + offset, shmd_mr_lkey_be(pe->mr));
}

static bool put(struct demo_pe *pe, unsigned int peer, uint32_t to, uint32_t from, uint32_t bytes)
{
	count_posts(pe, peer, 1);
	return good_op(pe, "put", peer,
			 shmd_dev_qp_put_as(qp_to(pe, peer), remote(pe, peer, to), local(pe, from), bytes,
					    mode_to(pe, peer)));
}

static bool get(struct demo_pe *pe, unsigned int peer, uint32_t from, uint32_t to, uint32_t bytes)
{
	count_posts(pe, peer, 1);
	return good_op(pe, "get", peer,
			 shmd_dev_qp_get_as(qp_to(pe, peer), remote(pe, peer, from), local(pe, to), bytes,
					    mode_to(pe, peer)));
}

/* ---- phases ---------------------------------------------------------------------------------------------------- */

#define MAX_REPEATS 256u
static const struct {
	uint32_t bytes, repeats;
} put_sizes[] = {{8, 256}, {64, 256}, {4096, 64}, {65536, 16}, {1u << 20, 4}};
#define N_PUT_SIZES (sizeof(put_sizes) / sizeof(put_sizes[0]))

/* Put `repeats` messages of one size to the right neighbour; it verifies them. */
static bool put_one_size(struct demo_pe *pe, unsigned int size, unsigned int right, uint64_t *latencies)
{
	uint32_t bytes = put_sizes[size].bytes, i;
	uint64_t start, begin = shmd_dev_host_now_nsec();

	for (i = 0; i < put_sizes[size].repeats; i++) {
		start = shmd_dev_host_now_nsec();
		if (!put(pe, right, DST_OFFSET + i * bytes, SRC_OFFSET + i * bytes, bytes))
			return false;
		latencies[i] = shmd_dev_host_now_nsec() - start;
	}
	begin = shmd_dev_host_now_nsec() - begin;
	pe->phase->nsec += begin;
	if (size == N_PUT_SIZES - 1) {
		pe->phase->bandwidth_bytes = (uint64_t)bytes * put_sizes[size].repeats;
		pe->phase->bandwidth_nsec = begin;
	}
	return true;
}

static bool phase_put(struct demo_pe *pe)
{
	unsigned int right = (pe->me + 1) % pe->n, left = (pe->me + pe->n - 1) % pe->n, s;
	uint64_t latencies[MAX_REPEATS];

	for (s = 0; s < N_PUT_SIZES; s++) {
		uint32_t total = put_sizes[s].bytes * put_sizes[s].repeats;

		demo_fill(pe->heap + SRC_OFFSET, total, pe->me, s);
		memset(pe->heap + DST_OFFSET, 0, total);
		if (!demo_pe_barrier(pe) || !put_one_size(pe, s, right, latencies) || !demo_pe_barrier(pe) ||
		    !demo_verify(pe, DST_OFFSET, total, left, s) || !demo_hot_step(pe))
			return false;
		if (s == 0)
			pe->phase->latency_nsec = demo_median(latencies, put_sizes[s].repeats);
	}
	return demo_pe_barrier(pe);
}

static const uint32_t get_sizes[] = {8, 1000, 4096, GET_BLOCK_BYTES};
#define N_GET_SIZES (sizeof(get_sizes) / sizeof(get_sizes[0]))

static bool get_one_size(struct demo_pe *pe, unsigned int size, uint64_t *latencies)
{
	uint64_t start, begin = shmd_dev_host_now_nsec();
	unsigned int i;

	for (i = 0; i < pe->n; i++) {
		unsigned int peer = (pe->me + i) % pe->n;

		start = shmd_dev_host_now_nsec();
		if (!get(pe, peer, SRC_OFFSET, LAND_OFFSET + peer * GET_BLOCK_BYTES, get_sizes[size]))
			return false;
		latencies[i] = shmd_dev_host_now_nsec() - start;
	}
	begin = shmd_dev_host_now_nsec() - begin;
	pe->phase->nsec += begin;
	if (size == N_GET_SIZES - 1) {
		pe->phase->bandwidth_bytes = (uint64_t)get_sizes[size] * pe->n;
		pe->phase->bandwidth_nsec = begin;
	}
	return true;
}

static bool phase_get(struct demo_pe *pe)
{
	uint64_t latencies[DEMO_MAX_PES];
	unsigned int s, i;

	demo_fill(pe->heap + SRC_OFFSET, GET_BLOCK_BYTES, pe->me, 77);
	if (!demo_pe_barrier(pe))
		return false;
	for (s = 0; s < N_GET_SIZES; s++) {
		memset(pe->heap + LAND_OFFSET, 0, pe->n * GET_BLOCK_BYTES);
		if (!get_one_size(pe, s, latencies))
			return false;
		if (s == 0)
			pe->phase->latency_nsec = demo_median(latencies, pe->n);
		for (i = 0; i < pe->n; i++) {
			if (!demo_verify(pe, LAND_OFFSET + i * GET_BLOCK_BYTES, get_sizes[s], i, 77))
				return false;
		}
	}
	return demo_pe_barrier(pe) && demo_hot_step(pe);
}

/* Counter 0 by fetching adds of 8 bytes, counter 1 by adds of 4 bytes whose result is not fetched. */
static bool count_on(struct demo_pe *pe, unsigned int peer, uint64_t *latencies)
{
	const struct shmd_dev_amo one = shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1);
	const struct shmd_dev_amo three = shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 4, 3);
	struct shmd_dev_qp *qp = qp_to(pe, peer);
	uint64_t old = 0, start;
	unsigned int i;
	int status;

	for (i = 0; i < DEMO_FETCH_ADDS; i++) {
		start = shmd_dev_host_now_nsec();
		status = shmd_dev_qp_atomic_fetch_as(qp, remote(pe, peer, COUNTER_OFFSET), one,
						     mode_to(pe, peer), &old);
		latencies[i] = shmd_dev_host_now_nsec() - start;
		if (!good_op(pe, "fetch-add", peer, status) || !demo_claim(pe, peer, old))
			return false;
		count_posts(pe, peer, 1);
		if (pe->shared->lacks & SHMD_ATOMIC_MASKED_4)
			continue;
		status = shmd_dev_qp_atomic_as(qp, remote(pe, peer, COUNTER32_OFFSET), three, mode_to(pe, peer));
		if (!good_op(pe, "add", peer, status))
			return false;
		count_posts(pe, peer, 1);
	}
	return good_op(pe, "quiet", peer, shmd_dev_qp_quiet(qp, pe->shared->wait_nsec));
}

static bool phase_atomic(struct demo_pe *pe)
{
	uint64_t latencies[DEMO_FETCH_ADDS], begin = shmd_dev_host_now_nsec();
	unsigned int i;

	if (pe->shared->lacks & SHMD_ATOMIC_8)
		return true;
	for (i = 0; i < pe->n; i++) {
		if (!count_on(pe, (pe->me + i) % pe->n, latencies))
			return false;
	}
	pe->phase->nsec = shmd_dev_host_now_nsec() - begin;
	pe->phase->latency_nsec = demo_median(latencies, DEMO_FETCH_ADDS);
	return demo_pe_barrier(pe) && demo_check_counters(pe, COUNTER_OFFSET, COUNTER32_OFFSET) &&
	       demo_pe_barrier(pe) && demo_hot_step(pe);
}

static bool throw_ball(struct demo_pe *pe, unsigned int peer, uint32_t turn)
{
	struct shmd_dev_signal signal =
		shmd_dev_signal_of(remote(pe, peer, SIGNAL_OFFSET), SHMD_DEV_SIGNAL_SET, turn);

	/* To set a word takes a masked atomic; one more than before is the same. */
	if (pe->shared->lacks & SHMD_ATOMIC_MASKED_8)
		signal = shmd_dev_signal_of(signal.word, SHMD_DEV_SIGNAL_ADD, 1);
	demo_fill(pe->heap + SRC_OFFSET, MESSAGE_BYTES, pe->me, 1000 + turn);
	count_posts(pe, peer, 2); /* the message and its signal */
	return good_op(pe, "put-signal", peer,
			 shmd_dev_qp_put_signal_nbi_as(qp_to(pe, peer), remote(pe, peer, MESSAGE_OFFSET),
						       local(pe, SRC_OFFSET), MESSAGE_BYTES, signal,
						       mode_to(pe, peer)));
}

static bool catch_ball(struct demo_pe *pe, unsigned int peer, uint32_t turn)
{
	const uint64_t *word = (const uint64_t *)(pe->heap + SIGNAL_OFFSET);
	int status = shmd_dev_qp_wait_until64(qp_to(pe, peer), word, SHMD_DEV_CMP_GE, turn,
					      pe->shared->wait_nsec);

	return good_op(pe, "wait for a signal", peer, status) &&
	       demo_verify(pe, MESSAGE_OFFSET, MESSAGE_BYTES, peer, 1000 + turn);
}

/* The time it takes is none of what began at *begin. */
static bool hot_step_aside(struct demo_pe *pe, uint64_t *begin)
{
	uint64_t start = shmd_dev_host_now_nsec();
	bool good = demo_hot_step(pe);

	*begin += shmd_dev_host_now_nsec() - start;
	return good;
}

static bool phase_signal(struct demo_pe *pe)
{
	unsigned int peer = demo_partner(pe->me, pe->n);
	uint64_t begin = shmd_dev_host_now_nsec();
	uint32_t turn;

	if (pe->shared->lacks & SHMD_ATOMIC_8)
		return true;
	for (turn = 1; turn <= PING_PONGS; turn++) {
		bool first = pe->me <= peer;

		if (first && !throw_ball(pe, peer, turn))
			return false;
		if (!catch_ball(pe, peer, turn))
			return false;
		if (!first && !throw_ball(pe, peer, turn))
			return false;
		if (turn == PING_PONGS / 2 && !hot_step_aside(pe, &begin))
			return false;
	}
	pe->phase->nsec = shmd_dev_host_now_nsec() - begin;
	pe->phase->latency_nsec = pe->phase->nsec / PING_PONGS / 2;
	return good_op(pe, "quiet", peer,
			 shmd_dev_qp_quiet(qp_to(pe, peer), pe->shared->wait_nsec)) &&
	       demo_pe_barrier(pe);
}

static bool run_phases(struct demo_pe *pe)
{
	static bool (*const phases[DEMO_RUNTIME_MAPPED])(struct demo_pe *pe) = {
		[DEMO_PUT] = phase_put,
		[DEMO_GET] = phase_get,
		[DEMO_ATOMIC] = phase_atomic,
		[DEMO_SIGNAL] = phase_signal,
	};
	unsigned int i;

	for (i = 0; i < DEMO_RUNTIME_MAPPED; i++) {
		pe->phase = &pe->info->phases[i];
		if (!phases[i](pe))
			return false;
	}
	return !pe->shared->has_runtime || demo_runtime(pe);
}

bool demo_pe_main(struct demo_shared *shared, unsigned int me, const char *socket_path)
{
	struct demo_pe pe = {.shared = shared, .info = &shared->pes[me], .me = me, .n = shared->n_pes};
	bool good = open_session(&pe, socket_path) && make_heap(&pe) && make_queues(&pe) && demo_pe_barrier(&pe) &&
		    (shared->is_dc ? connect_dc_queues(&pe) : demo_connect_queues(&pe)) && demo_pe_barrier(&pe) && run_phases(&pe);

	/* The executed operations are worth printing after a failure, too. */
	if (pe.client && !demo_read_counters(&pe))
		good = false;
	if (good)
		good = demo_pe_barrier(&pe);
	shmd_client_close(pe.client);
	return good;
}
