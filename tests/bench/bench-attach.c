/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching: from connect() to the first completed put, with its parts; and 1,000 QPs in one call. Absolute goals;
 * what fails is ten times the goal.
 */
#include "bench.h"
#include "ref/ref.h"

#include <shmd/dev/rma.h>

#include <stdio.h>
#include <stdlib.h>

#define SAMPLES 31u

enum part { PART_CONNECT, PART_NIC, PART_MEMORY, PART_QUEUES, PART_RTS, PART_PUT, N_PARTS };
static const char *const part_names[N_PARTS] = {
	"connect and hello", "open the NIC", "64 KiB of memory", "queues", "connect the QP", "first put",
};

struct attach {
	uint64_t at[N_PARTS + 1];
};

static bool put_once(struct bench_end *end)
{
	uint64_t heap = (uintptr_t)shmd_mem_addr(end->mem);
	struct shmd_dev_addr dst = shmd_dev_addr_of(heap + 4096, shmd_mr_rkey_be(end->mr));
	struct shmd_dev_addr src = shmd_dev_addr_of(heap, shmd_mr_lkey_be(end->mr));

	return shmd_dev_qp_put(shmd_queues_dev_qp(end->queues, 0), dst, src, 8, BENCH_WAIT_NSEC) ==
	       SHMD_DEV_OK;
}

static bool attach_once(struct attach *ret)
{
	struct shmd_queues_attr attr = {.n_qps = 1};
	struct bench_end end = {0};
	uint64_t *at = ret->at;
	bool good;

	*at++ = ref_now_nsec();
	good = shmd_client_open(NULL, &end.client) >= 0;
	*at++ = ref_now_nsec();
	good = good && shmd_nic_open(end.client, NULL, &end.nic) >= 0;
	*at++ = ref_now_nsec();
	good = good && shmd_mem_alloc(end.client, 65536, &end.mem) >= 0 &&
	       shmd_mr_reg_mem(end.nic, end.mem, SHMD_ACCESS_ALL, &end.mr) >= 0;
	*at++ = ref_now_nsec();
	good = good && shmd_queues_create(end.nic, &attr, &end.queues) >= 0;
	*at++ = ref_now_nsec();
	good = good && bench_end_connect(&end, &end, 1) >= 0;
	*at++ = ref_now_nsec();
	good = good && put_once(&end);
	*at = ref_now_nsec();
	bench_end_close(&end);
	return good || bench_complain("attach");
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double median_usec(uint64_t *values)
{
	qsort(values, SAMPLES, sizeof(*values), compare_u64);
	return (double)values[SAMPLES / 2] / 1e3;
}

static bool bench_attach(void)
{
	static struct attach samples[SAMPLES];
	uint64_t values[SAMPLES];
	unsigned int i, p;
	double total;

	for (i = 0; i < SAMPLES; i++) {
		if (!attach_once(&samples[i]))
			return false;
		values[i] = samples[i].at[N_PARTS] - samples[i].at[0];
	}
	total = median_usec(values);
	printf("attach, median of %u %20.1f us  (%.1f to %.1f)  goal at most 2000 us  %s\n", SAMPLES, total,
	       (double)values[0] / 1e3, (double)values[SAMPLES - 1] / 1e3, total <= 20000 ? "ok" : "MISSED");
	for (p = 0; p < N_PARTS; p++) {
		for (i = 0; i < SAMPLES; i++)
			values[i] = samples[i].at[p + 1] - samples[i].at[p];
		printf("  %-26s %12.1f us\n", part_names[p], median_usec(values));
	}
	return total <= 20000;
}

/* The library splits this over packets. */
static double thousand_qps(void *arg)
{
	struct shmd_queues_attr attr = {.n_qps = 1000, .sq_wqebbs = 64};
	struct bench_end end = {0};
	double msec = -1;
	uint64_t start;

	if (shmd_client_open(NULL, &end.client) >= 0 && shmd_nic_open(end.client, NULL, &end.nic) >= 0) {
		start = ref_now_nsec();
		if (shmd_queues_create(end.nic, &attr, &end.queues) >= 0)
			msec = (double)(ref_now_nsec() - start) / 1e6;
		else
			bench_complain("create 1,000 QPs");
	}
	bench_end_close(&end);
	return msec;
}

int main(void)
{
	const struct bench_row qps = {
		.name = "1,000 QPs in one call", .unit = "ms", .ours = thousand_qps, .goal = 100, .fail_limit = 1000,
	};
	bool good;

	bench_header("attaching, soft NIC");
	good = bench_attach();
	good = bench_run(&qps) && good;
	return good ? 0 : 1;
}
