/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on PEs by queues: a QP for each PE, a DCI for all, busy PEs with a QP of their own. mini-nic answers them. */
#include <stdlib.h>
#include <string.h>

#include "tests/dev/pe-program-lab.h"

#define N_PES 4u
#define LKEY 0x1000u /* + chunk */
#define BUFFER_KEY 0x2000u
#define BOUNCE_KEY 0x3000u
#define RKEY 0x4000u /* + 16 * PE + chunk */
#define BOUNCE_IOVA 0x900000000000ull
#define BOUNCE_BYTES 4096u
#define BUFFER_BYTES 100000u
#define N_LOCAL_SPACES 4u
#define N_SPACES (N_LOCAL_SPACES + 2 * N_PES)

enum kind { BY_RC, BY_DCI, BY_HOT, N_KINDS };

/* A world in which PE 0 reaches everybody, itself included, by queues. */
struct lab {
	struct pe_lab *pes;
	struct shmd_dev_ctx *ctx;
	struct mini_nic *rc[N_PES]; /* NULL where the DCI or nothing serves the PE */
	struct mini_nic *dci;
	struct mini_nic_space spaces[N_PES][N_SPACES]; /* of each RC QP */
	struct mini_nic_space dci_spaces[N_SPACES];
	struct shmd_dev_pe_way ways[N_PES], amo_ways[N_PES];
	shmd_be32 lkeys[SHMD_DEV_HEAPS * SHMD_DEV_HEAP_CHUNKS];
	shmd_be32 rkeys[SHMD_DEV_HEAPS * SHMD_DEV_HEAP_CHUNKS * N_PES];
	uint64_t qps[N_PES + 1];
	struct shmd_dev_state state; /* of the DCI, with a route for PE 2 */
	struct shmd_dev_route routes[N_PES];
	uint64_t hot_qps[1], states[1];
	struct {
		struct shmd_dev_buffers head;
		struct shmd_dev_buffer buffers[3];
	} table;
	uint8_t *buffer; /* registered */
	uint8_t *plain; /* not registered */
	uint8_t bounce[BOUNCE_BYTES] __attribute__((aligned(64)));
};

static struct mini_nic_space chunk_space(struct lab *lab, uint32_t key, uint32_t pe, uint32_t chunk)
{
	return (struct mini_nic_space){.key = key + chunk,
				       .iova = LAB_IOVA + chunk * LAB_CHUNK_BYTES,
				       .bytes = LAB_CHUNK_BYTES,
				       .memory = lab->pes->pes[pe].heap + chunk * LAB_CHUNK_BYTES};
}

static uint32_t fill_local_spaces(struct lab *lab, struct mini_nic_space *spaces)
{
	spaces[0] = chunk_space(lab, LKEY, 0, 0);
	spaces[1] = chunk_space(lab, LKEY, 0, 1);
	spaces[2] = (struct mini_nic_space){
		.key = BUFFER_KEY, .iova = (uintptr_t)lab->buffer, .bytes = BUFFER_BYTES, .memory = lab->buffer};
	spaces[3] = (struct mini_nic_space){.key = BOUNCE_KEY, .iova = BOUNCE_IOVA, .bytes = BOUNCE_BYTES, .memory = lab->bounce};
	return N_LOCAL_SPACES;
}

static void fill_keys(struct lab *lab)
{
	struct shmd_dev_world *world = &lab->pes->pes[0].world;

	for (uint32_t chunk = 0; chunk < 2; chunk++) {
		lab->lkeys[chunk] = __builtin_bswap32(LKEY + chunk);
		for (uint32_t pe = 0; pe < N_PES; pe++)
			lab->rkeys[chunk * N_PES + pe] = __builtin_bswap32(RKEY + 16 * pe + chunk);
	}
	/* Rails 2 and 1 are those in use, so that a wrong one finds no keys. */
	world->n_rails = SHMD_DEV_RAILS;
	world->lkeys_addr[2] = (uintptr_t)lab->lkeys;
	world->rkeys_addr[1] = (uintptr_t)lab->rkeys;
	lab->table.head.n = 3;
	for (uint32_t i = 0; i < 3; i++)
		lab->table.buffers[i] = (struct shmd_dev_buffer){.addr = i, .end_addr = i + 1};
	lab->table.buffers[1] = (struct shmd_dev_buffer){.addr = (uintptr_t)lab->buffer,
							 .end_addr = (uintptr_t)lab->buffer + BUFFER_BYTES};
	lab->table.buffers[1].lkey_be[2] = __builtin_bswap32(BUFFER_KEY);
	lab->table.buffers[2].addr = UINT64_MAX - 1;
	lab->table.buffers[2].end_addr = UINT64_MAX;
	world->buffers_addr = (uintptr_t)&lab->table;
	lab->ctx->bounce_addr = (uintptr_t)lab->bounce;
	lab->ctx->bounce_bytes = BOUNCE_BYTES;
	lab->ctx->bounce_iova = BOUNCE_IOVA;
	lab->ctx->bounce_lkey_be[2] = __builtin_bswap32(BOUNCE_KEY);
}

static void open_rc(struct lab *lab, uint32_t pe, struct mini_nic_attr attr)
{
	uint32_t n = fill_local_spaces(lab, lab->spaces[pe]);

	lab->spaces[pe][n++] = chunk_space(lab, RKEY + 16 * pe, pe, 0);
	lab->spaces[pe][n++] = chunk_space(lab, RKEY + 16 * pe, pe, 1);
	attr.spaces = lab->spaces[pe];
	attr.n_spaces = n;
	lab->rc[pe] = mini_nic_new(&attr);
}

static void open_dci(struct lab *lab, struct mini_nic_attr attr)
{
	uint32_t n = fill_local_spaces(lab, lab->dci_spaces);

	for (uint32_t i = 0; i < 2 * N_PES; i++, n++) {
		lab->dci_spaces[n] = chunk_space(lab, RKEY + 16 * (i / 2), i / 2, i % 2);
		lab->dci_spaces[n].peer = i / 2;
	}
	attr.spaces = lab->dci_spaces;
	attr.n_spaces = n;
	attr.n_peers = N_PES;
	lab->dci = mini_nic_new(&attr);
	lab->qps[lab->ctx->n_qps++] = (uintptr_t)&lab->dci->qp;
}

/* PE 2 is busy: it has a QP of its own, found by its index among the peers of the dev-state. */
static void open_hot(struct lab *lab, struct mini_nic_attr attr)
{
	open_rc(lab, 2, attr);
	lab->routes[2].qp_addr = lab->hot_qps[0] = (uintptr_t)&lab->rc[2]->qp;
	lab->state = (struct shmd_dev_state){.n_peers = N_PES,
					     .peers_addr = (uintptr_t)lab->dci->peers,
					     .routes_addr = (uintptr_t)lab->routes,
					     .hot_qps_addr = (uintptr_t)lab->hot_qps,
					     .n_hot_qps = 1};
	lab->states[0] = (uintptr_t)&lab->state;
	lab->ctx->n_states = 1;
	lab->ctx->states_addr = (uintptr_t)lab->states;
}

static void open_ways(struct lab *lab, enum kind kind, struct mini_nic_attr attr)
{
	if (kind != BY_RC)
		open_dci(lab, attr);
	if (kind == BY_HOT)
		open_hot(lab, attr);
	for (uint32_t pe = 0; pe < N_PES; pe++) {
		lab->ways[pe] = (struct shmd_dev_pe_way){.rail = 2, .peer_rail = 1, .peer_index = pe};
		if (kind == BY_RC) {
			open_rc(lab, pe, attr);
			lab->qps[lab->ctx->n_qps++] = lab->ways[pe].qp_addr = (uintptr_t)&lab->rc[pe]->qp;
			continue;
		}
		lab->ways[pe].qp_addr = (uintptr_t)&lab->dci->qp;
		lab->ways[pe].peer_addr = (uintptr_t)&lab->dci->peers[pe];
		if (kind == BY_HOT)
			lab->ways[pe].state_addr = (uintptr_t)&lab->state;
	}
	lab->ctx->ways_addr = (uintptr_t)lab->ways;
	lab->ctx->qps_addr = (uintptr_t)lab->qps;
}

static struct lab *lab_open(enum kind kind, uint32_t lacks)
{
	struct mini_nic_attr attr = {.sharing = SHMD_SHARING_GPU, .start_index = 65536 - 5, .lacks = lacks};
	struct lab *lab = aligned_alloc(64, (sizeof(*lab) + 63) / 64 * 64);

	ASSERT(lab);
	memset(lab, 0, sizeof(*lab));
	lab->pes = pe_lab_new(N_PES);
	lab->ctx = &lab->pes->pes[0].ctx;
	lab->buffer = calloc(1, BUFFER_BYTES);
	lab->plain = calloc(1, BUFFER_BYTES);
	ASSERT(lab->buffer && lab->plain);
	for (uint32_t pe = 0; pe < N_PES; pe++)
		lab->pes->pes[0].entries[pe].path[0] = SHMD_PATH_QUEUE;
	fill_keys(lab);
	open_ways(lab, kind, attr);
	return lab;
}

static void lab_close(struct lab *lab)
{
	for (uint32_t pe = 0; pe < N_PES; pe++)
		mini_nic_free(lab->rc[pe]);
	mini_nic_free(lab->dci);
	pe_lab_free(lab->pes);
	free(lab->buffer);
	free(lab->plain);
	free(lab);
}

/* Requests that all NICs of the lab have executed. */
static uint64_t n_wqes(struct lab *lab)
{
	uint64_t n = lab->dci ? mini_nic_get(&lab->dci->n_wqes) : 0;

	for (uint32_t pe = 0; pe < N_PES; pe++)
		n += lab->rc[pe] ? mini_nic_get(&lab->rc[pe]->n_wqes) : 0;
	return n;
}

/* ---- against a model ------------------------------------------------------------------------------------------------------------ */

/* On both sides of the boundary of the chunks. */
#define MODEL_BYTES 130000u

static uint8_t model[N_PES][MODEL_BYTES];

/* Local memory: in the heap (behind what is put to), registered, or neither. */
static uint8_t *choose_local(struct lab *lab, uint64_t *random)
{
	uint8_t *locals[] = {pe_lab_memory(lab->pes, 0) + MODEL_BYTES, lab->buffer, lab->plain};

	return locals[lab_random(random) % 3];
}

static void choose(uint64_t *random, uint64_t *ret_at, uint64_t *ret_bytes)
{
	static const uint32_t limits[] = {40, 3000, 70000};

	*ret_bytes = lab_random(random) % limits[lab_random(random) % 3];
	*ret_at = lab_random(random) % (MODEL_BYTES - *ret_bytes + 1);
}

static void move_one(struct lab *lab, uint64_t *random)
{
	uint32_t pe = (uint32_t)(lab_random(random) % N_PES);
	uint8_t *memory = pe_lab_memory(lab->pes, 0), *local = choose_local(lab, random);
	uint64_t at, bytes, value = lab_random(random), found = 0, want = 0, waits = value % 2;
	uint32_t word = 1u << value % 4;

	choose(random, &at, &bytes);
	fill(local, bytes, (unsigned int)value);
	memcpy(&model[pe][at], local, bytes);
	ASSERT_EQ(waits ? shmd_dev_put(lab->ctx, memory + at, local, bytes, pe)
			: shmd_dev_put_nbi(lab->ctx, memory + at, local, bytes, pe),
		  SHMD_DEV_OK);
	if (!waits)
		ASSERT_EQ(shmd_dev_quiet_pe(lab->ctx, pe), SHMD_DEV_OK);
	choose(random, &at, &bytes);
	memset(local, 0xee, bytes);
	ASSERT_EQ(waits ? shmd_dev_get(lab->ctx, local, memory + at, bytes, pe)
			: shmd_dev_get_nbi(lab->ctx, local, memory + at, bytes, pe),
		  SHMD_DEV_OK);
	if (!waits)
		ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
	ASSERT_MEMEQ(local, &model[pe][at], bytes);
	at = at / word * word;
	ASSERT_EQ(shmd_dev_p(lab->ctx, memory + at, value, word, pe), SHMD_DEV_OK);
	memcpy(&model[pe][at], &value, word);
	memcpy(&want, &value, word);
	ASSERT_EQ(shmd_dev_g(lab->ctx, memory + at, word, pe, &found), SHMD_DEV_OK);
	ASSERT_EQ(found, want);
}

TEST(puts_and_gets_by_queues_are_those_of_a_model)
{
	uint64_t random = 2463534242ull;

	for (enum kind kind = BY_RC; kind < N_KINDS; kind++) {
		struct lab *lab = lab_open(kind, 0);

		memset(model, 0, sizeof(model));
		for (uint32_t i = 0; i < 300; i++)
			move_one(lab, &random);
		ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
		for (uint32_t pe = 0; pe < N_PES; pe++)
			ASSERT_MEMEQ(pe_lab_memory(lab->pes, pe), model[pe], MODEL_BYTES);
		if (kind == BY_HOT) {
			ASSERT_GT(mini_nic_get(&lab->rc[2]->n_wqes), 0u);
			ASSERT_GT(lab->routes[1].n_posts, 0u);
		}
		lab_close(lab);
	}
}

/* ---- atomics -------------------------------------------------------------------------------------------------------------------- */

static bool can(uint32_t lacks, const struct shmd_dev_amo *amo)
{
	/* 8 bytes by compare-swap of 8; 4 bytes by that too, or all by masked ones. */
	if (!(lacks & SHMD_QP_NO_ATOMIC_8))
		return true;
	if (amo->bytes == 4)
		return !(lacks & SHMD_QP_NO_MASKED_4);
	return !(lacks & SHMD_QP_NO_MASKED_8) && (amo->op == SHMD_DEV_AMO_AND || amo->op == SHMD_DEV_AMO_OR ||
						 amo->op == SHMD_DEV_AMO_XOR || amo->op == SHMD_DEV_AMO_SWAP);
}

static void amo_one(struct lab *lab, uint32_t lacks, struct shmd_dev_amo amo, uint64_t before)
{
	uint64_t mask = amo.bytes == 8 ? UINT64_MAX : UINT32_MAX, old = 99;
	uint64_t words[3] = {77, before, 77}, *here = (uint64_t *)pe_lab_memory(lab->pes, 0), *there;
	uint64_t after = shmdi_amo_outcome(&amo, before & mask) & mask;
	/* The second half of the middle word. */
	uint32_t half = amo.bytes == 4;

	there = (uint64_t *)pe_lab_memory(lab->pes, 3);
	if (half)
		words[1] = before << 32 | 55;
	for (int fetches = 0; fetches < 2; fetches++) {
		uint8_t *dest = (uint8_t *)&here[1] + 4 * half;
		int want = can(lacks, &amo) ? SHMD_DEV_OK : SHMD_DEV_UNSUPPORTED;

		memcpy(there, words, sizeof(words));
		ASSERT_EQ(fetches ? shmd_dev_atomic_fetch(lab->ctx, dest, amo, 3, &old) : shmd_dev_atomic(lab->ctx, dest, amo, 3), want);
		ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
		if (want) {
			ASSERT_MEMEQ(there, words, sizeof(words));
			continue;
		}
		if (fetches)
			ASSERT_EQ(old, before & mask);
		ASSERT_EQ(there[0] + there[2], 154u);
		ASSERT_EQ(there[1], half ? after << 32 | 55 : after);
	}
}

TEST(atomics_that_a_nic_lacks_are_made_of_compare_swaps)
{
	static const uint32_t all[] = {SHMD_QP_NO_ATOMIC_8, SHMD_QP_NO_MASKED_4, SHMD_QP_NO_MASKED_8};
	static const uint64_t values[] = {0, 5, 0x40200000, 0x3ff8000000000000ull};

	for (uint32_t i = 0; i < 16; i++) {
		uint32_t lacks = (i & 1 ? all[0] : 0) | (i & 2 ? all[1] : 0) | (i & 4 ? all[2] : 0);
		struct lab *lab = lab_open(i & 8 ? BY_DCI : BY_RC, lacks);

		for (uint32_t j = 0; j < 8 * 2 * 4 * 4; j++) {
			struct shmd_dev_amo amo = shmd_dev_amo_of((int)(j % 8), j / 8 % 2 ? 8 : 4, values[j / 16 % 4]);
			uint64_t before = values[j / 64];

			amo.compare = (j & 16 ? before : before + 1) & (amo.bytes == 8 ? UINT64_MAX : UINT32_MAX);
			amo_one(lab, lacks, amo, before);
		}
		lab_close(lab);
	}
}

/* Data by RC, signals and atomics by a DCI, as on a second NIC. */
static struct lab *lab_open_apart(void)
{
	struct lab *lab = lab_open(BY_RC, 0);

	open_dci(lab, (struct mini_nic_attr){.sharing = SHMD_SHARING_GPU});
	for (uint32_t pe = 0; pe < N_PES; pe++)
		lab->amo_ways[pe] = (struct shmd_dev_pe_way){
			.qp_addr = (uintptr_t)&lab->dci->qp, .peer_addr = (uintptr_t)&lab->dci->peers[pe], .rail = 2, .peer_rail = 1};
	lab->ctx->amo_ways_addr = (uintptr_t)lab->amo_ways;
	lab->pes->pes[0].world.flags |= SHMD_WORLD_ATOMICS_BY_QUEUE;
	return lab;
}

#define SHORT_NSEC 20000000ull

TEST(a_signal_by_another_queue_comes_behind_its_data)
{
	struct lab *lab = lab_open_apart();
	uint8_t *memory = pe_lab_memory(lab->pes, 0), *there = pe_lab_memory(lab->pes, 2);
	struct shmd_dev_pe_signal signal = shmd_dev_pe_signal_of((uint64_t *)memory, SHMD_DEV_SIGNAL_ADD, 1);
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(lab->ctx, SHMD_DEV_THREAD);
	const uint64_t sizes[] = {8, 3000};

	mode.timeout_nsec = SHORT_NSEC;
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t n_amos = mini_nic_get(&lab->dci->n_wqes), bytes = sizes[i % 2];
		uint8_t *local = i < 2 ? lab->buffer : memory + 8192;

		memset(local, (int)i + 1, bytes);
		/* The NIC that has the data does not go on, so the other one must not have the signal. */
		mini_nic_set(&lab->rc[2]->stalled, 1);
		ASSERT_EQ(shmd_dev_put_signal_nbi_as(lab->ctx, shmdi_put_item(memory + 64, local, bytes, 2), signal, mode), SHMD_DEV_TIMEOUT);
		ASSERT_EQ(mini_nic_get(&lab->dci->n_wqes), n_amos);
		mini_nic_set(&lab->rc[2]->stalled, 0);
		ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_put_signal_nbi(lab->ctx, memory + 64, local, bytes, signal, 2), SHMD_DEV_OK);
		while (shmd_dev_signal_fetch((uint64_t *)there) != i + 1)
			;
		for (uint64_t at = 0; at < bytes; at++)
			ASSERT_EQ(there[64 + at], i + 1);
		/* The NIC counts a request behind its effect. */
		ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
	}
	lab_close(lab);
}

TEST(a_quiet_to_a_pe_waits_for_both_of_its_queues)
{
	struct lab *lab = lab_open_apart();
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(lab->ctx, SHMD_DEV_THREAD);
	uint8_t *memory = pe_lab_memory(lab->pes, 0);
	struct mini_nic *nics[] = {lab->dci, lab->rc[1]};

	mode.timeout_nsec = SHORT_NSEC;
	for (uint32_t i = 0; i < 2; i++) {
		mini_nic_set(&nics[i]->stalled, 1);
		ASSERT_EQ(shmd_dev_atomic(lab->ctx, memory, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), 1), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_put_nbi(lab->ctx, memory + 64, lab->buffer, 8, 1), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_quiet_pe_as(lab->ctx, 1, mode), SHMD_DEV_TIMEOUT);
		ASSERT_EQ(shmd_dev_quiet_as(lab->ctx, mode), SHMD_DEV_TIMEOUT);
		mini_nic_set(&nics[i]->stalled, 0);
		ASSERT_EQ(shmd_dev_quiet_pe(lab->ctx, 1), SHMD_DEV_OK);
		ASSERT_EQ(*(uint64_t *)pe_lab_memory(lab->pes, 1), i + 1);
	}
	lab_close(lab);
}

TEST(signals_follow_their_data)
{
	for (uint32_t i = 0; i < 2 * N_KINDS; i++) {
		struct lab *lab = lab_open((enum kind)(i / 2), i % 2 ? SHMD_QP_NO_MASKED_8 : 0);
		uint8_t *memory = pe_lab_memory(lab->pes, 0);
		uint64_t *signal = (uint64_t *)(memory + 8), *there = (uint64_t *)(pe_lab_memory(lab->pes, 2) + 8);

		for (uint32_t round = 1; round <= 20; round++) {
			uint64_t random = round * 77, bytes = round % 3 ? 60000 : round;
			uint8_t *local = choose_local(lab, &random), *data = pe_lab_memory(lab->pes, 2) + 4096;
			int op = round % 2 ? SHMD_DEV_SIGNAL_SET : SHMD_DEV_SIGNAL_ADD;
			struct shmd_dev_pe_signal s = shmd_dev_pe_signal_of(signal, op, op == SHMD_DEV_SIGNAL_SET ? round : 1);

			fill(local, bytes, round);
			ASSERT_EQ(round % 4 < 2 ? shmd_dev_put_signal(lab->ctx, memory + 4096, local, bytes, s, 2)
						: shmd_dev_put_signal_nbi(lab->ctx, memory + 4096, local, bytes, s, 2),
				  SHMD_DEV_OK);
			ASSERT_EQ(shmd_dev_wait_until(&lab->pes->pes[2].ctx, there, 8, SHMD_DEV_CMP_EQ, round), SHMD_DEV_OK);
			/* The data is there; nothing of it is under way. */
			ASSERT_MEMEQ(data, local, bytes);
			ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
		}
		lab_close(lab);
	}
}

/* ---- mapped memory whose atomics go by queue ------------------------------------------------------------------------------------- */

TEST(atomics_go_by_queue_where_the_nics_are_apart)
{
	struct lab *lab = lab_open(BY_DCI, 0);
	struct lab_pe *pe = &lab->pes->pes[0];
	uint64_t *words = (uint64_t *)pe_lab_memory(lab->pes, 0), *there = (uint64_t *)pe_lab_memory(lab->pes, 1), v = 9, before;

	for (uint32_t i = 0; i < N_PES; i++)
		pe->entries[i].path[0] = i ? SHMD_PATH_MAPPED : SHMD_PATH_SELF;
	pe->world.flags = SHMD_WORLD_ATOMICS_BY_QUEUE;
	ASSERT_EQ(shmd_dev_put(lab->ctx, words, &v, 8, 1), SHMD_DEV_OK);
	ASSERT_EQ(there[0], 9u);
	ASSERT_EQ(n_wqes(lab), 0u);
	ASSERT_EQ(shmd_dev_atomic(lab->ctx, words, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), 1), SHMD_DEV_OK);
	/* A fence puts stores behind atomics on the queue. */
	ASSERT_EQ(shmd_dev_fence(lab->ctx), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_signal_fetch(there), 10u);
	before = n_wqes(lab);
	ASSERT_GT(before, 0u);
	ASSERT_EQ(shmd_dev_put_signal(lab->ctx, &words[1], &v, 8, shmd_dev_pe_signal_of(&words[2], SHMD_DEV_SIGNAL_ADD, 3), 1),
		  SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_fence_pe(lab->ctx, 1), SHMD_DEV_OK);
	ASSERT_EQ(there[1] + shmd_dev_signal_fetch(&there[2]), 12u);
	ASSERT_GT(n_wqes(lab), before);
	/* Also those to itself, and locks, which are made of them. */
	before = n_wqes(lab);
	ASSERT_EQ(shmd_dev_atomic_fetch(lab->ctx, words, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 4, 1), 0, &v), SHMD_DEV_OK);
	ASSERT_GT(n_wqes(lab), before);
	ASSERT_EQ(shmd_dev_lock(lab->ctx, &words[4]), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_unlock(lab->ctx, &words[4]), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_lock_test(lab->ctx, &words[4]), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_lock_test(lab->ctx, &words[4]), SHMD_DEV_AGAIN);
	ASSERT_EQ(shmd_dev_unlock(lab->ctx, &words[4]), SHMD_DEV_OK);
	/* A caller without time gets a free lock, and its requests on the way lose no ticket. */
	for (int i = 0; i < 50; i++) {
		struct shmd_dev_mode mode = shmd_dev_ctx_mode(lab->ctx, SHMD_DEV_THREAD);

		mode.timeout_nsec = 0;
		ASSERT_EQ(shmd_dev_lock_as(lab->ctx, &words[4], mode), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_unlock(lab->ctx, &words[4]), SHMD_DEV_OK);
	}
	lab_close(lab);
}

/* Its ticket cannot be read there, so its turn stays. */
TEST(a_lock_of_a_pe_that_was_forgiven_ends_calls_by_queue_at_their_time_limit)
{
	struct lab *lab = lab_open(BY_DCI, 0);
	uint64_t *lock = (uint64_t *)pe_lab_memory(lab->pes, 0);
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(lab->ctx, SHMD_DEV_THREAD);

	/* As PE 1 leaves the copy of PE 0. */
	*lock = 1ull << 44;
	pe_lab_end_pe(lab->pes, 1);
	ASSERT_EQ(shmd_dev_lock(lab->ctx, lock), SHMD_DEV_PE_GONE);
	pe_lab_forgive(lab->pes);
	mode.timeout_nsec = SHORT_NSEC;
	ASSERT_EQ(shmd_dev_lock_as(lab->ctx, lock, mode), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_lock_test(lab->ctx, lock), SHMD_DEV_AGAIN);
	lab_close(lab);
}

/* ---- data that is not registered ---------------------------------------------------------------------------------------------------- */

TEST(bounce_memory_is_not_used_again_while_a_request_may_still_read_it)
{
	struct lab *lab = lab_open(BY_RC, 0);
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(lab->ctx, SHMD_DEV_THREAD);
	uint8_t *memory = pe_lab_memory(lab->pes, 0), want[1000];

	mode.timeout_nsec = 2 * MSEC;
	mini_nic_set(&lab->rc[1]->stalled, 1);
	fill(lab->plain, 1000, 1);
	ASSERT_EQ(shmd_dev_put_as(lab->ctx, memory, lab->plain, 1000, 1, mode), SHMD_DEV_TIMEOUT);
	fill(lab->plain, 1000, 2);
	/* To a PE whose queue works, and still not. */
	ASSERT_EQ(shmd_dev_put_as(lab->ctx, memory, lab->plain, 1000, 2, mode), SHMD_DEV_TIMEOUT);
	mini_nic_set(&lab->rc[1]->stalled, 0);
	ASSERT_EQ(shmd_dev_put(lab->ctx, memory, lab->plain, 1000, 2), SHMD_DEV_OK);
	fill(want, 1000, 1);
	ASSERT_MEMEQ(pe_lab_memory(lab->pes, 1), want, 1000);
	ASSERT_MEMEQ(pe_lab_memory(lab->pes, 2), lab->plain, 1000);
	lab->ctx->bounce_bytes = 0;
	ASSERT_EQ(shmd_dev_put(lab->ctx, memory, lab->plain, 1000, 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_get(lab->ctx, lab->plain, memory, 1000, 1), SHMD_DEV_INVALID);
	/* A few bytes need none. */
	ASSERT_EQ(shmd_dev_put(lab->ctx, memory, lab->plain, 32, 1), SHMD_DEV_OK);
	lab_close(lab);
}

/* ---- blocks and batches ------------------------------------------------------------------------------------------------------------ */

TEST(blocks_and_batches_arrive_and_nothing_between_them)
{
	for (uint32_t i = 0; i < 2 * (N_KINDS + 1); i++) {
		struct lab *lab = lab_open((enum kind)(i / 2 % N_KINDS), 0);
		struct shmd_dev_stride stride = {.n = 5, .block_bytes = i % 2 ? 8 : 700, .dest_stride_bytes = 20000, .source_stride_bytes = 900};
		uint8_t *memory = pe_lab_memory(lab->pes, 0), *there = pe_lab_memory(lab->pes, 1), back[5000] = {0};
		struct shmd_dev_put_item items[4];

		if (i / 2 == N_KINDS)
			lab->pes->pes[0].entries[1].path[0] = SHMD_PATH_MAPPED;
		fill(lab->plain, 5000, 3);
		memset(there, 0x11, 100000);
		ASSERT_EQ(shmd_dev_put_strided(lab->ctx, memory, lab->plain, &stride, 1), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
		for (uint32_t b = 0; b < 5; b++) {
			ASSERT_MEMEQ(there + b * 20000, lab->plain + b * 900, stride.block_bytes);
			ASSERT_EQ(there[b * 20000 + stride.block_bytes], 0x11);
		}
		stride.dest_stride_bytes = 900;
		stride.source_stride_bytes = 20000;
		ASSERT_EQ(shmd_dev_get_strided(lab->ctx, back, memory, &stride, 1), SHMD_DEV_OK);
		for (uint32_t b = 0; b < 5; b++)
			ASSERT_MEMEQ(back + b * 900, lab->plain + b * 900, stride.block_bytes);
		stride.source_stride_bytes = LAB_USED_BYTES;
		ASSERT_EQ(shmd_dev_get_strided(lab->ctx, back, memory, &stride, 1), SHMD_DEV_INVALID);
		stride.source_stride_bytes = UINT64_MAX / 2;
		ASSERT_EQ(shmd_dev_get_strided(lab->ctx, back, memory, &stride, 1), SHMD_DEV_INVALID);
		stride.n = 0;
		ASSERT_EQ(shmd_dev_get_strided(lab->ctx, back, memory, &stride, 1), SHMD_DEV_OK);
		for (uint32_t k = 0; k < 4; k++)
			items[k] = (struct shmd_dev_put_item){memory + 64 * k, lab->buffer + 64 * k, 64, 1 + k / 2};
		fill(lab->buffer, 256, 9);
		ASSERT_EQ(shmd_dev_put_batch_nbi(lab->ctx, items, 4), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
		ASSERT_MEMEQ(there, lab->buffer, 128);
		ASSERT_MEMEQ(pe_lab_memory(lab->pes, 2) + 128, lab->buffer + 128, 128);
		lab_close(lab);
	}
}

TEST(a_batch_on_one_queue_rings_once)
{
	struct lab *lab = lab_open(BY_RC, 0);
	struct shmd_dev_put_item items[5];
	uint8_t *memory = pe_lab_memory(lab->pes, 0);
	uint64_t rung;

	for (uint32_t k = 0; k < 5; k++)
		items[k] = (struct shmd_dev_put_item){memory + 64 * k, lab->buffer, 64, 1};
	rung = lab->rc[1]->qp.db_index;
	items[4].pe = N_PES;
	/* The last is wrong: what came before it is announced all the same. */
	ASSERT_EQ(shmd_dev_put_batch_nbi(lab->ctx, items, 5), SHMD_DEV_INVALID);
	ASSERT_EQ(lab->rc[1]->qp.db_index, rung + 4);
	ASSERT_EQ(shmd_dev_put_batch_nbi(lab->ctx, items, 4), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
	ASSERT_LE(mini_nic_get(&lab->rc[1]->n_doorbells), 2u);
	lab_close(lab);
}

/* With a queue that stands still a caller that waits for anything would reach its time limit. */
TEST(blocks_and_gets_that_are_not_waited_for_are_announced_at_once_and_there_after_a_quiet)
{
	for (uint32_t kind = 0; kind < N_KINDS; kind++) {
		struct lab *lab = lab_open((enum kind)kind, 0);
		struct mini_nic *nic = kind == BY_RC ? lab->rc[1] : lab->dci;
		struct shmd_dev_stride stride = {.n = 5, .block_bytes = 64, .dest_stride_bytes = 20000, .source_stride_bytes = 100};
		uint8_t *memory = pe_lab_memory(lab->pes, 0), *there = pe_lab_memory(lab->pes, 1), *back = lab->buffer + 1000;
		struct shmd_dev_get_item items[5];

		fill(lab->buffer, 500, 4);
		mini_nic_set(&nic->stalled, 1);
		ASSERT_EQ(shmd_dev_put_strided_nbi(lab->ctx, memory, lab->buffer, &stride, 1), SHMD_DEV_OK);
		ASSERT_EQ(nic->qp.db_index, nic->qp.sq_rsvd_index);
		mini_nic_set(&nic->stalled, 0);
		ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
		for (uint32_t b = 0; b < 5; b++) {
			ASSERT_MEMEQ(there + b * 20000, lab->buffer + b * 100, 64);
			items[b] = (struct shmd_dev_get_item){back + 500 + b * 100, memory + b * 20000, 64, 1};
		}
		stride.dest_stride_bytes = 100;
		stride.source_stride_bytes = 20000;
		mini_nic_set(&nic->stalled, 1);
		ASSERT_EQ(shmd_dev_get_strided_nbi(lab->ctx, back, memory, &stride, 1), SHMD_DEV_OK);
		ASSERT_EQ(nic->qp.db_index, nic->qp.sq_rsvd_index);
		ASSERT_EQ(shmd_dev_get_batch_nbi(lab->ctx, items, 5), SHMD_DEV_OK);
		ASSERT_EQ(nic->qp.db_index, nic->qp.sq_rsvd_index);
		mini_nic_set(&nic->stalled, 0);
		ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
		for (uint32_t b = 0; b < 10; b++)
			ASSERT_MEMEQ(back + b * 100, lab->buffer + b % 5 * 100, 64);
		lab_close(lab);
	}
}

TEST(blocks_and_gets_before_one_that_is_refused_are_announced)
{
	struct lab *lab = lab_open(BY_RC, 0);
	struct shmd_dev_qp *qp = &lab->rc[1]->qp;
	/* The last block lies behind the registered buffer, and there is no memory to carry it. */
	struct shmd_dev_stride stride = {.n = 3, .block_bytes = 64, .dest_stride_bytes = 100, .source_stride_bytes = BUFFER_BYTES / 2};
	uint8_t *memory = pe_lab_memory(lab->pes, 0);
	struct shmd_dev_get_item items[3];
	uint64_t rung = qp->db_index;

	lab->ctx->bounce_bytes = 0;
	ASSERT_EQ(shmd_dev_put_strided_nbi(lab->ctx, memory, lab->buffer, &stride, 1), SHMD_DEV_INVALID);
	ASSERT_EQ(qp->db_index, rung + 2);
	ASSERT_EQ(shmd_dev_put_strided(lab->ctx, memory, lab->buffer, &stride, 1), SHMD_DEV_INVALID);
	ASSERT_EQ(qp->db_index, rung + 4);
	for (uint32_t k = 0; k < 3; k++)
		items[k] = (struct shmd_dev_get_item){lab->buffer + 64 * k, memory, 64, k < 2 ? 1 : N_PES};
	ASSERT_EQ(shmd_dev_get_batch_nbi(lab->ctx, items, 3), SHMD_DEV_INVALID);
	ASSERT_EQ(qp->db_index, rung + 6);
	ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
	lab_close(lab);
}

/* ---- ends ------------------------------------------------------------------------------------------------------------------------ */

TEST(a_failed_request_to_a_pe_that_has_ended_says_so_and_quiet_forgives)
{
	struct lab *lab = lab_open(BY_RC, 0);
	uint64_t *word = (uint64_t *)pe_lab_memory(lab->pes, 0), v = 1;

	mini_nic_set(&lab->rc[1]->fail_syndrome, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	mini_nic_set(&lab->rc[1]->fail_index, lab->rc[1]->qp.sq_rsvd_index);
	ASSERT_EQ(shmd_dev_g(lab->ctx, word, 8, 1, &v), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_CQE_ERROR);
	pe_lab_end_pe(lab->pes, 1);
	ASSERT_EQ(shmd_dev_g(lab->ctx, word, 8, 1, &v), SHMD_DEV_PE_GONE);
	ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_PE_GONE);
	ASSERT_EQ(shmd_dev_quiet_pe(lab->ctx, 1), SHMD_DEV_PE_GONE);
	ASSERT_EQ(shmd_dev_quiet_pe(lab->ctx, 2), SHMD_DEV_OK);
	pe_lab_forgive(lab->pes);
	ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_put(lab->ctx, word, &v, 8, 1), SHMD_DEV_PE_GONE);
	ASSERT_EQ(shmd_dev_put(lab->ctx, word, &v, 8, 2), SHMD_DEV_OK);
	lab_close(lab);
}

TEST(operations_by_queue_end_by_their_time_limit)
{
	struct lab *lab = lab_open(BY_DCI, SHMD_QP_NO_MASKED_8);
	uint64_t *word = (uint64_t *)pe_lab_memory(lab->pes, 0), v = 5;
	struct shmd_dev_amo swap = shmd_dev_amo_of(SHMD_DEV_AMO_SWAP, 8, 1);

	lab->ctx->timeout_nsec = 2 * MSEC;
	mini_nic_set(&lab->dci->stalled, 1);
	ASSERT_EQ(shmd_dev_put(lab->ctx, word, lab->buffer, 8, 1), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_get(lab->ctx, lab->buffer, word, 8, 1), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_g(lab->ctx, word, 8, 1, &v), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_atomic_fetch(lab->ctx, word, swap, 1, &v), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_put_signal(lab->ctx, word, lab->buffer, 8, shmd_dev_pe_signal_of(word + 1, SHMD_DEV_SIGNAL_ADD, 1), 1),
		  SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_lock(lab->ctx, word + 8), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(v, 5u);
	mini_nic_set(&lab->dci->stalled, 0);
	lab->ctx->timeout_nsec = PATIENCE;
	ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
	lab_close(lab);
}

TEST(a_quiet_of_several_queues_has_one_time_limit)
{
	struct lab *lab = lab_open(BY_RC, 0);
	uint8_t *word = pe_lab_memory(lab->pes, 0);
	uint64_t begun;

	for (uint32_t pe = 0; pe < N_PES; pe++) {
		mini_nic_set(&lab->rc[pe]->stalled, 1);
		ASSERT_EQ(shmd_dev_put_nbi(lab->ctx, word, lab->buffer, 8, pe), SHMD_DEV_OK);
	}
	lab->ctx->timeout_nsec = 400 * MSEC;
	begun = shmd_dev_host_now_nsec();
	ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_TIMEOUT);
	ASSERT_LT(shmd_dev_host_now_nsec() - begun, 3 * 400 * MSEC);
	for (uint32_t pe = 0; pe < N_PES; pe++)
		mini_nic_set(&lab->rc[pe]->stalled, 0);
	lab->ctx->timeout_nsec = PATIENCE;
	ASSERT_EQ(shmd_dev_quiet(lab->ctx), SHMD_DEV_OK);
	lab_close(lab);
}

/* ---- teams and threads ------------------------------------------------------------------------------------------------------------- */

static void sync_often(const struct lab_thread *me)
{
	uint64_t *count = (uint64_t *)pe_lab_memory(me->lab, me->pe);

	for (uint64_t i = 1; i <= 200; i++) {
		ASSERT_EQ(shmd_dev_atomic(me->ctx, count, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), (me->pe + 1) % N_PES), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_team_barrier(me->ctx, &me->lab->pes[me->pe].team), SHMD_DEV_OK);
		ASSERT_GE(shmd_dev_signal_fetch(count), i);
	}
}

TEST(barriers_go_by_queues_too)
{
	for (enum kind kind = BY_RC; kind < N_KINDS; kind++) {
		struct lab *lab = lab_open(kind, 0);

		/* PE 0 by queues, the others by stores. */
		pe_lab_run(lab->pes, 1, sync_often, NULL);
		lab_close(lab);
	}
}

#define THREAD_BYTES 3000u

static void put_from_threads(const struct lab_thread *me)
{
	uint32_t place = me->thread * 2 * THREAD_BYTES;
	uint8_t *memory = pe_lab_memory(me->lab, 0) + 4096 + place, mine[THREAD_BYTES], back[THREAD_BYTES];
	uint64_t *count = (uint64_t *)pe_lab_memory(me->lab, 0);

	/* All of them are threads of PE 0. */
	if (me->pe)
		return;
	for (uint32_t i = 0; i < 30; i++) {
		uint32_t pe = 1 + i % (N_PES - 1), bytes = i % 4 ? THREAD_BYTES : 20;

		fill(mine, bytes, me->thread * 100 + i);
		ASSERT_EQ(shmd_dev_put_nbi(me->ctx, memory, mine, bytes, pe), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_fence(me->ctx), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_get(me->ctx, back, memory, bytes, pe), SHMD_DEV_OK);
		ASSERT_MEMEQ(back, mine, bytes);
		ASSERT_EQ(shmd_dev_atomic(me->ctx, count, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), pe), SHMD_DEV_OK);
	}
	ASSERT_EQ(shmd_dev_quiet(me->ctx), SHMD_DEV_OK);
}

TEST(threads_share_queues_and_bounce_memory)
{
	for (enum kind kind = BY_RC; kind < N_KINDS; kind++) {
		struct lab *lab = lab_open(kind, 0);
		uint64_t sum = 0;

		pe_lab_run(lab->pes, 8, put_from_threads, NULL);
		for (uint32_t pe = 1; pe < N_PES; pe++)
			sum += *(uint64_t *)pe_lab_memory(lab->pes, pe);
		ASSERT_EQ(sum, 8u * 30);
		lab_close(lab);
	}
}

/* Compare-swaps, as no NIC adds doubles. */
static void add_from_threads(const struct lab_thread *me)
{
	void *sum = pe_lab_memory(me->lab, 0);
	double one = 1.0;
	uint64_t bits;

	memcpy(&bits, &one, 8);
	for (uint32_t i = 0; !me->pe && i < 20; i++)
		ASSERT_EQ(shmd_dev_atomic(me->ctx, sum, shmd_dev_amo_of(SHMD_DEV_AMO_ADD_FLOAT, 8, bits), 1), SHMD_DEV_OK);
}

/* Threads wait for each other in these operations; only waits for PEs end with any PE. */
TEST(operations_to_a_pe_go_on_after_the_end_of_another)
{
	for (enum kind kind = BY_RC; kind < N_KINDS; kind++) {
		struct lab *lab = lab_open(kind, 0);
		double sum;

		lab->pes->pes[0].world.n_gone = 1;
		pe_lab_run(lab->pes, 8, put_from_threads, NULL);
		memset(pe_lab_memory(lab->pes, 1), 0, 8);
		pe_lab_run(lab->pes, 8, add_from_threads, NULL);
		memcpy(&sum, pe_lab_memory(lab->pes, 1), 8);
		ASSERT_EQ(sum, 160.0);
		lab_close(lab);
	}
}

TEST_TIMEOUT(every_operation_works_by_queues, 120)
{
	for (enum kind kind = BY_RC; kind < N_KINDS; kind++) {
		struct lab *lab = lab_open(kind, 0);

		/* PE 0 by queues, the others by stores. */
		pe_lab_program(lab->pes, 1);
		lab_close(lab);
		lab = lab_open(kind, SHMD_QP_NO_MASKED_4 | SHMD_QP_NO_MASKED_8);
		pe_lab_program(lab->pes, 8);
		lab_close(lab);
	}
}
