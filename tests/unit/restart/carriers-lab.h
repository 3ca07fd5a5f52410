/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_UNIT_RESTART_CARRIERS_LAB_H
#define SHMD_TESTS_UNIT_RESTART_CARRIERS_LAB_H

/* A manager that keeps what it hears, memory with names, and the next daemon, which finds what is left. */

#include <stdbool.h>

#include "daemon/restart/store.h"
#include "daemon/service/fdstore.h"

#define DIRECT 64u /* so many entries the manager has before memory goes into carriers */
#define PER_CARRIER 16u
#define MOST_KEPT 512u
#define MOST_MEMORIES 600u
#define ROOM 2000u

enum wanted { ABSENT, PRESENT, EITHER };

struct manager {
	char path[64];
	int fd;
	unsigned int n, n_heard; /* kept; messages that brought one */
	struct {
		char name[FDSTORE_NAME_BYTES];
		int fd;
	} kept[MOST_KEPT];
};

extern struct manager manager;

/* Daemons and the test share it: memory that the next daemon must find. */
struct shared {
	unsigned char wanted[MOST_MEMORIES]; /* enum wanted */
	bool armed; /* a daemon got as far as its test needs */
	unsigned int room; /* that a daemon saw */
};

void manager_init(void);
void manager_deinit(void);
void manager_hear_all(void);

/* ---- memory -------------------------------------------------------------------------------------------------------- */

void name_memory(char name[FDSTORE_NAME_BYTES], unsigned int i);
int make_memory(unsigned int i); /* the caller's */
/* The manager hears of it. */
void put_memory(struct manager_store *store, unsigned int i);
void put_memories(struct manager_store *store, unsigned int from, unsigned int to);
void remove_memory(struct manager_store *store, unsigned int i);
/* Somebody has it open for writing by open(2). */
bool is_open_elsewhere(int fd);
bool is_memory(int fd, unsigned int want);

/* ---- the next daemon ----------------------------------------------------------------------------------------------- */

/* It has what the manager has kept. `body` returns 0. */
void as_next_daemon(int (*body)(struct shared *shared), struct shared *shared);
/* Bodies: takes what must be there, and lets go of the rest; is there nothing else? */
int adopt_memory(struct shared *shared);
int check_memory(struct shared *shared);
struct shared *make_shared(void);
void skip_without_peeks(void);

#endif
