/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications and descriptors to the service manager: the protocol of sd_notify(3), which is datagrams.
 *
 * A manager that is busy reads nothing, and the kernel queues a few datagrams only. The control thread waits for none of
 * them: messages that find no room wait here, in their order, until fdstore_flush() finds some. A descriptor that waits is a
 * duplicate. It is closed unsent when its name is dropped, while its owner still has it open: so this is never a last close that
 * could wait for a client. Control thread.
 */
#include "daemon/service/fdstore.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "proto/base/cleanup.h"
#include "proto/base/list.h"
#include "proto/base/nsec.h"

#define NODE_NAME "node-state"
#define WAITING_SHARE 8u /* of the descriptors that this process may have, at most */
#define END_NSEC (2 * NSEC_PER_SEC) /* a daemon that ends waits for a manager no longer */
#define END_LOOK_MSEC 5

struct message {
	struct list link;
	uint64_t number; /* rises */
	int fd; /* owned; -1: none */
	char name[FDSTORE_NAME_BYTES]; /* of the descriptor, or "" */
	char text[];
};

/* One socket for all that is said: to let go of a descriptor must not need a free one. */
static int words = -1;

static struct {
	struct list all; /* struct message.link, oldest first */
	unsigned int n_fds; /* how many have one */
	uint64_t last_number;
	struct list lost; /* struct message.link: their descriptors could not be sent at all, and are closed here */
} waiting = {.all = {&waiting.all, &waiting.all}, .lost = {&waiting.lost, &waiting.lost}};

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* Names of the daemon's own descriptors, which belong to no session: those of sessions begin with an s. */
static bool is_own_name(const char *name)
{
	return strcmp(name, NODE_NAME) == 0 || strcmp(name, FDSTORE_LISTENER) == 0 || strcmp(name, FDSTORE_LIFELINE) == 0;
}

bool fdstore_is_name(const char *name)
{
	size_t bytes = strlen(name), digits;

	if (bytes >= FDSTORE_NAME_BYTES)
		return false;
	if (is_own_name(name))
		return true;
	digits = name[0] == 's' ? strspn(name + 1, "0123456789abcdef") : 0;
	return digits > 0 && name[1 + digits] == '-' && name[2 + digits] &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == bytes;
}

/* ---- the manager ------------------------------------------------------------------------------------------------ */

static const char *notify_path(void)
{
	const char *path = getenv("NOTIFY_SOCKET");

	return path && (path[0] == '/' || path[0] == '@') && path[1] ? path : NULL;
}

bool fdstore_has_manager(void)
{
	return notify_path();
}

/* ---- datagrams -------------------------------------------------------------------------------------------------- */

static int fill_address(struct sockaddr_un *addr, socklen_t *ret_size)
{
	const char *path = notify_path();
	size_t bytes = path ? strlen(path) : 0;

	if (!path)
		return -ENOENT;
	if (bytes >= sizeof(addr->sun_path))
		return -ENAMETOOLONG;
	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(addr->sun_path, path, bytes);
	if (path[0] == '@')
		addr->sun_path[0] = 0; /* of the abstract kind, without a NUL at its end */
	*ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
	return 0;
}

static void attach(struct msghdr *hdr, char *control, size_t size, int passed)
{
	struct cmsghdr *cmsg;

	hdr->msg_control = control;
	hdr->msg_controllen = size;
	cmsg = CMSG_FIRSTHDR(hdr);
	*cmsg = (struct cmsghdr){
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(passed))};
	memcpy(CMSG_DATA(cmsg), &passed, sizeof(passed));
}

static int words_socket(void)
{
	if (words < 0)
		words = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return words < 0 ? -errno : words;
}

/* One datagram, with a descriptor unless it is -1. -EAGAIN: no room. */
static int send_text(const char *text, int passed)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {.iov_base = (void *)text, .iov_len = strlen(text)};
	struct sockaddr_un addr;
	struct msghdr hdr = {.msg_name = &addr, .msg_iov = &iov, .msg_iovlen = 1};
	int fd = words_socket(), r;
	ssize_t n;

	if (fd < 0)
		return fd;
	r = fill_address(&addr, &hdr.msg_namelen);
	if (r < 0)
		return r;
	if (passed >= 0)
		attach(&hdr, control, sizeof(control), passed);
	do {
		n = sendmsg(fd, &hdr, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* ---- messages that wait ------------------------------------------------------------------------------------------ */

static void message_free(struct message *message)
{
	waiting.n_fds -= message->fd >= 0;
	list_del(&message->link);
	safe_close(message->fd);
	free(message);
}

/* Too many unread descriptors of this user, or no memory in the kernel: there will be room again. */
static bool is_later(int r)
{
	return r == -EAGAIN || r == -ETOOMANYREFS || r == -ENOBUFS || r == -ENOMEM;
}

/* Its owner hears of it when it asks, since this may be in the middle of another request to keep something. */
static void lose(struct message *message)
{
	if (message->fd < 0 || !message->name[0]) {
		message_free(message);
		return;
	}
	message->fd = safe_close(message->fd);
	waiting.n_fds--;
	list_del(&message->link);
	list_add_tail(&waiting.lost, &message->link);
}

bool fdstore_flush(void)
{
	while (!list_empty(&waiting.all)) {
		struct message *message = list_first_entry(&waiting.all, struct message, link);
		int r = send_text(message->text, message->fd);

		if (is_later(r))
			return false;
		if (r < 0)
			lose(message);
		else
			message_free(message);
	}
	return true;
}

static unsigned int most_fds(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (unsigned int)(limit.rlim_cur / WAITING_SHARE) : 0;
}

/* `fd` is borrowed. */
static int wait_with(const char *text, const char *name, int fd)
{
	size_t bytes = strlen(text) + 1;
	struct message *message;

	if (fd >= 0 && waiting.n_fds >= most_fds())
		return -ENOBUFS;
	/* bounded: a text of this program's. */
	message = malloc(sizeof(*message) + bytes);
	if (!message)
		return -ENOMEM;
	memcpy(message->text, text, bytes);
	snprintf(message->name, sizeof(message->name), "%s", name);
	message->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0 && message->fd < 0) {
		int r = -errno;

		free(message);
		return r;
	}
	message->number = ++waiting.last_number;
	waiting.n_fds += fd >= 0;
	list_add_tail(&waiting.all, &message->link);
	return 0;
}

/* Behind what waits already. */
static int say(const char *text, const char *name, int fd)
{
	int r = fdstore_flush() ? send_text(text, fd) : -EAGAIN;

	return is_later(r) ? wait_with(text, name, fd) : r;
}

void fdstore_notify(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say(text, "", -1);
}

int fdstore_try_notify(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (!fdstore_has_manager())
		return 0;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return send_text(text, -1);
}

/* ---- kept descriptors -------------------------------------------------------------------------------------------- */

/* A manager looks at what it keeps, and lets go of a socket that hangs up: FDPOLL=0 says that it shall not. */
int fdstore_keep(const char *name, int fd)
{
	char text[FDSTORE_NAME_BYTES + 64];

	if (!fdstore_is_name(name))
		return -EINVAL;
	if (fd < 0)
		return -EBADF;
	if (!fdstore_has_manager())
		return -ENOENT;
	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	return say(text, name, fd);
}

/* The newest descriptor of this name, which the manager has not got yet. */
static bool take_back(const char *name)
{
	struct message *message, *newest = NULL;

	list_for_each_entry (message, &waiting.all, link)
		if (message->fd >= 0 && strcmp(message->name, name) == 0)
			newest = message;
	if (newest)
		message_free(newest);
	return newest;
}

static bool forget_lost(const char *name)
{
	struct message *message, *tmp;
	bool was_lost = false;

	list_for_each_entry_safe (message, tmp, &waiting.lost, link)
		if (strcmp(message->name, name) == 0) {
			message_free(message);
			was_lost = true;
		}
	return was_lost;
}

bool fdstore_has_lost(const char *prefix)
{
	struct message *message;

	list_for_each_entry (message, &waiting.lost, link)
		if (strncmp(message->name, prefix, strlen(prefix)) == 0)
			return true;
	return false;
}

int fdstore_drop(const char *name)
{
	char text[FDSTORE_NAME_BYTES + 64];

	if (!fdstore_is_name(name))
		return -EINVAL;
	if (take_back(name) || forget_lost(name))
		return 0;
	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	return say(text, "", -1);
}

int fdstore_follow(void)
{
	_cleanup_close_ int writing = -1, reading = -1;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	reading = fds[0];
	writing = fds[1];
	r = say("BARRIER=1", "", writing);
	return r < 0 ? r : take_fd(&reading);
}

uint64_t fdstore_mark(void)
{
	return list_empty(&waiting.all) ? 0 : waiting.last_number;
}

/* Messages leave in their order. */
static bool is_behind(uint64_t mark)
{
	return list_empty(&waiting.all) || list_first_entry(&waiting.all, struct message, link)->number > mark;
}

bool fdstore_reached(uint64_t mark)
{
	return is_behind(mark) || fdstore_flush() || is_behind(mark);
}

void fdstore_await(void)
{
	uint64_t end = nsec_add(nsec_now(), END_NSEC);

	while (!fdstore_flush() && nsec_now() < end)
		poll(NULL, 0, END_LOOK_MSEC);
}

void fdstore_end(void)
{
	fdstore_await();
	while (!list_empty(&waiting.all))
		message_free(list_first_entry(&waiting.all, struct message, link));
	while (!list_empty(&waiting.lost))
		message_free(list_first_entry(&waiting.lost, struct message, link));
	words = safe_close(words);
}
