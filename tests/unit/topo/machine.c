/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/topo/machine.h"

#include <stdbool.h>
#include <stdio.h>

#include "tests/lib/test.h"
#include "tests/unit/topo/capture.h"

struct maker {
	FILE *out;
	unsigned int seed;
	unsigned int n_gpus;
	unsigned int n_nics;
	unsigned int bus;
	unsigned int n_numa;
	bool is_flat; /* what hangs on this host bridge is on any NUMA node */
};

static unsigned int pick(struct maker *maker, unsigned int below)
{
	return capture_random(&maker->seed, below);
}

/* For devices directly below a host bridge; deeper ones are where their bridge is. */
static void put_numa(struct maker *maker, unsigned int depth)
{
	if (maker->is_flat && depth == 0)
		fprintf(maker->out, " numa=\"%u\"", pick(maker, maker->n_numa));
}

static void make_gpu(struct maker *maker, unsigned int depth)
{
	if (maker->n_gpus++ >= 16)
		return;
	fprintf(maker->out, "<function pci=\"0:%02x:00.0\" class=\"0302\" vendor=\"10de\"", maker->bus++);
	put_numa(maker, depth);
	fprintf(maker->out, "/>");
}

static void make_nic(struct maker *maker, unsigned int depth)
{
	static const char *const unusable[] = {"state=\"down\"", "role=\"management\"", "role=\"bridge\"", "no_driver=\"1\""};
	const char *extra = pick(maker, 8) ? "state=\"active\"" : unusable[pick(maker, 4)];

	if (maker->n_nics++ >= 40)
		return;
	fprintf(maker->out, "<function pci=\"0:%02x:00.0\" class=\"0207\"", maker->bus++);
	put_numa(maker, depth);
	fprintf(maker->out, "><nic name=\"n%u\" port=\"1\" %s/></function>", pick(maker, 10000), extra);
}

static void make_below(struct maker *maker, unsigned int depth)
{
	unsigned int n = 1 + pick(maker, 4);

	for (unsigned int i = 0; i < n && maker->bus < 0xe0; i++) {
		unsigned int what = pick(maker, 5);

		if (what < 2 && depth < 4) {
			fprintf(maker->out, "<bridge hops=\"1\" pci=\"1:%02x:00.0\"", maker->bus++);
			put_numa(maker, depth);
			fprintf(maker->out, ">");
			make_below(maker, depth + 1);
			fprintf(maker->out, "</bridge>");
		} else if (what < 3) {
			make_gpu(maker, depth);
		} else {
			make_nic(maker, depth);
		}
	}
}

char *machine_make(unsigned int seed, size_t *ret_bytes)
{
	struct maker maker = {.seed = seed, .bus = 1};
	unsigned int n_numa = 1 + pick(&maker, 3), n_hosts;
	char *text = NULL;

	maker.out = open_memstream(&text, ret_bytes);
	ASSERT(maker.out);
	n_hosts = 1 + pick(&maker, 6);
	maker.n_numa = n_numa;
	fprintf(maker.out, "<shmemd-topology version=\"1\" numa_nodes=\"%u\">", n_numa);
	for (unsigned int i = 0; i < n_hosts; i++) {
		fprintf(maker.out, "<host pci=\"2:%02x:00.0\" numa=\"%u\">", i, pick(&maker, n_numa));
		maker.is_flat = pick(&maker, 3) == 0;
		make_below(&maker, 0);
		fprintf(maker.out, "</host>");
	}
	fprintf(maker.out, "</shmemd-topology>");
	fclose(maker.out);
	return text;
}
