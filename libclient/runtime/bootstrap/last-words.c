/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/last-words.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* At most PIPE_BUF: a pipe that poll() calls writable takes it whole, without waiting. */
#define LINE_BYTES 1024
#define PATIENCE_MSEC 100

void last_words(const char *format, ...)
{
	struct pollfd err = {.fd = STDERR_FILENO, .events = POLLOUT};
	char line[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (poll(&err, 1, PATIENCE_MSEC) == 1 && write(STDERR_FILENO, line, strlen(line)) < 0)
		return;
}
