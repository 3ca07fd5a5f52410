/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of this machine's interfaces, and sockets on them. All sockets are close-on-exec and do not block. Any thread. */
#ifndef SHMD_RUNTIME_ADDRESS_H
#define SHMD_RUNTIME_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/runtime/bootstrap/uid.h"
#include "proto/base/nsec.h"

/* "eth,ib": names that begin so; "=eth0,ib0": these names; "^docker,lo": all but those that begin so; NULL or "": all. */
bool interface_fits(const char *filter, const char *name);

/*
 * Addresses of the interfaces that are up and fit, loopback only if there is nothing else; without link-local ones. Returns how many,
 * at least 1; -ENODEV with a sentence.
 */
int local_addresses(const char *filter, int family, union address *ret, unsigned int most);

/* The same address with this port. */
union address address_with_port(const union address *address, unsigned int port);

/* Host name or number, into one address or several. Returns how many; -EHOSTUNREACH with a sentence. */
int resolve_host(const char *host, uint16_t port, int family, union address *ret, unsigned int most);

/* Listens at the first free of n_ports ports from that of `at`, 0: any. Returns the socket; -EADDRINUSE, ... with a sentence. */
int listen_at(const union address *at, unsigned int n_ports, uint16_t *ret_port);
/* The same at all addresses of this machine, of both families where the kernel has both. */
int listen_everywhere(int family, uint16_t port, unsigned int n_ports, uint16_t *ret_port);

/* An own descriptor (own-fds.h). Begins to connect from `local` (NULL: the kernel chooses). Returns the socket, which is writable once it is connected, or -errno. */
int connect_begin(const union address *to, const union address *local);
/* The same from an address of these interfaces; NULL or "": the kernel chooses. -ENODEV: none of them has one. */
int connect_by(const union address *to, const char *interface);
/* Sends at once, and notices within half a minute that the other machine is gone. */
void socket_tune(int fd);
#define SOCKET_LOST_NSEC (25 * NSEC_PER_SEC)
/* From now on it notices that within another time, of whole seconds. */
void socket_patience(int fd, uint64_t nsec);

#define ADDRESS_TEXT_BYTES 64
const char *address_text(const union address *address, char text[ADDRESS_TEXT_BYTES]);
bool address_is_loopback(const union address *address);
/* True if a connection with these ends stays on this machine. */
bool address_is_here(const union address *local, const union address *peer);
/* Both ends of a connection; an IPv4 address in IPv6 form becomes IPv4. -errno */
int address_of_peer(int fd, union address *ret);
int address_of_socket(int fd, union address *ret);

#endif
