/* SPDX-License-Identifier: Apache-2.0 */
/* Colours of shmemctl; see color.h. The eight basic ones, which every terminal lets its owner choose. */
#include "libclient/ctl/color.h"

#include <string.h>

bool color_wanted(const char *mode, bool is_terminal, const char *no_color, const char *term)
{
	if (mode && !strcmp(mode, "always"))
		return true;
	if (mode && !strcmp(mode, "never"))
		return false;
	/* NO_COLOR counts when it is there and not empty (no-color.org). */
	if (!is_terminal || (no_color && *no_color))
		return false;
	return term && *term && strcmp(term, "dumb");
}

const char *color_on(bool has_color, enum color color)
{
	static const char *const codes[] = {"", "\033[1m", "\033[2m", "\033[32m", "\033[33m", "\033[31m",
					    "\033[34m", "\033[35m", "\033[36m"};

	return has_color ? codes[color] : "";
}

const char *color_off(bool has_color, enum color color)
{
	return has_color && color != COLOR_NONE ? "\033[0m" : "";
}
