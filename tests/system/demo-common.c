/* SPDX-License-Identifier: Apache-2.0 */
/* Code that the CPU and the GPU demo share: the page that all PEs see, its barrier, and a PE without its traffic. */
#include "demo.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

bool demo_barrier(struct demo_shared *shared)
{
	uint32_t generation = __atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE);
	uint64_t limit = shmd_dev_host_now_nsec() + 2 * shared->wait_nsec;
	uint32_t round = 0;

	if (__atomic_add_fetch(&shared->arrived, 1, __ATOMIC_ACQ_REL) == shared->n_pes) {
		__atomic_store_n(&shared->arrived, 0, __ATOMIC_RELAXED);
		__atomic_add_fetch(&shared->generation, 1, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE) == generation) {
		if (__atomic_load_n(&shared->failed, __ATOMIC_ACQUIRE) ||
		    shmd_dev_host_now_nsec() > limit)
			return false;
		shmd_dev_host_relax(round++);
	}
	return !__atomic_load_n(&shared->failed, __ATOMIC_ACQUIRE);
}

struct demo_shared *demo_shared_new(unsigned int n_pes)
{
	struct demo_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		return NULL;
	shared->n_pes = n_pes;
	shared->wait_nsec = DEMO_WAIT_NSEC;
	return shared;
}

bool demo_daemon_answers(const char *program)
{
	struct shmd_client_attr attr = {.role = SHMD_ROLE_CONTROL};
	struct shmd_client *client;

	if (shmd_client_open(&attr, &client) < 0) {
		fprintf(stderr, "%s: %s\n", program, shmd_error_text());
		return false;
	}
	shmd_client_close(client);
	return true;
}

/* ---- processes ------------------------------------------------------------------------------------------------- */

pid_t demo_fork(void)
{
	pid_t pid = fork();

	/* A demo that was killed must not leave PEs behind. */
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

bool demo_wait_for_pe(struct demo_shared *shared, unsigned int pe, pid_t pid)
{
	int status = 0;

	if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
		return true;
	__atomic_store_n(&shared->failed, 1, __ATOMIC_RELEASE);
	if (!shared->pes[pe].error[0] && WIFSIGNALED(status))
		snprintf(shared->pes[pe].error, sizeof(shared->pes[pe].error),
			 "killed by signal %d", WTERMSIG(status));
	return false;
}

/* ---- a PE ------------------------------------------------------------------------------------------------------ */

bool demo_fail(struct demo_pe *pe, const char *format, ...)
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

bool demo_good_call(struct demo_pe *pe, const char *what, int result)
{
	return result >= 0 || demo_fail(pe, "%s: %s", what, shmd_error_text());
}

bool demo_pe_barrier(struct demo_pe *pe)
{
	if (demo_barrier(pe->shared))
		return true;
	if (!__atomic_load_n(&pe->shared->failed, __ATOMIC_ACQUIRE))
		demo_fail(pe, "the other PEs did not arrive in time");
	return false;
}

void demo_publish_heap(struct demo_pe *pe, uint64_t iova)
{
	pe->info->heap = iova;
	pe->info->rkey_be = shmd_mr_rkey_be(pe->mr);
}

bool demo_publish_queues(struct demo_pe *pe)
{
	unsigned int i;

	for (i = 0; i < pe->n; i++) {
		if (!demo_good_call(pe, "endpoint address",
				    shmd_queues_addr(pe->queues, i, &pe->info->addrs[i])))
			return false;
	}
	return true;
}

bool demo_connect_queues(struct demo_pe *pe)
{
	struct shmd_addr addrs[DEMO_MAX_PES];
	unsigned int i;

	for (i = 0; i < pe->n; i++)
		addrs[i] = pe->shared->pes[i].addrs[pe->me];
	return demo_good_call(pe, "connect",
			      shmd_queues_connect(pe->queues, 0, pe->n, addrs, NULL, NULL));
}

bool demo_read_counters(struct demo_pe *pe)
{
	struct shmd_counters counters;

	if (!demo_good_call(pe, "counters", shmd_client_counters(pe->client, &counters)))
		return false;
	pe->info->n_operations = counters.wqes - counters.wqes_by_kind[0];
	return true;
}

void demo_note_atomics(struct demo_pe *pe, const struct shmd_nic_info *info)
{
	const uint32_t all = SHMD_ATOMIC_8 | SHMD_ATOMIC_MASKED_4 | SHMD_ATOMIC_MASKED_8;
	uint32_t has = info->atomics;

	/* Peers of a DCI that are hot have RC QPs. */
	if (pe->shared->is_dc)
		has = pe->shared->n_hot ? has & info->atomics_dc : info->atomics_dc;
	__atomic_or_fetch(&pe->shared->lacks, all & ~has, __ATOMIC_RELAXED);
}

/* ---- payload and results --------------------------------------------------------------------------------------- */

void demo_fill(uint8_t *at, uint32_t bytes, unsigned int pe, uint32_t salt)
{
	uint32_t i;

	for (i = 0; i < bytes; i++)
		at[i] = demo_pattern(pe, salt, i);
}

bool demo_verify(struct demo_pe *pe, uint32_t offset, uint32_t bytes, unsigned int from,
		 uint32_t salt)
{
	uint32_t i;

	for (i = 0; i < bytes; i++) {
		uint8_t expected = demo_pattern(from, salt, i);

		if (pe->heap[offset + i] == expected)
			continue;
		pe->phase->errors++;
		return demo_fail(pe, "%s: byte %u of %u from PE %u is 0x%02x instead of 0x%02x",
				 demo_phase_names[pe->phase - pe->info->phases], i, bytes, from,
				 pe->heap[offset + i], expected);
	}
	pe->phase->bytes_verified += bytes;
	return true;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

uint64_t demo_median(uint64_t *values, unsigned int n)
{
	qsort(values, n, sizeof(*values), compare_u64);
	return n ? values[n / 2] : 0;
}

bool demo_claim(struct demo_pe *pe, unsigned int peer, uint64_t old)
{
	if (old < (uint64_t)pe->n * DEMO_FETCH_ADDS &&
	    !__atomic_exchange_n(&pe->shared->seen[peer][old], 1, __ATOMIC_ACQ_REL)) {
		pe->phase->bytes_verified += sizeof(old);
		return true;
	}
	pe->phase->errors++;
	return demo_fail(pe, "fetch-add on PE %u returned %" PRIu64 ", which cannot be", peer, old);
}

bool demo_check_counters(struct demo_pe *pe, uint32_t offset, uint32_t offset32)
{
	uint64_t total = (uint64_t)pe->n * DEMO_FETCH_ADDS, got;
	uint64_t total32 = pe->shared->lacks & SHMD_ATOMIC_MASKED_4 ? 0 : 3 * total;
	uint32_t got32;

	memcpy(&got, pe->heap + offset, sizeof(got));
	memcpy(&got32, pe->heap + offset32, sizeof(got32));
	pe->phase->bytes_verified += sizeof(got) + sizeof(got32);
	if (got == total && got32 == (uint32_t)total32)
		return true;
	pe->phase->errors++;
	return demo_fail(pe, "counters are %" PRIu64 " and %u instead of %" PRIu64 " and %" PRIu64,
			 got, got32, total, total32);
}
