/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHMEMD_DEBUG=proto: every message in both directions, decoded, with descriptor numbers, on stderr.
 *
 * Each line is one write, so that lines of several processes on one terminal stay whole. msg_format leaves out worlds, keys and
 * addresses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/text.h"

#define TRACE_LINE_BYTES 2048

bool trace_is_wanted(void)
{
	const char *value = getenv("SHMEMD_DEBUG");

	while (value && *value) {
		size_t n = strcspn(value, ",");

		if (n == strlen("proto") && !strncmp(value, "proto", n))
			return true;
		value += n + (value[n] == ',');
	}
	return false;
}

void trace_message(const char *arrow, const struct msg *msg, const int *fds, unsigned int n_fds)
{
	char text[TRACE_LINE_BYTES - 256], line[TRACE_LINE_BYTES];
	uint64_t now = nsec_now();
	int n;

	if (msg_format(msg, text, sizeof(text)) < 0)
		text_copy(text, sizeof(text), msg_kind_name(msg->kind));
	n = snprintf(line, sizeof(line), "[%llu.%06llu shmemclient %d] %s %s",
		     (unsigned long long)(now / NSEC_PER_SEC),
		     (unsigned long long)(now / NSEC_PER_USEC % 1000000u), (int)getpid(), arrow, text);
	for (unsigned int i = 0; i < n_fds; i++)
		n += snprintf(line + n, sizeof(line) - (size_t)n, " fd %d", fds[i]);
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}
