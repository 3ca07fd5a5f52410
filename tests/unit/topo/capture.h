/* SPDX-License-Identifier: Apache-2.0 */
/* A captured machine as a tree of elements that can be changed and written again; and what to expect of it. */
#ifndef SHMD_TESTS_CAPTURE_H
#define SHMD_TESTS_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/topo/topo.h"

#define CAPTURE_MAX_BUSES 512

struct element;

/* How addresses change: every bus of the file gets another one. */
struct renumber {
	unsigned int n;
	uint64_t from[CAPTURE_MAX_BUSES]; /* domain and bus */
	uint64_t to[CAPTURE_MAX_BUSES];
};

char *capture_load(const char *folder, const char *path, size_t *ret_bytes); /* with a byte to spare */
struct element *capture_parse(char *text, size_t n_bytes);
void capture_free(struct element *element);
char *capture_write(const struct element *element, size_t *ret_bytes);

void capture_buses(const struct element *element, struct renumber *buses); /* fills from[], sorted */
/* New buses: in the old order, or in any. */
void renumber_make(struct renumber *renumber, bool keeps_order, unsigned int *seed);
uint64_t renumber_pci(const struct renumber *renumber, uint64_t pci);
void capture_renumber(struct element *element, const struct renumber *renumber);
/* Elements of another name go, with all in them; the outermost stays. */
void capture_keep(struct element *element, const char *name);
void capture_shuffle_children(struct element *element, unsigned int *seed);
/* Every device called something becomes "x<number>", numbers at random. */
void capture_rename(struct element *element, unsigned int *seed);

struct topo *capture_topo(const struct element *element);

/* ---- expectations: rows of a table with tabs */

#define ROW_MAX_NICS 64

struct row {
	char file[64];
	uint64_t gpu;
	char relation[16];
	unsigned int n_nics;
	uint64_t nics[ROW_MAX_NICS];
};

bool row_read(FILE *table, struct row *row);
/* Judges the map of a machine by the rows of its file: the rules. */
void rows_judge(const struct topo *topo, const struct row *rows, unsigned int n_rows, const struct renumber *renumber);

int capture_gpu_of(const struct topo *topo, uint64_t pci);
unsigned int capture_random(unsigned int *seed, unsigned int below);

#endif
