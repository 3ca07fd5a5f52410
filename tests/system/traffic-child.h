/* SPDX-License-Identifier: Apache-2.0 */
/* shmemd-traffic as a child of a test that kills the daemon under it: how far it is, what it says, what it holds. */
#ifndef SHMD_TESTS_TRAFFIC_CHILD_H
#define SHMD_TESTS_TRAFFIC_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct traffic {
	pid_t pid;
	int out; /* what it prints */
	char text[1 << 16];
	size_t bytes, asked_at; /* of the text: what was read; what was when it was asked last */
	const char *at; /* the step that the daemon was killed at last; NULL: at none */
};

/* Runs when this returns. */
void traffic_start(struct traffic *traffic, const char *socket);
/* It must say that all was right. */
void traffic_stop(struct traffic *traffic);
/* Reads what it says; fails the test when it ends by itself. */
void traffic_read(struct traffic *traffic);

/* Whether a whole batch has been done, and its results were right, since it was asked. */
void traffic_ask(struct traffic *traffic);
bool traffic_has_gone_on(struct traffic *traffic);
/* Asks, and waits for it. Returns how many atomics there were by then whose outcome is unknown. */
uint64_t traffic_await(struct traffic *traffic);

/* A number of its report, once it was stopped. */
uint64_t traffic_number(const struct traffic *traffic, const char *key);

/* Its objects. */
struct traffic_usage {
	unsigned int n_fds, n_maps;
	uint64_t kib; /* of memory that is its own */
};

void traffic_look(const struct traffic *traffic, struct traffic_usage *ret);
/* No more than before: waits for what is of a request under way. */
void traffic_expect_usage(const struct traffic *traffic, const struct traffic_usage *most);

#endif
