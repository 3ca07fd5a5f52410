/* SPDX-License-Identifier: Apache-2.0 */
/* A file whose file system, in user space, stops answering: a reader of its attributes or its data then waits. */
#ifndef SHMD_TESTS_SYSTEM_MUTE_FILE_H
#define SHMD_TESTS_SYSTEM_MUTE_FILE_H

#include <stdbool.h>
#include <sys/types.h>

struct mute_file_state;

struct mute_file {
	int fd; /* of the file, for reading and writing; owned */
	int direct_fd; /* the same file: to map it waits for its page in memory; owned */
	pid_t server; /* ends by itself after two minutes, and with it all waiting */
	struct mute_file_state *state; /* shared with the server */
	char folder[64];
};

/* Skips the test where this user can mount nothing of the kind. */
void mute_file_open(struct mute_file *file);
bool mute_file_try_open(struct mute_file *file); /* the same without skipping */
void mute_file_mute(struct mute_file *file); /* from now on questions for its attributes and its data have no answer */
unsigned int mute_file_n_asked(const struct mute_file *file); /* since then */
void mute_file_close(struct mute_file *file); /* the server first: no thread waits any more */

#endif
