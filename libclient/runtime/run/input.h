/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input from a terminal, for PE 0. PEs are not in the terminal's foreground group, so they cannot read it themselves; a pipe or a
 * file PE 0 reads itself. While the launcher is in the background it leaves the terminal alone.
 */
#ifndef SHMD_RUN_INPUT_H
#define SHMD_RUN_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#define INPUT_BYTES 4096u

struct input {
	int from; /* the terminal, not owned; -1: nothing more comes */
	int to; /* owned; -1: closed */
	bool is_in_background;
	size_t begin, end;
	char buf[INPUT_BYTES];
};

bool input_wants_read(const struct input *input);
bool input_wants_write(const struct input *input);
void input_read(struct input *input);
void input_write(struct input *input);

#endif
