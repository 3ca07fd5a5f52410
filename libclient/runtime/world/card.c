/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "libclient/runtime/world/card.h"

int hello_fill(struct world_hello *hello)
{
	memset(hello, 0, sizeof(*hello));
	hello->magic = WORLD_HELLO_MAGIC;
	hello->version = WORLD_CARD_VERSION;
	hello->dev_version = SHMD_DEV_WORLD_VERSION;
	hello->pid = (int32_t)getpid();
	snprintf(hello->library, sizeof(hello->library), "%s", shmd_version());
	if (gethostname(hello->host, sizeof(hello->host) - 1) < 0)
		snprintf(hello->host, sizeof(hello->host), "?");
	if (getrandom(hello->secret, sizeof(hello->secret), 0) != (ssize_t)sizeof(hello->secret) ||
	    getrandom(&hello->id, sizeof(hello->id), 0) != (ssize_t)sizeof(hello->id))
		return shmd_error_set(-EIO, "the kernel gives no random numbers: %s", strerror(errno));
	return 0;
}

const char *pe_text(const struct world_hello *hellos, int pe, char text[PE_TEXT_BYTES])
{
	snprintf(text, PE_TEXT_BYTES, "PE %d (pid %d on %.63s)", pe, hellos[pe].pid, hellos[pe].host);
	return text;
}

int hellos_check(const struct world_hello *hellos, int n)
{
	char first[PE_TEXT_BYTES], text[PE_TEXT_BYTES];

	for (int i = 0; i < n; i++) {
		const struct world_hello *hello = &hellos[i];

		if (hello->magic != WORLD_HELLO_MAGIC)
			return shmd_error_set(-EPROTO, "PE %d sent something else than the hello of this library", i);
		if (hello->version != hellos[0].version || hello->dev_version != hellos[0].dev_version ||
		    strncmp(hello->library, hellos[0].library, sizeof(hello->library)) != 0)
			return shmd_error_set(-EPROTO, "%s has libshmemclient %.15s (world layout %u.%u), and %s has %.15s (%u.%u)",
					      pe_text(hellos, i, text), hello->library, hello->version, hello->dev_version,
					      pe_text(hellos, 0, first), hellos[0].library, hellos[0].version, hellos[0].dev_version);
	}
	return 0;
}

void outcome_fill(struct world_outcome *outcome, int error)
{
	memset(outcome, 0, sizeof(*outcome));
	outcome->error = error;
	if (error)
		snprintf(outcome->why, sizeof(outcome->why), "%s", shmd_error_text());
}

int outcomes_judge(const struct world_hello *hellos, const void *outcomes, size_t stride, int n, int my_pe)
{
	const uint8_t *at = outcomes;
	const struct world_outcome *mine = (const void *)(at + (size_t)my_pe * stride);
	char text[PE_TEXT_BYTES];

	/* The caller's own sentence is whole, and says most to it. */
	if (mine->error)
		return mine->error;
	for (int i = 0; i < n; i++) {
		const struct world_outcome *outcome = (const void *)(at + (size_t)i * stride);

		if (outcome->error)
			return shmd_error_set(outcome->error, "%s: %.183s", pe_text(hellos, i, text), outcome->why);
	}
	return 0;
}

static int differs(int pe, const char *setting, uint64_t value, uint64_t of_pe_0)
{
	return shmd_error_set(-EINVAL, "%s is %llu on PE %d, and %llu on PE 0: it must be the same on all PEs", setting,
			      (unsigned long long)value, pe, (unsigned long long)of_pe_0);
}

int cards_check(const struct world_card *cards, int n)
{
	for (int i = 1; i < n; i++) {
		if (cards[i].chunk_bytes != cards[0].chunk_bytes)
			return differs(i, "SHMD_HEAP_CHUNK", cards[i].chunk_bytes, cards[0].chunk_bytes);
		if (cards[i].zone_bytes != cards[0].zone_bytes)
			return differs(i, "guard in SHMD_HEAP_DEBUG", cards[i].zone_bytes != 0, cards[0].zone_bytes != 0);
		if (cards[i].rc_peers != cards[0].rc_peers)
			return differs(i, "SHMD_RC_PEERS", cards[i].rc_peers, cards[0].rc_peers);
		if (cards[i].heap_bytes != cards[0].heap_bytes || cards[i].range_bytes != cards[0].range_bytes)
			return shmd_error_set(-EINVAL, "PE %d has a heap of %llu bytes in a range of %llu, and PE 0 one of %llu in %llu", i,
					      (unsigned long long)cards[i].heap_bytes, (unsigned long long)cards[i].range_bytes,
					      (unsigned long long)cards[0].heap_bytes, (unsigned long long)cards[0].range_bytes);
	}
	return 0;
}

static int check_gpu_sizes(const struct world_card *card, const struct world_card *first, int pe)
{
	if (!card->gpu_heap_bytes != !first->gpu_heap_bytes)
		return shmd_error_set(-EINVAL, "PE %d has %s GPU heap, and PE 0 has %s: all PEs of a world have one or none (SHMD_GPU)", pe,
				      card->gpu_heap_bytes ? "a" : "no", first->gpu_heap_bytes ? "one" : "none");
	if (card->gpu_heap_bytes != first->gpu_heap_bytes)
		return differs(pe, "SHMD_GPU_HEAP_SIZE", card->gpu_heap_bytes, first->gpu_heap_bytes);
	if (card->gpu_chunk_bytes != first->gpu_chunk_bytes)
		return differs(pe, "SHMD_GPU_HEAP_CHUNK", card->gpu_chunk_bytes, first->gpu_chunk_bytes);
	if (card->gpu_range_bytes != first->gpu_range_bytes)
		return differs(pe, "SHMD_GPU_HEAP_RESERVE", card->gpu_range_bytes, first->gpu_range_bytes);
	return 0;
}

int cards_check_gpu(const struct world_card *cards, int n)
{
	int r = 0;

	for (int i = 1; !r && i < n; i++)
		r = check_gpu_sizes(&cards[i], &cards[0], i);
	return r;
}

int cards_number_nodes(const struct world_card *cards, int n, int *node, int *node_pe)
{
	int n_nodes = 0;

	for (int i = 0; i < n; i++) {
		int twin = i - 1;

		/* The nearest PE below on the same node: neighbours usually are, so this takes few steps. */
		while (twin >= 0 && cards[twin].node != cards[i].node)
			twin--;
		node[i] = twin < 0 ? n_nodes++ : node[twin];
		node_pe[i] = twin < 0 ? 0 : node_pe[twin] + 1;
	}
	return n_nodes;
}

enum shmd_path cards_path(const struct world_card *a, const struct world_card *b, bool is_self, char *reason, size_t bytes)
{
	uint32_t both = a->allow & b->allow;
	bool is_near = a->node == b->node;

	reason[0] = '\0';
	if (is_self)
		return SHMD_PATH_SELF;
	if (is_near && (both & SHMD_ALLOW_MAPPED)) {
		snprintf(reason, bytes, "same node");
		return SHMD_PATH_MAPPED;
	}
	snprintf(reason, bytes, "%s", is_near ? "a setting forbids mapped memory" : "it has another node, user or daemon");
	if (both & SHMD_ALLOW_QUEUE)
		return SHMD_PATH_QUEUE;
	snprintf(reason, bytes, "%s, and queues are forbidden",
		 is_near ? "a setting forbids mapped memory" : "it has another node, user or daemon");
	return SHMD_PATH_NONE;
}
