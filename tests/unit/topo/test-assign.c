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

/* The rank of the GPU that a NIC is nearest to, among those that have none nearer. */
static unsigned int nearest_gpu(const struct topo *topo, const unsigned int *best, unsigned int nic)
{
	unsigned int rank = UINT32_MAX;

	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		if (rank_of(topo, gpu, nic) == best[gpu] && best[gpu] < rank)
			rank = best[gpu];
	return rank;
}

static bool is_with_others(const struct topo *topo, const struct topo_map *map, unsigned int nic)
{
	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		for (unsigned int i = 0; i < map->gpus[gpu].n_nics; i++)
			if (map->gpus[gpu].nics[i] == nic)
				return map->gpus[gpu].n_nics > 1;
	return false;
}

/*
 * A GPU with several NICs can miss any one: no other GPU is nearer to one of them, and none would leave its own to a nearer one if it
 * took one of them instead. How many chances there were.
 */
static unsigned int judge_nearness(const struct topo *topo, const struct topo_map *map)
{
	unsigned int best[TOPO_MAX_GPUS], n = 0;

	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		best[gpu] = best_rank(topo, map, gpu);
	for (unsigned int nic = 0; nic < topo->n_nics; nic++) {
		for (unsigned int gpu = 0; gpu < topo->n_gpus && is_with_others(topo, map, nic); gpu++) {
			unsigned int own = map->gpus[gpu].nics[0];

			if (rank_of(topo, gpu, nic) != best[gpu])
				continue;
			ASSERT_LE(nearest_gpu(topo, best, nic), nearest_gpu(topo, best, own));
			n += nearest_gpu(topo, best, nic) < best[gpu];
		}
	}
	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		for (unsigned int i = 0; i < map->gpus[gpu].n_nics && map->gpus[gpu].n_nics > 1; i++)
			ASSERT_EQ(nearest_gpu(topo, best, map->gpus[gpu].nics[i]), best[gpu]);
	return n;
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

/* Another GPU that is nearer to it would have it for nothing. */
TEST(no_gpu_has_a_nic_that_a_nearer_one_could_have)
{
	unsigned int n = 0;

	for (unsigned int seed = 1; seed <= MACHINES; seed++) {
		size_t n_bytes;
		char *text = machine_make(seed, &n_bytes);
		struct topo *topo = parse(text);
		struct topo_map *map = map_of(topo, NULL);

		n += judge_nearness(topo, map);
		free(map);
		topo_free(topo);
		free(text);
	}
	ASSERT_GT(n, 50);
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

#define GPU(bus) "<function pci=\"" #bus ":00.0\" class=\"0302\"/>"
#define NIC(bus) "<function pci=\"" #bus ":00.0\" class=\"0207\"/>"
#define BRIDGE(inside) "<bridge hops=\"1\">" inside "</bridge>"

/* NICs of the GPU by their buses, "11 12 ". */
static void assert_nics(const struct topo *topo, const struct topo_map *map, unsigned int gpu, const char *buses)
{
	char text[200] = "";

	for (unsigned int i = 0; i < map->gpus[gpu].n_nics; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%02x ",
			 (unsigned int)(nic_pci(topo, map->gpus[gpu].nics[i]) >> 8));
	ASSERT_STREQ(text, buses);
}

static void judge_two(const char *inside, const char *first, const char *second)
{
	struct topo_map *map;
	struct topo *topo;
	char text[900];

	snprintf(text, sizeof(text), "<shmemd-topology version=\"1\"><host>%s</host></shmemd-topology>", inside);
	topo = parse(text);
	map = map_of(topo, NULL);
	assert_nics(topo, map, 0, first);
	assert_nics(topo, map, 1, second);
	free(map);
	topo_free(topo);
}

TEST(nics_below_a_gpus_own_switch_are_for_it)
{
	judge_two(BRIDGE(BRIDGE(GPU(10) NIC(11) NIC(12)) GPU(20) NIC(21)), "11 12 ", "21 ");
	judge_two(BRIDGE(GPU(10) NIC(11) BRIDGE(GPU(20) NIC(21) NIC(22))), "11 ", "21 22 ");
	judge_two(BRIDGE(GPU(10) NIC(31) BRIDGE(GPU(20) NIC(21) NIC(22))), "31 ", "21 22 ");
	/* If the other has no other one it gets one of them all the same. */
	judge_two(BRIDGE(BRIDGE(GPU(10) NIC(11) NIC(12)) GPU(20)), "11 ", "12 ");
}

/* Half the rate is a peer where there are fewer fast ones than GPUs, less is not; an unknown rate says nothing. */
TEST(a_slow_nic_is_excluded_if_rates_are_known)
{
	struct topo *topo = parse("<shmemd-topology version=\"1\"><host><function pci=\"01:00.0\" class=\"0302\"/>"
				  "<function pci=\"02:00.0\" class=\"0302\"/>"
				  "<function pci=\"03:00.0\" class=\"0207\"><nic port=\"1\" rate_mbps=\"400000\"/></function>"
				  "<function pci=\"04:00.0\" class=\"0207\"><nic port=\"1\" rate_mbps=\"200000\"/></function>"
				  "<function pci=\"05:00.0\" class=\"0207\"><nic port=\"1\" rate_mbps=\"25000\"/></function>"
				  "<function pci=\"06:00.0\" class=\"0207\"><nic port=\"1\"/></function></host></shmemd-topology>");
	struct topo_map *map = map_of(topo, NULL);

	ASSERT_EQ(map->excluded[0], TOPO_USED);
	ASSERT_EQ(map->excluded[1], TOPO_USED);
	ASSERT_EQ(map->excluded[2], TOPO_SLOW);
	ASSERT_EQ(map->excluded[3], TOPO_USED);
	ASSERT_EQ(map->gpus[0].n_nics + map->gpus[1].n_nics, 3);
	free(map);
	topo_free(topo);
}

/* ---- rates --------------------------------------------------------------------------------------------------------- */

struct rates {
	unsigned int n;
	unsigned int gbps;
	bool is_slow;
};

/* A GPU and NICs in the order of the rows, which are so many of a rate each. */
static struct topo *make_rates(const struct rates *rows, unsigned int n_rows)
{
	unsigned int bus = 2;
	struct topo *topo;
	char *text = NULL;
	size_t n_bytes;
	FILE *out = open_memstream(&text, &n_bytes);

	ASSERT(out);
	fprintf(out, "<shmemd-topology version=\"1\"><host><function pci=\"01:00.0\" class=\"0302\"/>");
	for (unsigned int row = 0; row < n_rows; row++)
		for (unsigned int i = 0; i < rows[row].n; i++)
			fprintf(out, "<function pci=\"%02x:00.0\" class=\"0207\"><nic port=\"1\" rate_mbps=\"%u\"/></function>", bus++,
				rows[row].gbps * 1000);
	fprintf(out, "</host></shmemd-topology>");
	fclose(out);
	topo = parse(text);
	free(text);
	return topo;
}

#define ASSERT_RATES(...) \
	do { \
		const struct rates rows_[] = {__VA_ARGS__}; \
\
		judge_rows(rows_, sizeof(rows_) / sizeof(rows_[0])); \
	} while (0)

static void judge_rows(const struct rates *rows, unsigned int n_rows)
{
	struct topo *topo = make_rates(rows, n_rows);
	struct topo_map *map = map_of(topo, NULL);
	unsigned int nic = 0, n_used = 0;

	for (unsigned int row = 0; row < n_rows; row++) {
		for (unsigned int i = 0; i < rows[row].n; i++)
			ASSERT_EQ(map->excluded[nic++], rows[row].is_slow ? TOPO_SLOW : TOPO_USED);
		n_used += rows[row].is_slow ? 0 : rows[row].n;
	}
	ASSERT_EQ(nic, topo->n_nics);
	ASSERT_EQ(map->gpus[0].n_nics, n_used);
	free(map);
	topo_free(topo);
}

TEST(rate_of_most_nics_of_a_node_is_not_slow)
{
	ASSERT_RATES({1, 25, true}, {1, 400, false});
	ASSERT_RATES({2, 25, true}, {8, 400, false});
	ASSERT_RATES({8, 100, false}, {1, 400, false});
	ASSERT_RATES({8, 100, false}, {1, 400, false}, {2, 25, true});
	ASSERT_RATES({4, 100, false}, {1, 400, false}); /* as much is not more */
	ASSERT_RATES({3, 100, true}, {1, 400, false});
	ASSERT_RATES({8, 100, false}, {1, 400, false}, {5, 0, false});
	ASSERT_RATES({5, 0, false});
}

#define GPU_AT(bus) "<function pci=\"" #bus ":00.0\" class=\"0302\"/>"
#define NIC_AT(bus, rate) "<function pci=\"" #bus ":00.0\" class=\"0207\"><nic name=\"n" #bus "\" port=\"1\" rate_mbps=\"" #rate "\"/></function>"

static struct topo *parse_host(const char *inside)
{
	char text[3000];

	ASSERT_LT(snprintf(text, sizeof(text), "<shmemd-topology version=\"1\" numa_nodes=\"2\">%s</shmemd-topology>", inside),
		  (int)sizeof(text));
	return parse(text);
}

static enum topo_exclusion excluded_in(const char *inside, unsigned int nic)
{
	struct topo *topo = parse_host(inside);
	struct topo_map *map = map_of(topo, NULL);
	enum topo_exclusion is = map->excluded[nic];

	free(map);
	topo_free(topo);
	return is;
}

/* A storage NIC of 200 Gb/s beside the 400 of the GPUs, wherever it hangs. */
TEST(half_the_rate_is_slow_if_faster_nics_are_enough_for_all_gpus)
{
	ASSERT_EQ(excluded_in("<host>" BRIDGE(GPU_AT(10) NIC_AT(11, 400000)) BRIDGE(GPU_AT(20) NIC_AT(21, 400000)) NIC_AT(30, 200000)
			      "</host>", 2), TOPO_SLOW);
	ASSERT_EQ(excluded_in("<host>" BRIDGE(GPU_AT(10) NIC_AT(11, 400000)) BRIDGE(GPU_AT(20) NIC_AT(21, 400000) NIC_AT(22, 200000))
			      "</host>", 2), TOPO_SLOW);
	/* One fast NIC is not enough for two GPUs. */
	ASSERT_EQ(excluded_in("<host>" BRIDGE(GPU_AT(10) GPU_AT(20) NIC_AT(21, 400000) NIC_AT(22, 200000)) "</host>", 1), TOPO_USED);
	/* The second GPU would have to take a farther one: a port that trained to half its rate stays with its GPU. */
	ASSERT_EQ(excluded_in("<host>" BRIDGE(GPU_AT(10) NIC_AT(11, 400000) NIC_AT(12, 400000)) BRIDGE(GPU_AT(20) NIC_AT(21, 200000))
			      "</host>", 2), TOPO_USED);
	/* The slower ones are half of what there is. */
	ASSERT_EQ(excluded_in("<host>" BRIDGE(GPU_AT(10) NIC_AT(11, 400000) NIC_AT(12, 200000) NIC_AT(13, 200000)) "</host>", 1), TOPO_USED);
	/* It is of the same generation. */
	ASSERT_EQ(excluded_in("<host>" BRIDGE(GPU_AT(10) NIC_AT(11, 400000)) BRIDGE(GPU_AT(20) NIC_AT(21, 400000) NIC_AT(22, 201000))
			      "</host>", 2), TOPO_USED);
	/* No GPU says what the node needs. */
	ASSERT_EQ(excluded_in("<host>" NIC_AT(11, 400000) NIC_AT(12, 200000) "</host>", 1), TOPO_USED);
}

TEST(gpus_share_nics_in_proportion_to_their_rates)
{
	struct topo *topo = parse_host("<host>" BRIDGE(GPU_AT(01) GPU_AT(02) GPU_AT(03) GPU_AT(04) GPU_AT(05) NIC_AT(11, 100000)
						       NIC_AT(12, 200000)) "</host>");
	struct topo_map *map = map_of(topo, NULL);
	char why[TOPO_WHY_BYTES];

	ASSERT_EQ(map->n_gpus[0], 2);
	ASSERT_EQ(map->n_gpus[1], 3);
	ASSERT_STREQ(topo_reason(topo, map, 0, 0, why),
		     "PIX: one of the 2 nearest NICs, shared by 2 GPUs since 5 GPUs have 2 NICs among them");
	free(map);
	topo_free(topo);
}

/* The fourth NIC goes to a GPU with a slower NIC, not to the first GPU. */
TEST(a_nic_that_is_left_goes_to_the_gpu_with_the_least_rate)
{
	struct topo *topo = parse_host("<host>" BRIDGE(GPU_AT(01) GPU_AT(02) GPU_AT(03) NIC_AT(11, 400000) NIC_AT(12, 200000) NIC_AT(13, 200000)
						       NIC_AT(14, 200000)) "</host>");
	struct topo_map *map = map_of(topo, NULL);

	assert_nics(topo, map, 0, "11 ");
	assert_nics(topo, map, 1, "12 14 ");
	assert_nics(topo, map, 2, "13 ");
	free(map);
	topo_free(topo);
}

/* The least of the parts of GPUs, in Mb/s of their default NICs. */
static uint64_t least_part(const struct topo *topo, const unsigned int *chosen)
{
	unsigned int n_gpus[TOPO_MAX_NICS] = {0};
	uint64_t least = UINT64_MAX;

	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		n_gpus[chosen[gpu]]++;
	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		if (topo->nics[chosen[gpu]].seen.rate_mbps / n_gpus[chosen[gpu]] < least)
			least = topo->nics[chosen[gpu]].seen.rate_mbps / n_gpus[chosen[gpu]];
	return least;
}

/* Tries all ways to give each GPU one of its nearest. `chosen` is decided for GPUs before `gpu`. */
static uint64_t best_least_part(const struct topo *topo, const struct topo_map *map, unsigned int gpu, unsigned int *chosen)
{
	uint64_t best = 0;

	if (gpu == topo->n_gpus)
		return least_part(topo, chosen);
	for (unsigned int nic = 0; nic < topo->n_nics; nic++) {
		uint64_t part;

		if (map->excluded[nic] != TOPO_USED || rank_of(topo, gpu, nic) != best_rank(topo, map, gpu))
			continue;
		chosen[gpu] = nic;
		part = best_least_part(topo, map, gpu + 1, chosen);
		best = part > best ? part : best;
	}
	return best;
}

/* A few GPUs and NICs below each of some switches, and a NIC that is as far from all. */
static struct topo *make_crowd(unsigned int seed)
{
	static const unsigned int rates[] = {100000, 200000, 200000, 400000};
	unsigned int n_groups = 1 + capture_random(&seed, 3), bus = 1;
	char text[3000] = "<host>";

	for (unsigned int i = 0; i < n_groups; i++) {
		unsigned int n_gpus = 1 + capture_random(&seed, 3), n_nics = capture_random(&seed, 3);

		strcat(text, "<bridge hops=\"1\">");
		while (n_gpus-- > 0)
			sprintf(text + strlen(text), "<function pci=\"%02x:00.0\" class=\"0302\"/>", bus++);
		while (n_nics-- > 0)
			sprintf(text + strlen(text), "<function pci=\"%02x:00.0\" class=\"0207\"><nic port=\"1\" rate_mbps=\"%u\"/></function>",
				bus++, rates[capture_random(&seed, 4)]);
		strcat(text, "</bridge>");
	}
	strcat(text, NIC_AT(f0, 200000) "</host>");
	return parse_host(text);
}

/* Beyond twice a rate a NIC is better idle than even: see the first of the tests. */
static bool rates_are_near(const struct topo *topo, const struct topo_map *map)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (unsigned int i = 0; i < topo->n_nics; i++) {
		uint64_t rate = topo->nics[i].seen.rate_mbps;

		if (map->excluded[i] != TOPO_USED)
			continue;
		least = rate < least ? rate : least;
		most = rate > most ? rate : most;
	}
	return most <= 2 * least;
}

/* Against all possible assignments. */
TEST(the_gpu_with_the_least_has_as_much_as_it_can)
{
	unsigned int n = 0, n_shared = 0;

	for (unsigned int seed = 1; seed <= 600; seed++) {
		struct topo *topo = make_crowd(seed);
		struct topo_map *map = map_of(topo, NULL);
		unsigned int chosen[TOPO_MAX_GPUS];

		for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++) {
			chosen[gpu] = map->gpus[gpu].nics[0];
			n_shared += map->n_gpus[chosen[gpu]] > 1;
		}
		if (rates_are_near(topo, map)) {
			uint64_t part = least_part(topo, chosen);

			ASSERT_EQ(part, best_least_part(topo, map, 0, chosen));
			n++;
		}
		free(map);
		topo_free(topo);
	}
	ASSERT_GT(n, 200);
	ASSERT_GT(n_shared, 200);
}

TEST(a_slow_nic_names_one_that_it_is_slow_beside)
{
	const struct rates rows[] = {{1, 400, false}, {1, 25, true}, {8, 100, false}};
	struct topo *topo = make_rates(rows, 3);
	struct topo_map *map = map_of(topo, NULL);
	char why[TOPO_WHY_BYTES];

	ASSERT_EQ(map->excluded[1], TOPO_SLOW);
	ASSERT_STREQ(topo_reason_excluded(topo, map, 1, why), "it is slow: 25 Gb/s beside the 100 Gb/s of 0000:04:00.0");
	free(map);
	topo_free(topo);
}

static uint64_t rate_sum(const struct topo *topo, const struct topo_map *map, enum topo_exclusion exclusion)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < topo->n_nics; i++)
		sum += map->excluded[i] == exclusion ? topo->nics[i].seen.rate_mbps : 0;
	return sum;
}

/* Each GPU has a faster NIC that is as near, and there are as many as GPUs. */
static void judge_missed(const struct topo *topo, const struct topo_map *map, unsigned int nic)
{
	unsigned int n_faster = 0;

	for (unsigned int i = 0; i < topo->n_nics; i++)
		n_faster += map->excluded[i] == TOPO_USED && topo->nics[i].seen.rate_mbps > topo->nics[nic].seen.rate_mbps;
	ASSERT_GE(n_faster, topo->n_gpus);
	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		ASSERT_LE(best_rank(topo, map, gpu), rank_of(topo, gpu, nic));
}

static void judge_slow(const struct topo *topo, const struct topo_map *map, unsigned int nic)
{
	unsigned int other = map->other[nic];
	char why[TOPO_WHY_BYTES];

	ASSERT_EQ(map->excluded[other], TOPO_USED);
	/* More than half never is, and half only where no GPU misses it. */
	ASSERT_LE(2 * topo->nics[nic].seen.rate_mbps, topo->nics[other].seen.rate_mbps);
	if (2 * topo->nics[nic].seen.rate_mbps == topo->nics[other].seen.rate_mbps)
		judge_missed(topo, map, nic);
	ASSERT(strstr(topo_reason_excluded(topo, map, nic, why), "it is slow: "));
	/* One rate decides for all: as slow or slower is out, too. */
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (topo->nics[i].seen.rate_mbps && topo->nics[i].seen.rate_mbps <= topo->nics[nic].seen.rate_mbps)
			ASSERT_NE(map->excluded[i], TOPO_USED);
}

/* Rates at random on machines at random: no node loses half of what it could carry, and what is slow is so beside one that is used. */
TEST(rates_never_take_most_of_a_node_away)
{
	static const uint64_t rates[] = {0, 10000, 25000, 50000, 100000, 100000, 200000, 400000, 800000};
	unsigned int n_slow = 0, n_kept = 0;

	for (unsigned int seed = 1; seed <= MACHINES; seed++) {
		unsigned int random = seed, n_of_machine = 0;
		uint64_t fastest = 0;
		size_t n_bytes;
		char *text = machine_make(seed, &n_bytes);
		struct topo *topo = parse(text);
		struct topo_map *map;

		for (unsigned int i = 0; i < topo->n_nics; i++)
			topo->nics[i].seen.rate_mbps = rates[capture_random(&random, sizeof(rates) / sizeof(rates[0]))];
		map = map_of(topo, NULL);
		for (unsigned int i = 0; i < topo->n_nics; i++) {
			if (map->excluded[i] == TOPO_SLOW) {
				judge_slow(topo, map, i);
				n_of_machine++;
			}
			if (map->excluded[i] == TOPO_USED && topo->nics[i].seen.rate_mbps > fastest)
				fastest = topo->nics[i].seen.rate_mbps;
		}
		if (n_of_machine)
			ASSERT_GT(rate_sum(topo, map, TOPO_USED), rate_sum(topo, map, TOPO_SLOW));
		for (unsigned int i = 0; i < topo->n_nics; i++)
			n_kept += map->excluded[i] == TOPO_USED && topo->nics[i].seen.rate_mbps && 2 * topo->nics[i].seen.rate_mbps < fastest;
		n_slow += n_of_machine;
		free(map);
		topo_free(topo);
		free(text);
	}
	/* The machines are such that both ends of the rule matter. */
	ASSERT_GT(n_slow, 300);
	ASSERT_GT(n_kept, 20);
}

/* ---- functions and bonds ------------------------------------------------------------------------------------------- */

TEST(a_vf_says_what_its_pf_is)
{
	static const char *const pfs[][2] = {{"rate_mbps=\"25000\"", "it is a virtual function of n20, which is slow beside others"},
					     {"rate_mbps=\"400000\"", "it is a virtual function of n20, which is in use"},
					     {"rate_mbps=\"400000\" bond=\"b\"",
					      "it is a virtual function of n20, which is a further port of a bond"}};

	for (unsigned int i = 0; i < sizeof(pfs) / sizeof(pfs[0]); i++) {
		char text[900], why[TOPO_WHY_BYTES];
		struct topo_map *map;
		struct topo *topo;

		snprintf(text, sizeof(text), "<shmemd-topology version=\"1\"><host><function pci=\"10:00.0\" class=\"0302\"/>"
			 "<function pci=\"11:00.0\"><nic name=\"n11\" port=\"1\" rate_mbps=\"400000\" bond=\"b\"/></function>"
			 "<function pci=\"20:00.0\"><nic name=\"n20\" port=\"1\" %s/></function>"
			 "<function pci=\"20:00.2\"><nic name=\"vf\" port=\"1\" pf=\"0000:20:00.0\" rate_mbps=\"25000\"/></function>"
			 "</host></shmemd-topology>", pfs[i][0]);
		topo = parse(text);
		map = map_of(topo, NULL);
		ASSERT_EQ(map->excluded[2], TOPO_PF_TAKEN);
		ASSERT_STREQ(topo_reason_excluded(topo, map, 2, why), pfs[i][1]);
		free(map);
		topo_free(topo);
	}
}

static unsigned int count_bonded(const char *first, const char *second)
{
	struct topo_map *map;
	struct topo *topo;
	unsigned int n;
	char text[600];

	snprintf(text, sizeof(text), "<shmemd-topology version=\"1\"><host><function pci=\"10:00.0\" class=\"0302\"/>"
		 "<function pci=\"11:00.0\"><nic port=\"1\" bond=\"b\"%s/></function>"
		 "<function pci=\"12:00.0\"><nic port=\"1\" bond=\"b\"%s/></function></host></shmemd-topology>", first, second);
	topo = parse(text);
	map = map_of(topo, NULL);
	n = map->gpus[0].n_nics;
	free(map);
	topo_free(topo);
	return n;
}

/* It bonds IP over InfiniBand, and verbs are beside that. */
TEST(a_bond_of_infiniband_leaves_every_port_to_verbs)
{
	static const char infiniband[] = " fabric=\"infiniband\"", ethernet[] = " fabric=\"ethernet\"";

	ASSERT_EQ(count_bonded(infiniband, infiniband), 2);
	ASSERT_EQ(count_bonded(ethernet, ethernet), 1);
	ASSERT_EQ(count_bonded("", ""), 1);
	ASSERT_EQ(count_bonded(infiniband, ethernet), 2);
}
