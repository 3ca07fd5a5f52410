/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/heap/heap-tree.h"

#define N 4096u

static struct heap_node nodes[N + 1];
static uint32_t root;

static unsigned int depth_of(uint32_t tree)
{
	unsigned int left, right;

	if (!tree)
		return 0;
	left = depth_of(nodes[tree].left);
	right = depth_of(nodes[tree].right);
	return 1 + (left > right ? left : right);
}

/* The one answer by looking at all; `in` says which nodes are in the tree. */
static uint32_t first_of_all(const bool *in, uint64_t key, uint64_t tie)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i <= N; i++) {
		bool is_behind = nodes[i].key > key || (nodes[i].key == key && nodes[i].tie >= tie);

		if (in[i] && is_behind && (!best || nodes[i].key < nodes[best].key ||
					   (nodes[i].key == nodes[best].key && nodes[i].tie < nodes[best].tie)))
			best = i;
	}
	return best;
}

static uint64_t last_key_of_all(const bool *in, uint64_t key)
{
	uint64_t best = UINT64_MAX;

	for (uint32_t i = 1; i <= N; i++)
		if (in[i] && nodes[i].key <= key && (best == UINT64_MAX || nodes[i].key > best))
			best = nodes[i].key;
	return best;
}

TEST(answers_are_those_of_looking_at_all_nodes)
{
	bool in[N + 1] = {0};

	srand(1);
	for (unsigned int i = 0; i < 20000; i++) {
		uint32_t index = 1 + (uint32_t)rand() % N;
		uint64_t key = (uint64_t)(rand() % 600);

		if (in[index]) {
			heap_tree_remove(nodes, &root, index);
		} else {
			nodes[index] = (struct heap_node){.key = (uint64_t)(rand() % 500), .tie = index};
			heap_tree_insert(nodes, &root, index);
		}
		in[index] = !in[index];
		if (i % 16)
			continue;
		ASSERT_EQ(heap_tree_first(nodes, root, key, index), first_of_all(in, key, index));
		uint32_t last = heap_tree_last(nodes, root, key);
		ASSERT_EQ(last ? nodes[last].key : UINT64_MAX, last_key_of_all(in, key));
	}
}

TEST(ascending_keys_make_no_list)
{
	for (uint32_t i = 1; i <= N; i++) {
		nodes[i] = (struct heap_node){.key = i};
		heap_tree_insert(nodes, &root, i);
	}
	ASSERT_LT(depth_of(root), 48);
}

/* So two PEs that came to the same holes by different ways make the same choice, and take as long. */
TEST(the_shape_is_a_function_of_the_nodes)
{
	static struct heap_node before[N + 1];
	uint32_t root_before;

	for (uint32_t i = 1; i <= N; i++) {
		nodes[i] = (struct heap_node){.key = i * 7919u % 1000, .tie = i};
		heap_tree_insert(nodes, &root, i);
	}
	memcpy(before, nodes, sizeof(nodes));
	root_before = root;
	for (uint32_t i = N; i; i--) {
		heap_tree_remove(nodes, &root, i);
		heap_tree_insert(nodes, &root, i);
	}
	for (uint32_t i = 1; i <= N; i += 2)
		heap_tree_remove(nodes, &root, i);
	for (uint32_t i = 1; i <= N; i += 2)
		heap_tree_insert(nodes, &root, i);
	ASSERT_EQ(root, root_before);
	ASSERT_MEMEQ(nodes, before, sizeof(nodes));
}

TEST(an_emptied_tree_has_no_nodes)
{
	for (uint32_t i = 1; i <= 100; i++) {
		nodes[i] = (struct heap_node){.key = i % 10, .tie = i};
		heap_tree_insert(nodes, &root, i);
	}
	for (uint32_t i = 1; i <= 100; i++)
		heap_tree_remove(nodes, &root, i);
	ASSERT_EQ(root, 0);
	ASSERT_EQ(heap_tree_first(nodes, root, 0, 0), 0);
	ASSERT_EQ(heap_tree_last(nodes, root, UINT64_MAX), 0);
}
