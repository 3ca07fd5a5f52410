/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/meet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/address.h"
#include "libclient/runtime/bootstrap/bootstrap.h"
#include "libclient/runtime/bootstrap/knock.h"
#include "libclient/runtime/bootstrap/listeners.h"
#include "libclient/runtime/bootstrap/own-fds.h"
#include "libclient/runtime/settings/log.h"

#define UNBOUND_PORTS 4u

/* ---- ids --------------------------------------------------------------------------------------------------------------------- */

/* No stranger needs to reach this rank by another address than those of the id. */
static int listen_for(const struct uid_parts *parts, int family, uint16_t *ret_port)
{
	bool first_is_all = parts->n_addresses == 1 || address_is_loopback(&parts->addresses[0]);
	int fd = first_is_all ? listen_at(&parts->addresses[0], parts->n_ports, ret_port) : -EADDRNOTAVAIL;

	/* A name of this machine may belong to a gateway in front of it. */
	return fd == -EADDRNOTAVAIL ? listen_everywhere(family, parts->port, parts->n_ports, ret_port) : fd;
}

int bootstrap_uid_make(const struct bootstrap_attr *attr, struct shmd_uid *ret)
{
	struct uid_parts parts = {.n_ports = 1};
	struct shmd_uid uid;
	_cleanup_close_ int fd = -1;
	int n = local_addresses(attr->interface, attr->family, parts.addresses, UID_MOST_ADDRESSES);

	if (n < 0)
		return n;
	/* Rank 0 listens at one loopback address; another one in the id would refuse the ranks. */
	parts.n_addresses = address_is_loopback(&parts.addresses[0]) ? 1 : (unsigned int)n;
	if (getrandom(parts.secret, sizeof(parts.secret), 0) != sizeof(parts.secret))
		return shmd_error_set(-EIO, "the kernel has no random numbers for a secret");
	fd = listen_for(&parts, attr->family, &parts.port);
	if (fd < 0)
		return fd;
	/* Until rank 0 listens there, a connection of any process may be given this port: then it takes the next one. */
	if (attr->unbound && parts.port <= UINT16_MAX - UNBOUND_PORTS)
		parts.n_ports = UNBOUND_PORTS;
	uid_pack(&parts, &uid);
	n = attr->unbound ? 0 : listeners_add(&uid, take_fd(&fd));
	if (!n)
		*ret = uid;
	return n;
}

void bootstrap_uid_drop(const struct shmd_uid *uid)
{
	safe_close(listeners_take(uid));
}

/* ---- rank 0 ------------------------------------------------------------------------------------------------------------------ */

static int take_listener(const struct meet *meet, const struct uid_parts *parts)
{
	uint16_t port;
	int fd = listeners_take(meet->uid);

	return fd >= 0 ? fd : listen_for(parts, 0, &port);
}

static int no_memory(void)
{
	return shmd_error_set(-ENOMEM, "no memory for the bootstrap");
}

static int listen_like_first(const struct uid_parts *parts, uint16_t *ret_port)
{
	struct uid_parts mine = *parts;

	mine.port = 0;
	mine.n_ports = 1;
	mine.addresses[0] = address_with_port(&mine.addresses[0], 0);
	return listen_for(&mine, 0, ret_port);
}

/* Both gates of rank 0. */
static int make_gates(const struct meet *meet, const struct uid_parts *parts, const uint8_t *secret, struct tree_attr *attr)
{
	int fd = take_listener(meet, parts), later;

	if (fd < 0)
		return fd;
	runtime_log(BOOTSTRAP, DEBUG, "rank 0 of %u listens at %u addresses; the first is of family %s", meet->size, parts->n_addresses,
		    parts->addresses[0].any.sa_family == AF_INET6 ? "IPv6" : "IPv4");
	if (gate_new(fd, secret, &attr->gate))
		return no_memory();
	later = listen_like_first(parts, &attr->later_port);
	if (later < 0)
		return later;
	return gate_new(later, secret, &attr->later_gate) ? no_memory() : 0;
}

static int meet_as_first(const struct meet *meet, const struct uid_parts *parts, const uint8_t *secret, struct tree **ret)
{
	struct tree_attr attr = {.size = meet->size, .timeout_nsec = meet->timeout_nsec, .lost_nsec = meet->lost_nsec,
				 .has_launcher = meet->has_launcher,
				 .secret = secret, .interface = meet->interface, .first = parts->addresses[0]};
	int err = make_gates(meet, parts, secret, &attr);

	if (!err && join_new(meet->size, meet->version, &attr.join))
		err = no_memory();
	if (!err)
		return tree_new(&attr, ret);
	gate_free(attr.gate);
	gate_free(attr.later_gate);
	return err;
}

/* ---- the others -------------------------------------------------------------------------------------------------------------- */

struct home {
	const struct uid_parts *parts;
	int fd;
	uint16_t port;
	union address at;
};

static void closehome(struct home *home)
{
	home->fd = own_fd_close(home->fd);
}

/* This rank's children come to the address by which rank 0 sees it; on rank 0's machine, to any by which they reach rank 0. */
static int listen_at_home(void *arg, const union address *local, const union address *peer, uint16_t *ret_port)
{
	struct home *home = arg;
	union address at = address_with_port(local, 0);

	if (home->fd < 0 || memcmp(&home->at, &at, sizeof(at))) {
		closehome(home);
		home->at = at;
		home->fd = address_is_here(local, peer) ? listen_like_first(home->parts, &home->port) : listen_at(&at, 1, &home->port);
		if (home->fd >= 0)
			home->fd = own_fd_adopt(home->fd);
		if (home->fd < 0)
			return home->fd;
	}
	*ret_port = home->port;
	return 0;
}

static int check_welcome(const struct wire_reply *reply)
{
	return reply->error ? shmd_error_set(reply->error, "%s", reply->text) : 0;
}

/* The numbers index tables of all ranks. */
static int check_place(const struct wire_reply *reply, unsigned int size)
{
	if (reply->place && reply->place < size && reply->parent < size)
		return 0;
	return shmd_error_set(-EPROTO, "rank 0 gives place %u below rank %u in a job of %u ranks", reply->place, reply->parent, size);
}

/* Returns the connection to the parent, the place in the tree, and where this rank has reached rank 0. */
static int find_parent(struct knock *how, struct wire_reply *reply, union address *ret_first)
{
	_cleanup_own_fd_ int fd = knock(how, reply);
	struct wire_reply parents;
	char who[32];
	int err = fd < 0 ? fd : check_welcome(reply);

	if (!err)
		err = check_place(reply, how->hello.size);
	if (!err)
		err = address_of_peer(fd, ret_first);
	if (err || !reply->parent)
		return err ? err : take_fd(&fd);
	snprintf(who, sizeof(who), "rank %u", reply->parent);
	fd = own_fd_close(fd);
	how->who = who;
	how->addresses = &reply->address;
	how->n_addresses = how->n_ports = 1;
	how->hello.purpose = WIRE_LINK;
	how->hello.place = reply->place;
	how->port = NULL;
	fd = knock(how, &parents);
	err = fd < 0 ? fd : check_welcome(&parents);
	return err ? err : take_fd(&fd);
}

/* attr has the secret, and where rank 0 is. */
static int grow_tree(const struct meet *meet, const struct wire_reply *reply, int fd, struct home *home, struct tree_attr attr,
		     struct tree **ret)
{
	attr.rank = meet->rank;
	attr.size = meet->size;
	attr.place = reply->place;
	attr.timeout_nsec = meet->timeout_nsec;
	attr.lost_nsec = meet->lost_nsec;
	attr.has_launcher = meet->has_launcher;
	attr.interface = meet->interface;

	attr.parent = link_new(fd, (int)reply->parent, meet->size);
	if (!attr.parent)
		return no_memory();
	if (gate_new(take_fd(&home->fd), attr.secret, &attr.gate)) {
		link_free(attr.parent);
		return no_memory();
	}
	return tree_new(&attr, ret);
}

static int meet_as_other(const struct meet *meet, const struct uid_parts *parts, const uint8_t *secret, struct tree **ret)
{
	_cleanup_(closehome) struct home home = {.parts = parts, .fd = -1};
	struct tree_attr attr = {.secret = secret};
	struct wire_reply reply;
	struct knock how = {.secret = secret, .addresses = parts->addresses, .n_addresses = parts->n_addresses,
			    .n_ports = parts->n_ports, .interface = meet->interface, .deadline = meet->deadline,
			    .port = listen_at_home, .arg = &home, .who = "rank 0"};
	int fd;

	how.hello = (struct wire_hello){.purpose = WIRE_JOIN, .rank = meet->rank, .size = meet->size};
	snprintf(how.hello.version, sizeof(how.hello.version), "%s", meet->version);
	if (getrandom(how.hello.instance, sizeof(how.hello.instance), 0) != sizeof(how.hello.instance))
		return shmd_error_set(-EIO, "the kernel has no random numbers");
	fd = find_parent(&how, &reply, &attr.first);
	if (fd < 0)
		return fd;
	runtime_log(BOOTSTRAP, DEBUG, "rank %u has place %u in the tree, below rank %u, by %s", meet->rank, reply.place, reply.parent,
		    how.addresses[0].any.sa_family == AF_INET6 ? "IPv6" : "IPv4");
	return grow_tree(meet, &reply, fd, &home, attr, ret);
}

int meet(const struct meet *meet, struct tree **ret)
{
	struct uid_parts parts;
	uint8_t secret[UID_SECRET_BYTES];
	int err = uid_unpack(meet->uid, &parts);

	if (err)
		return err;
	uid_world_secret(parts.secret, meet->number, secret);
	return meet->rank ? meet_as_other(meet, &parts, secret, ret) : meet_as_first(meet, &parts, secret, ret);
}
