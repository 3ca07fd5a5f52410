/* SPDX-License-Identifier: Apache-2.0 */
/* Machines made at random, and what must hold for each. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/topo/capture.h"
#include "tests/unit/topo/machine.h"

static struct topo *parse(const char *text)
{
	char *copy = strdup(text), why[TOPO_WHY_BYTES];
	struct topo *topo = NULL;

	if (topo_parse(copy, strlen(copy), &topo, why) < 0)
		printf("%s\n", why);
	ASSERT(topo);
	free(copy);
	return topo;
}

static struct topo_map *map_of(const struct topo *topo, const struct topo_policy *policy)
{
	struct topo_map *map = calloc(1, sizeof(*map));

	ASSERT(map);
	topo_assign(topo, policy, map);
	return map;
}

static unsigned int rank_of(const struct topo *topo, unsigned int gpu, unsigned int nic)
{
	return topo_rank(topo, topo->gpus[gpu].node, topo->nics[nic].node);
}

/* ---- what must hold ------------------------------------------------------------------------------------------------ */

static unsigned int best_rank(const struct topo *topo, const struct topo_map *map, unsigned int gpu)
{
	unsigned int best = UINT32_MAX;

	for (unsigned int nic = 0; nic < topo->n_nics; nic++)
		if (map->excluded[nic] == TOPO_USED && rank_of(topo, gpu, nic) < best)
			best = rank_of(topo, gpu, nic);
	return best;
}

static void judge_gpu(const struct topo *topo, const struct topo_map *map, unsigned int gpu)
{
	const struct topo_gpu_map *got = &map->gpus[gpu];
	unsigned int best = best_rank(topo, map, gpu);

	ASSERT_EQ(got->n_nics > 0, best != UINT32_MAX);
	for (unsigned int i = 0; i < got->n_nics; i++) {
		ASSERT_EQ(map->excluded[got->nics[i]], TOPO_USED);
		ASSERT_EQ(rank_of(topo, gpu, got->nics[i]), best);
		/* With more than one it shares none. */
		if (got->n_nics > 1)
			ASSERT(i == 0 || map->n_gpus[got->nics[i]] == 1);
	}
	for (unsigned int nic = 0; nic < topo->n_nics && got->n_nics; nic++) {
		if (map->excluded[nic] != TOPO_USED || rank_of(topo, gpu, nic) != best)
			continue;
		/* As near: never idle, and never so much less loaded that a move would help. */
		ASSERT_GT(map->n_gpus[nic], 0);
		ASSERT_LE(map->n_gpus[got->nics[0]], map->n_gpus[nic] + 1);
	}
}

static void count_loads(const struct topo *topo, const struct topo_map *map)
{
	unsigned int n_gpus[TOPO_MAX_NICS] = {0};

	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		for (unsigned int i = 0; i < map->gpus[gpu].n_nics; i++)
			n_gpus[map->gpus[gpu].nics[i]]++;
	for (unsigned int nic = 0; nic < topo->n_nics; nic++)
		ASSERT_EQ(n_gpus[nic], map->n_gpus[nic]);
}

TEST(no_nic_serves_two_gpus_while_one_as_near_is_idle)
{
	unsigned int n_shared = 0, n_several = 0;

	for (unsigned int seed = 1; seed <= MACHINES; seed++) {
		size_t n_bytes;
		char *text = machine_make(seed, &n_bytes);
		struct topo *topo = parse(text);
		struct topo_map *map = map_of(topo, NULL);

		for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++) {
			judge_gpu(topo, map, gpu);
			n_several += map->gpus[gpu].n_nics > 1;
		}
		for (unsigned int nic = 0; nic < topo->n_nics; nic++)
			n_shared += map->n_gpus[nic] > 1;
		count_loads(topo, map);
		free(map);
		topo_free(topo);
		free(text);
	}
	/* The machines are such that the rules matter. */
	ASSERT_GT(n_shared, 50);
	ASSERT_GT(n_several, 50);
}

static uint64_t nic_pci(const struct topo *topo, unsigned int nic)
{
	return topo->nodes[topo->nics[nic].node].pci;
}

/* By addresses, since indexes move. */
static void assert_same_assignment(const struct topo *a, const struct topo *b)
{
	struct topo_map *map_a = map_of(a, NULL), *map_b = map_of(b, NULL);

	ASSERT_EQ(a->n_gpus, b->n_gpus);
	for (unsigned int gpu = 0; gpu < a->n_gpus; gpu++) {
		ASSERT_EQ(map_a->gpus[gpu].n_nics, map_b->gpus[gpu].n_nics);
		for (unsigned int i = 0; i < map_a->gpus[gpu].n_nics; i++)
			ASSERT_EQ(nic_pci(a, map_a->gpus[gpu].nics[i]), nic_pci(b, map_b->gpus[gpu].nics[i]));
	}
	free(map_a);
	free(map_b);
}

/* Copies the text and puts functions that cannot be used behind some of the opening tags of bridges. */
static char *with_useless(const char *text, unsigned int seed, unsigned int *ret_n)
{
	static const char *const useless[] = {"state=\"down\"", "role=\"management\"", "role=\"storage\"", "role=\"bridge\"",
					      "state=\"active\" rate_mbps=\"1\" role=\"bridge\""};
	char *copy = NULL;
	size_t n_bytes;
	FILE *out = open_memstream(&copy, &n_bytes);

	*ret_n = 0;
	for (const char *at = text; *at; at++) {
		fputc(*at, out);
		if (*at != '>' || at[1] != '<' || at[2] != 'f' || *ret_n == 30 || capture_random(&seed, 2))
			continue;
		fprintf(out, "<function pci=\"%u:%02x:00.%u\" class=\"0207\"><nic name=\"a%u\" port=\"1\" %s/></function>",
			capture_random(&seed, 2) ? 0 : 3, 0xe0 + *ret_n, 1 + capture_random(&seed, 7), *ret_n,
			useless[capture_random(&seed, 5)]);
		(*ret_n)++;
	}
	fclose(out);
	return copy;
}

TEST(a_function_that_cannot_be_used_changes_nothing)
{
	unsigned int n_added = 0;

	for (unsigned int seed = 1; seed <= MACHINES; seed++) {
		unsigned int n;
		size_t n_bytes;
		char *text = machine_make(seed, &n_bytes), *more = with_useless(text, seed, &n);
		struct topo *topo = parse(text), *larger = parse(more);

		ASSERT_EQ(larger->n_nics, topo->n_nics + n);
		assert_same_assignment(topo, larger);
		n_added += n;
		topo_free(topo);
		topo_free(larger);
		free(text);
		free(more);
	}
	ASSERT_GT(n_added, 300);
}

TEST(names_and_the_order_of_siblings_change_nothing)
{
	for (unsigned int seed = 1; seed <= MACHINES; seed++) {
		unsigned int random = seed;
		size_t n_bytes;
		char *text = machine_make(seed, &n_bytes);
		struct topo *topo = parse(text), *changed;
		struct element *element = capture_parse(text, n_bytes);

		capture_shuffle_children(element, &random);
		capture_rename(element, &random);
		changed = capture_topo(element);
		assert_same_assignment(topo, changed);
		capture_free(element);
		topo_free(changed);
		topo_free(topo);
		free(text);
	}
}

/* ---- shapes -------------------------------------------------------------------------------------------------------- */

/* Pairs of GPUs and NICs below switches of their own; NIC numbers run against those of the GPUs. */
static char *make_groups(unsigned int n_groups, unsigned int n_gpus, unsigned int n_nics)
{
	char *text = NULL;
	size_t n_bytes;
	FILE *out = open_memstream(&text, &n_bytes);

	ASSERT(out);
	fprintf(out, "<shmemd-topology version=\"1\" numa_nodes=\"2\">");
	for (unsigned int group = 0; group < n_groups; group++) {
		fprintf(out, "<host numa=\"%u\"><bridge hops=\"1\"><bridge hops=\"1\">", group % 2);
		for (unsigned int i = 0; i < n_gpus; i++)
			fprintf(out, "<bridge hops=\"1\"><function pci=\"%02x:00.0\" class=\"0302\"/></bridge>", 0x10 + group * n_gpus + i);
		for (unsigned int i = 0; i < n_nics; i++)
			fprintf(out, "<bridge hops=\"1\"><function pci=\"%02x:00.0\" class=\"0207\"/></bridge>", 0xf0 - group * n_nics - i);
		fprintf(out, "</bridge></bridge></host>");
	}
	fprintf(out, "</shmemd-topology>");
	fclose(out);
	return text;
}

static void judge_groups(unsigned int n_groups, unsigned int n_gpus, unsigned int n_nics)
{
	char *text = make_groups(n_groups, n_gpus, n_nics);
	struct topo *topo = parse(text);
	struct topo_map *map = map_of(topo, NULL);
	unsigned int most = n_gpus > n_nics ? (n_gpus + n_nics - 1) / n_nics : 1;

	ASSERT_EQ(topo->n_gpus, n_groups * n_gpus);
	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++) {
		ASSERT_EQ(map->gpus[gpu].n_nics, n_nics > n_gpus ? n_nics / n_gpus : 1);
		for (unsigned int i = 0; i < map->gpus[gpu].n_nics; i++)
			ASSERT_EQ(topo_distance(topo, topo->gpus[gpu].node, topo->nics[map->gpus[gpu].nics[i]].node), TOPO_PIX);
	}
	for (unsigned int nic = 0; nic < topo->n_nics; nic++) {
		ASSERT_GE(map->n_gpus[nic], 1);
		ASSERT_LE(map->n_gpus[nic], most);
	}
	free(map);
	topo_free(topo);
	free(text);
}

TEST(four_pairs_of_two_gpus_and_two_nics_use_eight_nics)
{
	judge_groups(4, 2, 2);
}

TEST(one_to_one_several_for_one_and_one_for_several)
{
	judge_groups(8, 1, 1);
	judge_groups(8, 1, 4);
	judge_groups(4, 2, 4);
	judge_groups(4, 2, 1);
	judge_groups(2, 4, 2);
	judge_groups(1, 8, 3);
}

/* Half the rate is a peer, less is not; an unknown rate says nothing. */
TEST(a_slow_nic_is_excluded_where_rates_are_known)
{
	struct topo *topo = parse("<shmemd-topology version=\"1\"><host><function pci=\"01:00.0\" class=\"0302\"/>"
				  "<function pci=\"03:00.0\" class=\"0207\"><nic port=\"1\" rate_mbps=\"400000\"/></function>"
				  "<function pci=\"04:00.0\" class=\"0207\"><nic port=\"1\" rate_mbps=\"200000\"/></function>"
				  "<function pci=\"05:00.0\" class=\"0207\"><nic port=\"1\" rate_mbps=\"25000\"/></function>"
				  "<function pci=\"06:00.0\" class=\"0207\"><nic port=\"1\"/></function></host></shmemd-topology>");
	struct topo_map *map = map_of(topo, NULL);

	ASSERT_EQ(map->excluded[0], TOPO_USED);
	ASSERT_EQ(map->excluded[1], TOPO_USED);
	ASSERT_EQ(map->excluded[2], TOPO_SLOW);
	ASSERT_EQ(map->excluded[3], TOPO_USED);
	ASSERT_EQ(map->gpus[0].n_nics, 3);
	free(map);
	topo_free(topo);
}
