/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordered trees over one array of nodes: treaps whose weights are a hash of the index, so that every process builds the same
 * tree.
 *
 * Nodes are named by index; index 0 is none. Each node is in one tree at most. Steps grow with the logarithm of the nodes,
 * for any order of insertions, unless somebody chooses the indexes. No memory, no recursion. Pure; one thread at a time.
 */
#ifndef SHMD_HEAP_TREE_H
#define SHMD_HEAP_TREE_H

#include <stdint.h>

struct heap_node {
	uint64_t key; /* set, as tie is, before the node enters a tree, and kept while it is there */
	uint64_t tie; /* orders nodes of equal keys */
	uint32_t left, right;
};

void heap_tree_insert(struct heap_node *nodes, uint32_t *root, uint32_t index);
void heap_tree_remove(struct heap_node *nodes, uint32_t *root, uint32_t index);

/* The first node that is (key, tie) or behind it; 0: none. */
uint32_t heap_tree_first(const struct heap_node *nodes, uint32_t root, uint64_t key, uint64_t tie);
/* The last node whose key is at most `key`; 0: none. */
uint32_t heap_tree_last(const struct heap_node *nodes, uint32_t root, uint64_t key);

#endif
