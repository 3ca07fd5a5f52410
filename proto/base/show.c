/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/show.h"

#include <stdio.h>
#include <string.h>

static size_t shown_bytes(unsigned char byte)
{
	return byte >= ' ' && byte <= '~' ? 1 : sizeof("\\x00") - 1;
}

const char *show_bytes(const void *bytes, size_t n, char buf[SHOW_BUF_BYTES])
{
	const unsigned char *at = bytes;
	size_t used = 0;

	buf[0] = 0;
	for (size_t i = 0; i < n; i++) {
		if (used + shown_bytes(at[i]) > SHOW_MAX_BYTES) {
			memcpy(buf + used, "...", sizeof("..."));
			break;
		}
		used += (size_t)snprintf(buf + used, SHOW_BUF_BYTES - used, shown_bytes(at[i]) == 1 ? "%c" : "\\x%02x", at[i]);
	}
	return buf;
}

const char *show_text(const char *text, char buf[SHOW_BUF_BYTES])
{
	return show_bytes(text, strlen(text), buf);
}
