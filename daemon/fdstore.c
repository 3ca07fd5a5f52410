/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors from and notifications to the service manager.
 *
 * Exactly one descriptor is taken from socket activation: the listening socket. Control thread.
 */
#include "daemon/fdstore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "config.h"
#include "proto/base/nsec.h"
#include "proto/base/overflow.h"

#if HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

int fdstore_listener(int *ret_fd)
{
	int n = sd_listen_fds(1);

	if (n < 0)
		return n;
	if (n == 0)
		return -ENOENT;
	if (n > 1 || sd_is_socket(SD_LISTEN_FDS_START, AF_UNIX, SOCK_SEQPACKET, 1) <= 0)
		return -EINVAL;
	*ret_fd = SD_LISTEN_FDS_START;
	return 0;
}

bool fdstore_has_manager(void)
{
	return getenv("NOTIFY_SOCKET") != NULL;
}

uint64_t fdstore_watchdog_nsec(void)
{
	uint64_t usec, nsec;

	if (sd_watchdog_enabled(0, &usec) <= 0 || mul_overflows(usec, NSEC_PER_USEC, &nsec))
		return 0;
	return nsec;
}

void fdstore_notify(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sd_notify(0, text);
}

#else

int fdstore_listener(int *ret_fd)
{
	return -ENOENT;
}

bool fdstore_has_manager(void)
{
	return false;
}

uint64_t fdstore_watchdog_nsec(void)
{
	return 0;
}

void fdstore_notify(const char *fmt, ...)
{
}

#endif
