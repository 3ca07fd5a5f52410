/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_DEV_PE_LAB_H
#define SHMD_TESTS_DEV_PE_LAB_H

#include <stdbool.h>
#include <stdint.h>

#include <shmd/dev/pe.h>

#include "tests/dev/each-mode.h"

/*
 * A world made by hand, whose PEs are threads of the test. Each PE has a world state, a context and heaps of its own, and maps the
 * heaps of all others a second time, as a process would. Under TSan all PEs use one mapping of a heap, since TSan knows memory
 * by its address.
 *
 * With SHMD_LAB=near in the environment contexts and teams have addresses at hand, as those of kernels have: the same tests run both ways.
 */

#define LAB_PES 8u
#define LAB_TEAMS 64u
#define LAB_GRANULE (1u << 16)
#define LAB_WORDS_TEAMS 4u /* have words */
#define LAB_WORDS_OFFSET (LAB_TEAMS * SHMD_DEV_TEAM_SCRATCH_BYTES)
#define LAB_SCRATCH_BYTES (LAB_WORDS_OFFSET + LAB_WORDS_TEAMS * SHMD_DEV_WORDS_BYTES)
/* Two chunks. The memory for tests lies behind the scratch, on both sides of the boundary. */
#define LAB_CHUNK_BYTES (LAB_SCRATCH_BYTES + LAB_GRANULE)
#define LAB_USED_BYTES (2 * LAB_CHUNK_BYTES)
#define LAB_RANGE_BYTES (LAB_USED_BYTES + 2 * LAB_GRANULE)
#define LAB_IOVA 0x700000000000ull

struct lab_pe {
	struct shmd_dev_world world;
	struct shmd_dev_ctx ctx;
	struct shmd_dev_pe entries[LAB_PES];
	struct shmd_dev_team team; /* of all PEs */
	struct shmd_health_page health;
	uint8_t *heap; /* its own */
	uint8_t *views[LAB_PES]; /* of the others, as this PE maps them */
};

struct pe_lab {
	uint32_t n_pes;
	bool has_views; /* the mappings of the others are its own */
	bool has_near;
	uint8_t chunk_index[LAB_RANGE_BYTES / LAB_GRANULE];
	uint64_t chunk_ends[SHMD_DEV_HEAP_CHUNKS];
	struct lab_pe pes[LAB_PES];
};

struct pe_lab *pe_lab_new(uint32_t n_pes);
struct pe_lab *pe_lab_free(struct pe_lab *lab);

/* A team of these PEs of the world, as the PE `me` of the team sees it. id: 1 to LAB_TEAMS - 1. */
void pe_lab_team(struct pe_lab *lab, uint32_t id, const uint32_t *members, uint32_t n, uint32_t me, struct shmd_dev_team *ret_team);

/* SHMD_TEAM_MAPPED, or 0 as if some members were behind queues: then nothing of the team is near. */
void pe_lab_team_flags(struct shmd_dev_team *team, uint32_t flags);
/* A context of a PE numbers PEs as this team, whose members are those of the world. */
void pe_lab_team_ctx(struct pe_lab *lab, uint32_t pe, const struct shmd_dev_team *team, struct shmd_dev_ctx *ctx);
/* The path from one PE to another one, which leaves mapped memory. */
void pe_lab_path(struct pe_lab *lab, uint32_t pe, uint32_t to, uint32_t path);

/* A PE has ended, as the runtime of every other PE writes it down. */
void pe_lab_end_pe(struct pe_lab *lab, uint32_t pe);
/* The program of every PE has acknowledged it. */
void pe_lab_forgive(struct pe_lab *lab);

/* Offset 0 of what tests use, on this PE's own heap. */
static inline uint8_t *pe_lab_memory(struct pe_lab *lab, uint32_t pe)
{
	return lab->pes[pe].heap + LAB_SCRATCH_BYTES;
}
#define LAB_MEMORY_BYTES (LAB_USED_BYTES - LAB_SCRATCH_BYTES)

/* Runs `run` in n_threads threads for each PE, at once. */
struct lab_thread {
	struct pe_lab *lab;
	struct shmd_dev_ctx *ctx;
	uint32_t pe, thread;
	void *arg;
};
void pe_lab_run(struct pe_lab *lab, uint32_t n_threads, void (*run)(const struct lab_thread *me), void *arg);

/* A reproducible stream of numbers. */
static inline uint64_t lab_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
