/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/settings/log-file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_BYTES 24

struct out {
	char *buf;
	size_t used, size;
};

static int put(struct out *out, char letter)
{
	if (out->used + 1 >= out->size)
		return -ENAMETOOLONG;
	out->buf[out->used++] = letter;
	out->buf[out->used] = 0;
	return 0;
}

static int put_name(struct out *out, const char *name)
{
	int r = 0;

	for (; *name && !r; name++)
		r = put(out, *name == '/' ? '_' : *name);
	return r;
}

static int put_number(struct out *out, long number)
{
	char text[NUMBER_BYTES];

	snprintf(text, sizeof(text), "%ld", number);
	return put_name(out, text);
}

static int put_escape(struct out *out, char letter, const struct log_names *names)
{
	switch (letter) {
	case 'h':
		return put_name(out, names->host);
	case 'j':
		return put_name(out, names->job);
	case 'p':
		return put_number(out, names->pid);
	case 'r':
		return put_number(out, names->rank);
	case '%':
		return put(out, '%');
	default:
		return -EINVAL;
	}
}

int log_file_name(const char *pattern, const struct log_names *names, char *buf, size_t size)
{
	struct out out = {buf, 0, size};
	int r = 0;

	*buf = 0;
	while (*pattern && !r) {
		if (*pattern == '%' && pattern[1]) {
			r = put_escape(&out, pattern[1], names);
			pattern += 2;
		} else {
			r = *pattern == '%' ? -EINVAL : put(&out, *pattern);
			pattern++;
		}
	}
	return r;
}

bool log_file_needs_rank(const char *pattern)
{
	for (; (pattern = strchr(pattern, '%')); pattern += 2) {
		if (pattern[1] == 'r')
			return true;
		if (!pattern[1])
			break;
	}
	return false;
}
