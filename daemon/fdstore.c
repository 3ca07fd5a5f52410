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
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "config.h"
#include "proto/base/cleanup.h"
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

/* The protocol of sd_notify(3), which has no call that does not wait. */
static int send_now(const char *path, const char *text)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t bytes = strlen(path);

	if (fd < 0)
		return -errno;
	if (bytes >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	memcpy(addr.sun_path, path, bytes);
	if (path[0] == '@')
		addr.sun_path[0] = 0; /* of the abstract kind, without a NUL at its end */
	if (sendto(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&addr,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes)) < 0)
		return -errno;
	return 0;
}

int fdstore_try_notify(const char *fmt, ...)
{
	const char *path = getenv("NOTIFY_SOCKET");
	char text[1024];
	va_list ap;

	if (!path || (path[0] != '/' && path[0] != '@'))
		return 0;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return send_now(path, text);
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

int fdstore_try_notify(const char *fmt, ...)
{
	return 0;
}

#endif
