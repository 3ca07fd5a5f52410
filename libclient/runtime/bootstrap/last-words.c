/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/last-words.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"

/* At most PIPE_BUF: a pipe that poll() calls writable takes it whole, without waiting. */
#define LINE_BYTES 1024
#define PATIENCE_MSEC 100
#define FLUSH_NSEC (500 * NSEC_PER_MSEC)

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

/* The first unit with <iostream> constructs it; where none has run it has no table of virtual functions. */
static bool is_constructed(void *const *stream)
{
	return stream && *stream;
}

/* The streams of libstdc++, if the program has it, by the names of its ABI. Without std::ios::sync_with_stdio() they have bytes of their own. */
static void flush_cxx(void)
{
	static const char narrow[] = "_ZNSo5flushEv", wide[] = "_ZNSt13basic_ostreamIwSt11char_traitsIwEE5flushEv";
	static const struct {
		const char *stream, *flush;
	} all[] = {{"_ZSt4cout", narrow}, {"_ZSt4clog", narrow}, {"_ZSt5wcout", wide}, {"_ZSt5wclog", wide}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		void *stream = dlsym(RTLD_DEFAULT, all[i].stream);
		void *(*call)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, all[i].flush);

		if (is_constructed(stream) && call)
			(void)call(stream);
	}
}

static void *flush(void *unused)
{
	(void)unused;
	/* First: a thread may wait for ever with another stream. */
	fflush(stdout);
	flush_cxx();
	fflush(NULL);
	return NULL;
}

void last_flush(void)
{
	struct timespec end;
	pthread_t thread;

	clock_gettime(CLOCK_REALTIME, &end);
	end = nsec_to_timespec((uint64_t)end.tv_sec * NSEC_PER_SEC + (uint64_t)end.tv_nsec + FLUSH_NSEC);
	if (!pthread_create(&thread, NULL, flush, NULL))
		(void)pthread_timedjoin_np(thread, NULL, &end);
}
