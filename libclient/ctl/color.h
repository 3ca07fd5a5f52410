/* SPDX-License-Identifier: Apache-2.0 */
/* Colours of shmemctl: on terminals that have them, unless an option or the environment says otherwise. */
#ifndef SHMEMD_CTL_COLOR_H
#define SHMEMD_CTL_COLOR_H

#include <stdbool.h>

enum color {
	COLOR_NONE,
	COLOR_BOLD,
	COLOR_DIM,
	COLOR_GREEN,
	COLOR_YELLOW,
	COLOR_RED,
	COLOR_BLUE,
	COLOR_MAGENTA,
	COLOR_CYAN,
};

/*
 * mode: value of --color, or NULL: auto. no_color, term: the environment's NO_COLOR and TERM, NULL where unset.
 * always and never outrank the environment.
 */
bool color_wanted(const char *mode, bool is_terminal, const char *no_color, const char *term);
/* Sequences before and after coloured text; empty if has_color is false or there is no colour. */
const char *color_on(bool has_color, enum color color);
const char *color_off(bool has_color, enum color color);

#endif
