/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --watch: answers one after the other. A terminal is drawn over without flicker and cut to its height; anything else
 * gets an empty line between answers, and JSON stays one document a line.
 */
#ifndef SHMEMD_CTL_SCREEN_H
#define SHMEMD_CTL_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct screen {
	double seconds;
	bool is_json, is_terminal;
	unsigned int n_shown;
	FILE *round; /* what is being answered, into text */
	char *text;
	size_t bytes;
};

void screen_init(struct screen *screen, double seconds, bool is_json);
FILE *screen_begin(struct screen *screen); /* NULL: no memory */
int screen_show(struct screen *screen); /* -EIO: stdout takes no more */
void screen_drop(struct screen *screen); /* instead: the answer broke off */
bool screen_pause(struct screen *screen); /* always true */

/* Waits; signals do not shorten it. */
void screen_sleep(double seconds);
/* By the clock that screen_sleep() waits on. */
uint64_t screen_now_nsec(void);
/* The first n_rows lines of text, each ended so that nothing of an older one stays behind it. */
void screen_draw(const char *text, size_t bytes, unsigned int n_rows, FILE *out);

#endif
