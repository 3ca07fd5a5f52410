/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/own-fds.h"

union address address_with_port(const union address *address, unsigned int port)
{
	union address with = *address;

	if (with.any.sa_family == AF_INET6)
		with.in6.sin6_port = htons((uint16_t)port);
	else
		with.in.sin_port = htons((uint16_t)port);
	return with;
}

#define BACKLOG 4096

bool interface_fits(const char *filter, const char *name)
{
	bool except, exact;

	if (!filter || !*filter)
		return true;
	except = *filter == '^';
	filter += except;
	exact = *filter == '=';
	filter += exact;
	while (*filter) {
		size_t n = strcspn(filter, ",");

		if (n && !strncmp(filter, name, n) && (!exact || !name[n]))
			return !except;
		filter += n;
		filter += *filter == ',';
	}
	return except;
}

static bool is_usable(const struct ifaddrs *entry, const char *filter, int family)
{
	int its = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;

	if (!(entry->ifa_flags & IFF_UP) || (its != AF_INET && its != AF_INET6) || (family && its != family))
		return false;
	/* A link-local address means something on one machine only. */
	if (its == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)entry->ifa_addr)->sin6_addr))
		return false;
	return interface_fits(filter, entry->ifa_name);
}

static unsigned int take_addresses(const struct ifaddrs *list, const char *filter, int family, bool loopback, union address *ret,
				   unsigned int most)
{
	unsigned int n = 0;

	for (const struct ifaddrs *entry = list; entry && n < most; entry = entry->ifa_next) {
		if (!is_usable(entry, filter, family) || !(entry->ifa_flags & IFF_LOOPBACK) == loopback)
			continue;
		memset(&ret[n], 0, sizeof(ret[n]));
		if (entry->ifa_addr->sa_family == AF_INET6) {
			ret[n].in6.sin6_family = AF_INET6;
			ret[n].in6.sin6_addr = ((const struct sockaddr_in6 *)entry->ifa_addr)->sin6_addr;
		} else {
			ret[n].in.sin_family = AF_INET;
			ret[n].in.sin_addr = ((const struct sockaddr_in *)entry->ifa_addr)->sin_addr;
		}
		n++;
	}
	return n;
}

static const char *family_text(int family)
{
	return family == AF_INET ? "an IPv4 address" : family == AF_INET6 ? "an IPv6 address" : "an address";
}

int local_addresses(const char *filter, int family, union address *ret, unsigned int most)
{
	struct ifaddrs *list = NULL;
	unsigned int n;

	if (getifaddrs(&list))
		return shmd_error_set(-errno, "cannot list the network interfaces: %m");
	n = take_addresses(list, filter, family, false, ret, most);
	if (!n)
		n = take_addresses(list, filter, family, true, ret, most);
	freeifaddrs(list);
	if (n)
		return (int)n;
	if (filter && *filter)
		return shmd_error_set(-ENODEV, "no network interface that is up has %s and fits \"%s\"", family_text(family), filter);
	return shmd_error_set(-ENODEV, "no network interface that is up has %s", family_text(family));
}

int resolve_host(const char *host, uint16_t port, int family, union address *ret, unsigned int most)
{
	struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM}, *list = NULL;
	char service[8];
	unsigned int n = 0;
	int err;

	snprintf(service, sizeof(service), "%u", port);
	err = getaddrinfo(host, service, &hints, &list);
	if (err)
		return shmd_error_set(-EHOSTUNREACH, "cannot find the address of %s: %s", host, gai_strerror(err));
	for (const struct addrinfo *entry = list; entry && n < most; entry = entry->ai_next)
		if (entry->ai_addrlen <= sizeof(ret[n]) && (entry->ai_family == AF_INET || entry->ai_family == AF_INET6)) {
			memset(&ret[n], 0, sizeof(ret[n]));
			memcpy(&ret[n++], entry->ai_addr, entry->ai_addrlen);
		}
	freeaddrinfo(list);
	return n ? (int)n : shmd_error_set(-EHOSTUNREACH, "%s has no address", host);
}

static int listen_once(const union address *at, uint16_t *ret_port)
{
	_cleanup_close_ int fd = socket(at->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	union address bound;
	int on = 1, off = 0, err;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (at->any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, &at->any, address_bytes(at)) || listen(fd, BACKLOG))
		return -errno;
	err = address_of_socket(fd, &bound);
	if (err)
		return err;
	*ret_port = address_port(&bound);
	return take_fd(&fd);
}

static int listen_ports(const union address *at, unsigned int n_ports, uint16_t *ret_port)
{
	union address next;
	unsigned int port = address_port(at);
	int fd = -EADDRINUSE;

	for (unsigned int i = 0; i < n_ports && fd == -EADDRINUSE; i++) {
		next = address_with_port(at, port + i);
		fd = listen_once(&next, ret_port);
	}
	return fd;
}

static int explain_listen(int fd, const union address *at, unsigned int n_ports)
{
	char text[ADDRESS_TEXT_BYTES];

	if (fd >= 0)
		return fd;
	if (fd == -EADDRINUSE && n_ports == 1)
		return shmd_error_set(fd, "another process listens at %s; does another process of this job call itself rank 0?",
				      address_text(at, text));
	errno = -fd;
	return shmd_error_set(fd, "cannot listen at %s or the %u ports after it: %m", address_text(at, text), n_ports - 1);
}

int listen_at(const union address *at, unsigned int n_ports, uint16_t *ret_port)
{
	return explain_listen(listen_ports(at, n_ports, ret_port), at, n_ports);
}

int listen_everywhere(int family, uint16_t port, unsigned int n_ports, uint16_t *ret_port)
{
	union address six = {.in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT}};
	union address four = {.in = {.sin_family = AF_INET, .sin_port = htons(port)}};
	int fd = -EAFNOSUPPORT;

	if (family != AF_INET)
		fd = listen_ports(&six, n_ports, ret_port);
	if (fd >= 0 || fd == -EADDRINUSE || family == AF_INET6)
		return explain_listen(fd, &six, n_ports);
	return explain_listen(listen_ports(&four, n_ports, ret_port), &four, n_ports);
}

int connect_begin(const union address *to, const union address *local)
{
	_cleanup_own_fd_ int fd = own_socket(to->any.sa_family);

	if (fd < 0)
		return fd;
	if (local && bind(fd, &local->any, address_bytes(local)))
		return -errno;
	if (connect(fd, &to->any, address_bytes(to)) && errno != EINPROGRESS)
		return -errno;
	return take_fd(&fd);
}

int connect_by(const union address *to, const char *interface)
{
	union address local;

	if (!interface || !*interface)
		return connect_begin(to, NULL);
	if (local_addresses(interface, to->any.sa_family, &local, 1) < 0)
		return -ENODEV;
	return connect_begin(to, &local);
}

void socket_tune(int fd)
{
	int on = 1, probes = 3;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	socket_patience(fd, SOCKET_LOST_NSEC);
}

void socket_patience(int fd, uint64_t nsec)
{
	int sec = nsec < 86400 * NSEC_PER_SEC ? (int)(nsec / NSEC_PER_SEC) : 86400;
	int idle_sec = sec > 2 ? 2 * sec / 5 : 1, interval_sec = sec > 5 ? sec / 5 : 1, unanswered_msec = 1000 * (sec ? sec : 1);

	/* The kernel takes at most 32,767 seconds. */
	idle_sec = idle_sec < 32767 ? idle_sec : 32767;
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_sec, sizeof(idle_sec));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_sec, sizeof(interval_sec));
	/* The kernel sends no probes while data waits for its acknowledgement, and would then try for a quarter of an hour. */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_msec, sizeof(unanswered_msec));
}

const char *address_text(const union address *address, char text[ADDRESS_TEXT_BYTES])
{
	char number[INET6_ADDRSTRLEN] = "?";

	if (address->any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &address->in6.sin6_addr, number, sizeof(number));
		snprintf(text, ADDRESS_TEXT_BYTES, "[%s]:%u", number, address_port(address));
	} else {
		inet_ntop(AF_INET, &address->in.sin_addr, number, sizeof(number));
		snprintf(text, ADDRESS_TEXT_BYTES, "%s:%u", number, address_port(address));
	}
	return text;
}

bool address_is_loopback(const union address *address)
{
	if (address->any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&address->in6.sin6_addr);
	return ntohl(address->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool address_is_here(const union address *local, const union address *peer)
{
	uint8_t one[UID_ADDRESS_BYTES], other[UID_ADDRESS_BYTES];

	uid_pack_address(local, one);
	uid_pack_address(peer, other);
	return address_is_loopback(local) || !memcmp(one, other, sizeof(one));
}

static void make_plain(union address *address)
{
	struct sockaddr_in in = {.sin_family = AF_INET};

	if (address->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&address->in6.sin6_addr))
		return;
	in.sin_port = address->in6.sin6_port;
	memcpy(&in.sin_addr, address->in6.sin6_addr.s6_addr + 12, 4);
	memset(address, 0, sizeof(*address));
	address->in = in;
}

int address_of_peer(int fd, union address *ret)
{
	socklen_t bytes = sizeof(*ret);

	memset(ret, 0, sizeof(*ret));
	if (getpeername(fd, &ret->any, &bytes))
		return -errno;
	make_plain(ret);
	return 0;
}

int address_of_socket(int fd, union address *ret)
{
	socklen_t bytes = sizeof(*ret);

	memset(ret, 0, sizeof(*ret));
	if (getsockname(fd, &ret->any, &bytes))
		return -errno;
	make_plain(ret);
	return 0;
}
