/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines made at random: host bridges of several NUMA nodes, some with devices of several, with bridges, GPUs and NICs nested in any
 * way.
 */
#ifndef SHMD_TESTS_TOPO_MACHINE_H
#define SHMD_TESTS_TOPO_MACHINE_H

#include <stddef.h>

#define MACHINES 300 /* seeds from 1 on, enough for every rule to matter */

/* The text of a machine, in our own form; another for each seed. */
char *machine_make(unsigned int seed, size_t *ret_bytes);

#endif
