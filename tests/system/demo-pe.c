/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One processing element of the demo. It owns a session, a heap in a sealed memfd and one QP to every PE, itself
 * included. Every operation is driven through the device functions; the CPU never copies payload between heaps.
 */
#include "demo.h"

#include <shmd/dev/rma.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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

struct pe {
	struct demo_shared *shared;
	struct demo_pe_info *info;
	unsigned int me, n;
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct shmd_queues *queues;
	uint8_t *heap;
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

static bool good_op(struct pe *pe, const char *what, unsigned int peer, int status)
{
	uint32_t index;

	if (status == SHMD_DEV_OK)
		return true;
	if (status == SHMD_DEV_CQE_ERROR)
		return fail(pe, "%s to PE %u: %s", what, peer,
			    shmd_syndrome_text(shmd_dev_qp_error(shmd_queues_dev_qp(pe->queues, peer), &index)));
	return fail(pe, "%s to PE %u: %s", what, peer, shmd_dev_status_text(status));
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

static bool open_session(struct pe *pe, const char *socket_path)
{
	struct shmd_client_attr attr = {.socket_path = socket_path};
	struct shmd_nic_info info;

	if (!good_call(pe, "connect to shmemd", shmd_client_open(&attr, &pe->client)) ||
	    !good_call(pe, "open a NIC", shmd_nic_open(pe->client, NULL, &pe->nic)) ||
	    !good_call(pe, "NIC", shmd_nic_info(pe->nic, &info)))
		return false;
	pe->info->session = shmd_client_session(pe->client);
	snprintf(pe->info->nic, sizeof(pe->info->nic), "%s", info.name);
	pe->info->is_counted = strcmp(info.backend, "mlx5") != 0;
	return true;
}

static bool make_heap(struct pe *pe)
{
	if (!good_call(pe, "heap", shmd_mem_alloc(pe->client, HEAP_BYTES, &pe->mem)) ||
	    !good_call(pe, "register the heap",
			 shmd_mr_reg_mem(pe->nic, pe->mem, SHMD_ACCESS_ALL, &pe->mr)))
		return false;
	pe->heap = shmd_mem_addr(pe->mem);
	pe->info->heap = (uintptr_t)pe->heap;
	pe->info->rkey_be = shmd_mr_rkey_be(pe->mr);
	return true;
}

static bool make_queues(struct pe *pe)
{
	struct shmd_queues_attr attr = {.n_qps = pe->n, .sq_wqebbs = 256, .mem_fd = -1};
	unsigned int i;

	if (!good_call(pe, "create queues", shmd_queues_create(pe->nic, &attr, &pe->queues)))
		return false;
	for (i = 0; i < pe->n; i++) {
		if (!good_call(pe, "endpoint address",
				 shmd_queues_addr(pe->queues, i, &pe->info->addrs[i])))
			return false;
	}
	return true;
}

static bool connect_queues(struct pe *pe)
{
	struct shmd_addr addrs[DEMO_MAX_PES];
	unsigned int i;

	for (i = 0; i < pe->n; i++)
		addrs[i] = pe->shared->pes[i].addrs[pe->me];
	return good_call(pe, "connect",
			   shmd_queues_connect(pe->queues, 0, pe->n, addrs, NULL, NULL));
}

/* ---- operations -------------------------------------------------------------------------------------------- */

static struct shmd_dev_qp *qp_to(const struct pe *pe, unsigned int peer)
{
	return shmd_queues_dev_qp(pe->queues, peer);
}

static struct shmd_dev_addr remote(const struct pe *pe, unsigned int peer, uint32_t offset)
{
	const struct demo_pe_info *info = &pe->shared->pes[peer];

	return shmd_dev_addr_of(info->heap + offset, info->rkey_be);
}

static struct shmd_dev_addr local(const struct pe *pe, uint32_t offset)
{
	return shmd_dev_addr_of((uintptr_t)pe->heap + offset, shmd_mr_lkey_be(pe->mr));
}

static bool put(struct pe *pe, unsigned int peer, uint32_t to, uint32_t from, uint32_t bytes)
{
	pe->phase->operations++;
	return good_op(pe, "put", peer,
			 shmd_dev_qp_put(qp_to(pe, peer), remote(pe, peer, to), local(pe, from), bytes,
					 DEMO_WAIT_NSEC));
}

static bool get(struct pe *pe, unsigned int peer, uint32_t from, uint32_t to, uint32_t bytes)
{
	pe->phase->operations++;
	return good_op(pe, "get", peer,
			 shmd_dev_qp_get(qp_to(pe, peer), remote(pe, peer, from), local(pe, to), bytes,
					 DEMO_WAIT_NSEC));
}

/* ---- patterns ------------------------------------------------------------------------------------------------ */

static uint8_t pattern(unsigned int pe, uint32_t salt, uint32_t i)
{
	uint32_t x = i * 2654435761u + salt * 40503u + pe * 97u + 1u;

	return (uint8_t)(x >> 24 ^ x >> 13 ^ x);
}

static void fill(uint8_t *at, uint32_t bytes, unsigned int pe, uint32_t salt)
{
	uint32_t i;

	for (i = 0; i < bytes; i++)
		at[i] = pattern(pe, salt, i);
}

static bool verify(struct pe *pe, uint32_t offset, uint32_t bytes, unsigned int from, uint32_t salt)
{
	uint32_t i;

	for (i = 0; i < bytes; i++) {
		if (pe->heap[offset + i] == pattern(from, salt, i))
			continue;
		pe->phase->errors++;
		return fail(pe, "%s: byte %u of %u from PE %u is 0x%02x instead of 0x%02x",
			    demo_phase_names[pe->phase - pe->info->phases], i, bytes, from,
			    pe->heap[offset + i], pattern(from, salt, i));
	}
	pe->phase->bytes_verified += bytes;
	return true;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *values, unsigned int n)
{
	qsort(values, n, sizeof(*values), compare_u64);
	return n ? values[n / 2] : 0;
}

/* ---- phases ---------------------------------------------------------------------------------------------------- */

#define MAX_REPEATS 256u
static const struct {
	uint32_t bytes, repeats;
} put_sizes[] = {{8, 256}, {64, 256}, {4096, 64}, {65536, 16}, {1u << 20, 4}};
#define N_PUT_SIZES (sizeof(put_sizes) / sizeof(put_sizes[0]))

/* Put `repeats` messages of one size to the right neighbour; it verifies them. */
static bool put_one_size(struct pe *pe, unsigned int size, unsigned int right, uint64_t *latencies)
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

static bool phase_put(struct pe *pe)
{
	unsigned int right = (pe->me + 1) % pe->n, left = (pe->me + pe->n - 1) % pe->n, s;
	uint64_t latencies[MAX_REPEATS];

	for (s = 0; s < N_PUT_SIZES; s++) {
		uint32_t total = put_sizes[s].bytes * put_sizes[s].repeats;

		fill(pe->heap + SRC_OFFSET, total, pe->me, s);
		memset(pe->heap + DST_OFFSET, 0, total);
		if (!barrier(pe) || !put_one_size(pe, s, right, latencies) || !barrier(pe) ||
		    !verify(pe, DST_OFFSET, total, left, s))
			return false;
		if (s == 0)
			pe->phase->latency_nsec = median(latencies, put_sizes[s].repeats);
	}
	return barrier(pe);
}

static const uint32_t get_sizes[] = {8, 1000, 4096, GET_BLOCK_BYTES};
#define N_GET_SIZES (sizeof(get_sizes) / sizeof(get_sizes[0]))

static bool get_one_size(struct pe *pe, unsigned int size, uint64_t *latencies)
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

static bool phase_get(struct pe *pe)
{
	uint64_t latencies[DEMO_MAX_PES];
	unsigned int s, i;

	fill(pe->heap + SRC_OFFSET, GET_BLOCK_BYTES, pe->me, 77);
	if (!barrier(pe))
		return false;
	for (s = 0; s < N_GET_SIZES; s++) {
		memset(pe->heap + LAND_OFFSET, 0, pe->n * GET_BLOCK_BYTES);
		if (!get_one_size(pe, s, latencies))
			return false;
		if (s == 0)
			pe->phase->latency_nsec = median(latencies, pe->n);
		for (i = 0; i < pe->n; i++) {
			if (!verify(pe, LAND_OFFSET + i * GET_BLOCK_BYTES, get_sizes[s], i, 77))
				return false;
		}
	}
	return barrier(pe);
}

/* A fetched value that somebody else fetched too, or one out of range, is an error. */
static bool claim(struct pe *pe, unsigned int peer, uint64_t old)
{
	if (old < (uint64_t)pe->n * DEMO_FETCH_ADDS &&
	    !__atomic_exchange_n(&pe->shared->seen[peer][old], 1, __ATOMIC_ACQ_REL)) {
		pe->phase->bytes_verified += sizeof(old);
		return true;
	}
	pe->phase->errors++;
	return fail(pe, "fetch-add on PE %u returned %" PRIu64 ", which cannot be", peer, old);
}

/* Counter 0 by fetching adds of 8 bytes, counter 1 by adds of 4 bytes whose result nobody wants. */
static bool count_on(struct pe *pe, unsigned int peer, uint64_t *latencies)
{
	struct shmd_dev_qp *qp = qp_to(pe, peer);
	uint64_t old = 0, start;
	unsigned int i;
	int status;

	for (i = 0; i < DEMO_FETCH_ADDS; i++) {
		start = shmd_dev_host_now_nsec();
		status = shmd_dev_qp_atomic_fetch_add(qp, remote(pe, peer, COUNTER_OFFSET), 8, 1,
						      DEMO_WAIT_NSEC, &old);
		latencies[i] = shmd_dev_host_now_nsec() - start;
		if (!good_op(pe, "fetch-add", peer, status) || !claim(pe, peer, old))
			return false;
		status = shmd_dev_qp_atomic_add(qp, remote(pe, peer, COUNTER32_OFFSET), 4, 3);
		if (!good_op(pe, "add", peer, status))
			return false;
		pe->phase->operations += 2;
	}
	return good_op(pe, "quiet", peer, shmd_dev_qp_quiet(qp, DEMO_WAIT_NSEC));
}

static bool check_counters(struct pe *pe)
{
	uint64_t total = (uint64_t)pe->n * DEMO_FETCH_ADDS, got;
	uint32_t got32;

	memcpy(&got, pe->heap + COUNTER_OFFSET, sizeof(got));
	memcpy(&got32, pe->heap + COUNTER32_OFFSET, sizeof(got32));
	pe->phase->bytes_verified += sizeof(got) + sizeof(got32);
	if (got == total && got32 == (uint32_t)(3 * total))
		return true;
	pe->phase->errors++;
	return fail(pe, "counters are %" PRIu64 " and %u instead of %" PRIu64 " and %" PRIu64, got, got32,
		    total, 3 * total);
}

static bool phase_atomic(struct pe *pe)
{
	uint64_t latencies[DEMO_FETCH_ADDS], begin = shmd_dev_host_now_nsec();
	unsigned int i;

	for (i = 0; i < pe->n; i++) {
		if (!count_on(pe, (pe->me + i) % pe->n, latencies))
			return false;
	}
	pe->phase->nsec = shmd_dev_host_now_nsec() - begin;
	pe->phase->latency_nsec = median(latencies, DEMO_FETCH_ADDS);
	return barrier(pe) && check_counters(pe) && barrier(pe);
}

/* PEs 2k and 2k+1 play with each other; the last of an odd number plays with itself. */
static unsigned int partner(const struct pe *pe)
{
	unsigned int other = pe->me ^ 1u;

	return other < pe->n ? other : pe->me;
}

static bool throw_ball(struct pe *pe, unsigned int peer, uint32_t turn)
{
	struct shmd_dev_signal signal =
		shmd_dev_signal_of(remote(pe, peer, SIGNAL_OFFSET), SHMD_DEV_SIGNAL_SET, turn);

	fill(pe->heap + SRC_OFFSET, MESSAGE_BYTES, pe->me, 1000 + turn);
	pe->phase->operations += 2; /* the message and its signal */
	return good_op(pe, "put-signal", peer,
			 shmd_dev_qp_put_signal_nbi(qp_to(pe, peer), remote(pe, peer, MESSAGE_OFFSET),
						    local(pe, SRC_OFFSET), MESSAGE_BYTES, signal));
}

static bool catch_ball(struct pe *pe, unsigned int peer, uint32_t turn)
{
	const uint64_t *word = (const uint64_t *)(pe->heap + SIGNAL_OFFSET);
	int status = shmd_dev_qp_wait_until64(qp_to(pe, peer), word, SHMD_DEV_CMP_GE, turn,
					      DEMO_WAIT_NSEC);

	return good_op(pe, "wait for a signal", peer, status) &&
	       verify(pe, MESSAGE_OFFSET, MESSAGE_BYTES, peer, 1000 + turn);
}

static bool phase_signal(struct pe *pe)
{
	unsigned int peer = partner(pe);
	uint64_t begin = shmd_dev_host_now_nsec();
	uint32_t turn;

	for (turn = 1; turn <= PING_PONGS; turn++) {
		bool first = pe->me <= peer;

		if (first && !throw_ball(pe, peer, turn))
			return false;
		if (!catch_ball(pe, peer, turn))
			return false;
		if (!first && !throw_ball(pe, peer, turn))
			return false;
	}
	pe->phase->nsec = shmd_dev_host_now_nsec() - begin;
	pe->phase->latency_nsec = pe->phase->nsec / PING_PONGS / 2;
	return good_op(pe, "quiet", peer,
			 shmd_dev_qp_quiet(qp_to(pe, peer), DEMO_WAIT_NSEC)) &&
	       barrier(pe);
}

static bool read_counters(struct pe *pe)
{
	struct shmd_counters counters;

	if (!good_call(pe, "counters", shmd_client_counters(pe->client, &counters)))
		return false;
	pe->info->n_operations = counters.wqes - counters.wqes_by_kind[0];
	return true;
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

uint64_t demo_pe_main(struct demo_shared *shared, unsigned int me, const char *socket_path)
{
	struct pe pe = {.shared = shared, .info = &shared->pes[me], .me = me, .n = shared->n_pes};
	bool good = open_session(&pe, socket_path) && make_heap(&pe) && make_queues(&pe) && barrier(&pe) &&
		    connect_queues(&pe) && barrier(&pe) && run_phases(&pe);

	/* What was executed is worth knowing after a failure, too. */
	if (pe.client && !read_counters(&pe))
		good = false;
	if (good)
		good = barrier(&pe);
	shmd_client_close(pe.client);
	return good ? 0 : 1;
}
