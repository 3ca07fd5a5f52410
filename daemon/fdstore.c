/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors from and notifications to the service manager.
 *
 * Exactly one descriptor is taken from socket activation: the listening socket. Control thread, at start.
 */
#include "daemon/fdstore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include "config.h"

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

void fdstore_notify(const char *fmt, ...)
{
	char text[512];
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

void fdstore_notify(const char *fmt, ...)
{
}

#endif
