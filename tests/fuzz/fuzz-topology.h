/* SPDX-License-Identifier: Apache-2.0 */
/* The judges of fuzz-topology. Each ends the program if a promise of daemon/topo/topo.h is broken. */
#ifndef SHMD_TESTS_FUZZ_TOPOLOGY_H
#define SHMD_TESTS_FUZZ_TOPOLOGY_H

#include "daemon/topo/topo.h"

/* How many bytes from here on are printable ASCII, or end a line. By the C library, since a fuzzer counts each comparison. */
size_t plain_bytes(const char *text);
/* A text for people: ends within its buffer, says something, and nothing but printable ASCII. */
void judge_words(const char *text, size_t max_bytes);

/* The tree, the order of GPUs and NICs, names, links. */
void judge_machine(const struct topo *topo);
/* The assignment. policy may be NULL; is_followed: topo_policy_check() had nothing against it. */
void judge_map(const struct topo *topo, const struct topo_policy *policy, bool is_followed, const struct topo_map *map);

/* All reasons of a map, of machines as large as are drawn. */
void judge_reasons(const struct topo *topo, const struct topo_map *map);
/* Tables, JSON and picture of `shmemctl topology`, of machines that are small. */
void judge_views(const struct topo *topo, const struct topo_map *map);
/* A dump reads back as the same machine, with the same map. */
void judge_dump(const struct topo *topo, const struct topo_policy *policy, const struct topo_map *map);

#endif
