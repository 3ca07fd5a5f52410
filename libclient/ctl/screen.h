/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --watch: answers one after the other. On a terminal each answer replaces the last without flicker, cut to the terminal's height;
 * elsewhere an empty line separates answers, and JSON stays one document a line.
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
	FILE *round; /* the present answer, into text */
	char *text;
	size_t bytes;
};

void screen_init(struct screen *screen, double seconds, bool is_json);
FILE *screen_begin(struct screen *screen); /* NULL: no memory */
int screen_show(struct screen *screen); /* -EIO: stdout takes no more */
void screen_drop(struct screen *screen); /* instead of screen_show(): the answer is incomplete */
bool screen_pause(struct screen *screen); /* always true */

/* Waits; signals do not shorten it. */
void screen_sleep(double seconds);
/* By the clock that screen_sleep() waits on. */
uint64_t screen_now_nsec(void);
/* The first n_rows lines of text, each with a sequence that clears the rest of its line. */
void screen_draw(const char *text, size_t bytes, unsigned int n_rows, FILE *out);

#endif
