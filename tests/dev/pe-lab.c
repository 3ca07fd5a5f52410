/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds made by hand: see pe-lab.h. */
#include "tests/dev/pe-lab.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_THREADS 8u

static uint8_t *map_heap(int fd)
{
	void *p = mmap(NULL, LAB_RANGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	ASSERT(p != MAP_FAILED);
	return p;
}

static void map_heaps(struct pe_lab *lab)
{
	for (uint32_t j = 0; j < lab->n_pes; j++) {
		int fd = memfd_create("heap", MFD_CLOEXEC);

		ASSERT_GE(fd, 0);
		ASSERT_OK(ftruncate(fd, LAB_RANGE_BYTES));
		lab->pes[j].heap = map_heap(fd);
		for (uint32_t i = 0; i < lab->n_pes; i++)
			lab->pes[i].views[j] = i == j || !lab->has_views ? lab->pes[j].heap : map_heap(fd);
		close(fd);
	}
}

static void fill_world(struct pe_lab *lab, uint32_t me)
{
	struct lab_pe *pe = &lab->pes[me];

	pe->world = (struct shmd_dev_world){
		.version = SHMD_DEV_WORLD_VERSION,
		.size_bytes = sizeof(pe->world),
		.my_pe = me,
		.n_pes = lab->n_pes,
		.n_heaps = 1,
		.pes_addr = (uintptr_t)pe->entries,
		.world_team_addr = (uintptr_t)&pe->team,
		.timeout_nsec = PATIENCE,
		.health_addr = (uintptr_t)&pe->health,
	};
	pe->world.heap[0] = (struct shmd_dev_heap){
		.own_addr = (uintptr_t)pe->heap,
		.range_bytes = LAB_RANGE_BYTES,
		.used_bytes = LAB_USED_BYTES,
		.iova = LAB_IOVA,
		.chunk_index_addr = (uintptr_t)lab->chunk_index,
		.chunk_ends_addr = (uintptr_t)lab->chunk_ends,
		.log2_granule = 16,
	};
	for (uint32_t j = 0; j < lab->n_pes; j++) {
		pe->entries[j].heap_addr[0] = (uintptr_t)pe->views[j];
		pe->entries[j].path[0] = j == me ? SHMD_PATH_SELF : SHMD_PATH_MAPPED;
	}
	pe->ctx.world_addr = (uintptr_t)&pe->world;
	pe->ctx.timeout_nsec = PATIENCE;
	pe->ctx.sharing = SHMD_SHARING_GPU;
	pe->team = (struct shmd_dev_team){
		.world_addr = (uintptr_t)&pe->world, .n_pes = lab->n_pes, .my_pe = me, .start = 0, .stride = 1};
}

static uint32_t member(const struct shmd_dev_team *team, uint32_t i)
{
	const uint32_t *members = (const uint32_t *)(uintptr_t)team->members_addr;

	return members ? members[i] : team->start + i * team->stride;
}

static void fill_near_team(struct pe_lab *lab, struct shmd_dev_team *team)
{
	struct lab_pe *me = &lab->pes[member(team, team->my_pe)];

	if (!lab->has_near || team->n_pes > SHMD_DEV_NEAR_PES)
		return;
	team->flags = SHMD_TEAM_MAPPED;
	for (uint32_t i = 0; i < team->n_pes; i++)
		team->near_scratch[i] = (uintptr_t)me->views[member(team, (team->my_pe + i) % team->n_pes)] + team->scratch_offset;
	if (team->id < LAB_WORDS_TEAMS)
		team->words_from_scratch = LAB_WORDS_OFFSET + (uint64_t)team->id * SHMD_DEV_WORDS_BYTES - team->scratch_offset;
}

void pe_lab_team_flags(struct shmd_dev_team *team, uint32_t flags)
{
	team->flags = flags;
	if (flags & SHMD_TEAM_MAPPED)
		return;
	memset(team->near_scratch, 0, sizeof(team->near_scratch));
	team->words_from_scratch = 0;
}

static void fill_near(struct pe_lab *lab, uint32_t me, const struct shmd_dev_team *team, struct shmd_dev_near *near)
{
	struct lab_pe *pe = &lab->pes[me];

	if (!lab->has_near)
		return;
	*near = (struct shmd_dev_near){
		.own_addr = (uintptr_t)pe->heap,
		.used_bytes = me % 2 ? LAB_USED_BYTES : LAB_CHUNK_BYTES, /* for every other PE the second chunk came later */
		.gone_addr = (uintptr_t)&pe->world.n_gone,
		.flags = SHMD_NEAR_ATOMICS,
	};
	for (uint32_t i = 0; i < team->n_pes && i < SHMD_DEV_NEAR_PES; i++)
		near->peer_addr[i] = (uintptr_t)pe->views[member(team, i)];
}

void pe_lab_team_ctx(struct pe_lab *lab, uint32_t pe, const struct shmd_dev_team *team, struct shmd_dev_ctx *ctx)
{
	ctx->team_addr = (uintptr_t)team;
	fill_near(lab, pe, team, &ctx->near);
}

void pe_lab_path(struct pe_lab *lab, uint32_t pe, uint32_t to, uint32_t path)
{
	lab->pes[pe].entries[to].path[0] = path;
	lab->pes[pe].ctx.near.peer_addr[to] = 0;
}

struct pe_lab *pe_lab_new(uint32_t n_pes)
{
	struct pe_lab *lab = aligned_alloc(64, (sizeof(*lab) + 63) / 64 * 64);

	ASSERT(lab != NULL);
	memset(lab, 0, sizeof(*lab));
	lab->n_pes = n_pes;
	lab->has_views = !SHMDI_TSAN;
	for (uint32_t i = 0; i < LAB_USED_BYTES / LAB_GRANULE; i++)
		lab->chunk_index[i] = i >= LAB_CHUNK_BYTES / LAB_GRANULE;
	lab->chunk_ends[0] = LAB_CHUNK_BYTES;
	lab->chunk_ends[1] = LAB_USED_BYTES;
	map_heaps(lab);
	for (uint32_t i = 0; i < n_pes; i++)
		fill_world(lab, i);
	lab->has_near = getenv("SHMD_LAB") != NULL;
	for (uint32_t i = 0; i < n_pes; i++) {
		fill_near(lab, i, &lab->pes[i].team, &lab->pes[i].ctx.near);
		fill_near_team(lab, &lab->pes[i].team);
	}
	return lab;
}

struct pe_lab *pe_lab_free(struct pe_lab *lab)
{
	for (uint32_t i = 0; i < lab->n_pes; i++) {
		for (uint32_t j = 0; j < lab->n_pes; j++) {
			if (i == j || lab->has_views)
				ASSERT_OK(munmap(lab->pes[i].views[j], LAB_RANGE_BYTES));
		}
	}
	free(lab);
	return NULL;
}

void pe_lab_team(struct pe_lab *lab, uint32_t id, const uint32_t *members, uint32_t n, uint32_t me, struct shmd_dev_team *ret_team)
{
	*ret_team = (struct shmd_dev_team){
		.world_addr = (uintptr_t)&lab->pes[members[me]].world,
		.members_addr = (uintptr_t)members,
		.scratch_offset = (uint64_t)id * SHMD_DEV_TEAM_SCRATCH_BYTES,
		.id = id,
		.n_pes = n,
		.my_pe = me,
	};
	fill_near_team(lab, ret_team);
}

void pe_lab_end_pe(struct pe_lab *lab, uint32_t gone)
{
	for (uint32_t i = 0; i < lab->n_pes; i++) {
		struct lab_pe *pe = &lab->pes[i];

		__atomic_store_n(&pe->entries[gone].path[0], SHMD_PATH_GONE, __ATOMIC_RELEASE);
		__atomic_store_n(&pe->world.first_gone, gone, __ATOMIC_RELEASE);
		__atomic_fetch_add(&pe->world.n_gone, 1, __ATOMIC_RELEASE);
	}
}

void pe_lab_forgive(struct pe_lab *lab)
{
	for (uint32_t i = 0; i < lab->n_pes; i++) {
		struct shmd_dev_world *world = &lab->pes[i].world;

		__atomic_store_n(&world->n_gone_known, __atomic_load_n(&world->n_gone, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
	}
}

struct runner {
	struct lab_thread me;
	void (*run)(const struct lab_thread *me);
	pthread_t thread;
};

static void *run_thread(void *arg)
{
	struct runner *runner = (struct runner *)arg;

	runner->run(&runner->me);
	return NULL;
}

void pe_lab_run(struct pe_lab *lab, uint32_t n_threads, void (*run)(const struct lab_thread *me), void *arg)
{
	struct runner runners[LAB_PES * MAX_THREADS];
	uint32_t n = lab->n_pes * n_threads;

	ASSERT_LE(n_threads, MAX_THREADS);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t pe = i / n_threads;

		runners[i] = (struct runner){.run = run};
		runners[i].me = (struct lab_thread){
			.lab = lab, .ctx = &lab->pes[pe].ctx, .pe = pe, .thread = i % n_threads, .arg = arg};
		ASSERT_OK(pthread_create(&runners[i].thread, NULL, run_thread, &runners[i]));
	}
	for (uint32_t i = 0; i < n; i++)
		pthread_join(runners[i].thread, NULL);
}
