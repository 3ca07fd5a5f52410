/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A treap: a search tree by (key, tie) in which no node is lighter than its children. Weights differ, as the hash below is
 * one to one, so the nodes of a tree decide its shape, whatever the order in which they came.
 */
#include "libclient/runtime/heap/heap-tree.h"

#include <stdbool.h>

static uint32_t weight_of(uint32_t index)
{
	index ^= index >> 16;
	index *= 0x7feb352du;
	index ^= index >> 15;
	index *= 0x846ca68bu;
	return index ^ index >> 16;
}

static bool is_before(const struct heap_node *node, uint64_t key, uint64_t tie)
{
	return node->key < key || (node->key == key && node->tie < tie);
}

/* The nodes of `tree` before and behind `by` become its children. */
static void split(struct heap_node *nodes, uint32_t tree, struct heap_node *by)
{
	uint32_t *before = &by->left, *behind = &by->right;

	while (tree) {
		uint32_t **side = is_before(&nodes[tree], by->key, by->tie) ? &before : &behind;

		**side = tree;
		*side = side == &before ? &nodes[tree].right : &nodes[tree].left;
		tree = **side;
	}
	*before = 0;
	*behind = 0;
}

void heap_tree_insert(struct heap_node *nodes, uint32_t *root, uint32_t index)
{
	const uint32_t weight = weight_of(index);
	struct heap_node *node = &nodes[index];
	uint32_t *at = root;

	while (*at && weight_of(*at) > weight)
		at = is_before(&nodes[*at], node->key, node->tie) ? &nodes[*at].right : &nodes[*at].left;
	split(nodes, *at, node);
	*at = index;
}

void heap_tree_remove(struct heap_node *nodes, uint32_t *root, uint32_t index)
{
	struct heap_node *node = &nodes[index];
	uint32_t *at = root, before = node->left, behind = node->right;

	while (*at != index)
		at = is_before(&nodes[*at], node->key, node->tie) ? &nodes[*at].right : &nodes[*at].left;
	while (before && behind) {
		bool is_heavier = weight_of(before) > weight_of(behind);

		*at = is_heavier ? before : behind;
		at = is_heavier ? &nodes[before].right : &nodes[behind].left;
		*(is_heavier ? &before : &behind) = *at;
	}
	*at = before ? before : behind;
	node->left = 0;
	node->right = 0;
}

uint32_t heap_tree_first(const struct heap_node *nodes, uint32_t root, uint64_t key, uint64_t tie)
{
	uint32_t found = 0;

	while (root) {
		bool is_less = is_before(&nodes[root], key, tie);

		found = is_less ? found : root;
		root = is_less ? nodes[root].right : nodes[root].left;
	}
	return found;
}

uint32_t heap_tree_last(const struct heap_node *nodes, uint32_t root, uint64_t key)
{
	uint32_t found = 0;

	while (root) {
		bool is_more = nodes[root].key > key;

		found = is_more ? found : root;
		root = is_more ? nodes[root].left : nodes[root].right;
	}
	return found;
}
