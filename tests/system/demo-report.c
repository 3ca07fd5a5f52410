/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's results for people and for programs. */
#include "demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const demo_phase_names[DEMO_N_PHASES] = {
	[DEMO_PUT] = "put ring",
	[DEMO_GET] = "get all-to-all",
	[DEMO_ATOMIC] = "atomic counters",
	[DEMO_SIGNAL] = "put-signal ping-pong",
	[DEMO_RUNTIME_MAPPED] = "runtime, mapped memory",
	[DEMO_RUNTIME_QUEUE] = "runtime, queues",
};

struct totals {
	struct demo_phase_result phases[DEMO_N_PHASES];
	uint64_t posted; /* by the PEs, without the runtime */
	uint64_t runtime_operations; /* not counted by the daemon */
	uint64_t executed; /* counted by the daemon */
	uint64_t errors;
	uint64_t n_rc_operations, n_to_rc, n_to_dc; /* hot peers */
	bool is_counted; /* on every NIC */
};

/* PEs run at the same time: counts add up, the phase lasts as long as its slowest PE. */
static void add_phase(struct demo_phase_result *sum, const struct demo_phase_result *one, unsigned int n)
{
	sum->operations += one->operations;
	sum->bytes_verified += one->bytes_verified;
	sum->errors += one->errors;
	sum->nsec = one->nsec > sum->nsec ? one->nsec : sum->nsec;
	sum->latency_nsec += one->latency_nsec / n;
	sum->bandwidth_bytes += one->bandwidth_bytes;
	if (one->bandwidth_nsec > sum->bandwidth_nsec)
		sum->bandwidth_nsec = one->bandwidth_nsec;
}

static unsigned int n_phases(const struct demo_shared *shared)
{
	return shared->has_runtime ? DEMO_N_PHASES : DEMO_RUNTIME_MAPPED;
}

static void count(const struct demo_shared *shared, struct totals *ret_totals)
{
	unsigned int i, p;

	memset(ret_totals, 0, sizeof(*ret_totals));
	ret_totals->is_counted = true;
	for (i = 0; i < shared->n_pes; i++) {
		const struct demo_pe_info *pe = &shared->pes[i];

		for (p = 0; p < DEMO_N_PHASES; p++) {
			add_phase(&ret_totals->phases[p], &pe->phases[p], shared->n_pes);
			if (p >= DEMO_RUNTIME_MAPPED)
				ret_totals->runtime_operations += pe->phases[p].operations;
			else
				ret_totals->posted += pe->phases[p].operations;
			ret_totals->errors += pe->phases[p].errors;
		}
		ret_totals->executed += pe->n_operations;
		ret_totals->n_rc_operations += pe->n_rc_operations;
		ret_totals->n_to_rc += pe->n_to_rc;
		ret_totals->n_to_dc += pe->n_to_dc;
		ret_totals->is_counted &= !pe->is_uncounted;
		ret_totals->errors += pe->error[0] != 0;
	}
	if (shared->has_runtime && !ret_totals->runtime_operations)
		ret_totals->errors++;
	if (ret_totals->is_counted && ret_totals->posted != ret_totals->executed)
		ret_totals->errors++;
	/* The demo's pattern has hot pairs. */
	if (shared->n_hot && !ret_totals->n_rc_operations)
		ret_totals->errors++;
	/* Every posted operation has been waited for and its bytes looked at. */
	if (!ret_totals->is_counted && ret_totals->errors == 0)
		ret_totals->executed = ret_totals->posted;
}

static double per_second(uint64_t n, uint64_t nsec)
{
	return nsec ? (double)n * 1e9 / (double)nsec : 0;
}

static void print_table(const struct demo_shared *shared, const struct totals *totals)
{
	unsigned int p;

	printf("%-22s %10s %14s %12s %12s %12s\n", "", "operations", "bytes verified", "latency us", "ops/s",
	       "MB/s");
	for (p = 0; p < n_phases(shared); p++) {
		const struct demo_phase_result *r = &totals->phases[p];

		printf("%-22s %10" PRIu64 " %14" PRIu64 " %12.2f %12.0f", demo_phase_names[p],
		       r->operations, r->bytes_verified, (double)r->latency_nsec / 1e3,
		       per_second(r->operations, r->nsec));
		if (r->bandwidth_nsec)
			printf(" %12.1f\n", per_second(r->bandwidth_bytes, r->bandwidth_nsec) / 1e6);
		else
			printf(" %12s\n", "-");
	}
}

/* Prints what the demo left out, so that its result claims no more. */
static void print_lacks(uint32_t lacks, FILE *to)
{
	if (lacks & SHMD_ATOMIC_8) {
		fprintf(to, "left out: atomics and signals, which these NICs lack\n");
		return;
	}
	if (lacks & SHMD_ATOMIC_MASKED_4)
		fprintf(to, "left out: adds of 4 bytes, masked atomics that these NICs lack\n");
	if (lacks & SHMD_ATOMIC_MASKED_8)
		fprintf(to, "left out: signals that set, masked atomics that these NICs lack; they add\n");
}

static void print_errors(const struct demo_shared *shared, FILE *to)
{
	unsigned int i;

	for (i = 0; i < shared->n_pes; i++) {
		if (shared->pes[i].error[0])
			fprintf(to, "PE %u: %s\n", i, shared->pes[i].error);
	}
}

static void report_text(const struct demo_shared *shared, const struct totals *totals)
{
	unsigned int i;

	for (i = 0; i < shared->n_pes; i++) {
		if (shared->pes[i].session)
			printf("PE %u: session %" PRIu64 " on %s\n", i, shared->pes[i].session, shared->pes[i].nic);
		else
			printf("PE %u: no session\n", i);
	}
	printf("\n");
	print_table(shared, totals);
	printf("\n");
	print_lacks(shared->lacks, stdout);
	print_errors(shared, stdout);
	if (totals->is_counted)
		printf("posted by the PEs: %" PRIu64 " operations; executed by the NICs for these sessions, as shmemd "
		       "counted them: %" PRIu64 "\n",
		       totals->posted, totals->executed);
	else
		printf("posted by the PEs: %" PRIu64 " operations; these NICs do not count what they execute\n",
		       totals->posted);
	if (shared->n_hot)
		printf("hot peers: %" PRIu64 " ways went to RC, %" PRIu64 " back to DC; %" PRIu64 " of %" PRIu64
		       " operations by RC\n",
		       totals->n_to_rc, totals->n_to_dc, totals->n_rc_operations, totals->posted);
	printf("demo: %u PEs, %" PRIu64 " operations verified, %" PRIu64 " error%s\n", shared->n_pes,
	       totals->executed + totals->runtime_operations, totals->errors, totals->errors == 1 ? "" : "s");
}

static void report_json(const struct demo_shared *shared, const struct totals *totals)
{
	unsigned int p;

	printf("{\"schema_version\": 1, \"pes\": %u, \"operations\": %" PRIu64 ", \"posted\": %" PRIu64
	       ", \"errors\": %" PRIu64 ", \"ways_to_rc\": %" PRIu64 ", \"ways_to_dc\": %" PRIu64
	       ", \"rc_operations\": %" PRIu64 ", \"runtime_operations\": %" PRIu64 ", \"phases\": [",
	       shared->n_pes, totals->executed, totals->posted, totals->errors, totals->n_to_rc, totals->n_to_dc,
	       totals->n_rc_operations, totals->runtime_operations);
	for (p = 0; p < n_phases(shared); p++) {
		const struct demo_phase_result *r = &totals->phases[p];

		printf("%s{\"name\": \"%s\", \"operations\": %" PRIu64 ", \"bytes_verified\": %" PRIu64
		       ", \"errors\": %" PRIu64 ", \"nsec\": %" PRIu64 ", \"latency_nsec\": %" PRIu64
		       ", \"bandwidth_bytes_per_second\": %.0f}",
		       p ? ", " : "", demo_phase_names[p], r->operations, r->bytes_verified, r->errors,
		       r->nsec, r->latency_nsec, per_second(r->bandwidth_bytes, r->bandwidth_nsec));
	}
	printf("]}\n");
	print_lacks(shared->lacks, stderr);
	print_errors(shared, stderr);
}

bool demo_report(const struct demo_shared *shared, bool json)
{
	struct totals totals;

	count(shared, &totals);
	if (json)
		report_json(shared, &totals);
	else
		report_text(shared, &totals);
	fflush(stdout);
	return totals.errors == 0 && totals.executed > 0;
}
