/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PEs introduce themselves to each other; versions that fit, node numbers and paths follow from that.
 *
 * A hello is exchanged when the world opens, a card when it starts. Both are plain bytes of a fixed size, filled from zero. All PEs
 * see the same hellos and cards, so what is decided from them alone is decided alike everywhere. Pure, but hello_fill(). Any thread.
 */
#ifndef SHMD_WORLD_CARD_H
#define SHMD_WORLD_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmd.h>

#define WORLD_HELLO_MAGIC 0x6f6c6c6568644d53u
#define WORLD_CARD_VERSION 6u /* of hello, card, outcome, addresses, and of all that PEs exchange through the heap */

/* Its size never changes: libraries of two versions must be able to compare it. */
struct world_hello {
	uint64_t magic;
	uint32_t version; /* WORLD_CARD_VERSION */
	uint32_t dev_version; /* SHMD_DEV_WORLD_VERSION */
	char library[16]; /* shmd_version() */
	int32_t pid;
	uint32_t reserved;
	uint8_t secret[16]; /* of the world, by PE 0 */
	char host[64];
	uint64_t id; /* of the world, by PE 0: random, and no secret */
};

/* error 0: the PE goes on. Otherwise the whole step fails on all PEs. */
struct world_outcome {
	int32_t error;
	uint32_t value; /* of the step: a key, for example */
	char why[184];
};

struct world_card {
	struct world_outcome outcome;
	uint64_t node; /* equal for PEs whose descriptors one daemon can pass to each other */
	uint64_t heap_bytes; /* of the first chunk */
	uint64_t range_bytes;
	uint64_t chunk_bytes; /* of later chunks at least */
	uint64_t zone_bytes; /* around each allocation */
	uint64_t gpu_heap_bytes, gpu_range_bytes, gpu_chunk_bytes; /* likewise; all 0: no GPU heap */
	uint32_t allow; /* SHMD_ALLOW_* */
	uint32_t rc_peers; /* beyond so many, DC */
	uint32_t hot_start; /* peers that shall be hot from the start */
	uint32_t reserved;
};

_Static_assert(sizeof(struct world_hello) == 128, "the size of a hello never changes");

/* -EIO: the machine has no random numbers. */
int hello_fill(struct world_hello *hello);
/* -EPROTO with a sentence: a PE has another version than PE 0. */
int hellos_check(const struct world_hello *hellos, int n);

/* "PE 3 (pid 4711 on node7)" */
#define PE_TEXT_BYTES 112
const char *pe_text(const struct world_hello *hellos, int pe, char text[PE_TEXT_BYTES]);

/* 0, or the error of the lowest PE that has one, with "PE 3 (...): why" as the sentence. The caller's own sentence stays as it is. */
int outcomes_judge(const struct world_hello *hellos, const void *outcomes, size_t stride, int n, int my_pe);
/* The present error text with this error; why is cut. */
void outcome_fill(struct world_outcome *outcome, int error);

/* -EINVAL with a sentence: PEs have different sizes of the heap or of its chunks, or different limits of RC peers. */
int cards_check(const struct world_card *cards, int n);

/* A GPU heap is there on all PEs or on none, of one size. -EINVAL with a sentence that names the PE that differs. */
int cards_check_gpu(const struct world_card *cards, int n);

/* Nodes in the order of their lowest PE; node[i], node_pe[i], node_size[node]. How many there are. */
int cards_number_nodes(const struct world_card *cards, int n, int *node, int *node_pe);

/* The path from one PE to another, and the reason for it: why it is no better one, if there is a better one. Symmetric. */
enum shmd_path cards_path(const struct world_card *a, const struct world_card *b, bool is_self, char *reason, size_t bytes);

#endif
