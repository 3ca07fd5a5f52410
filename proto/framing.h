/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets with descriptors on a SOCK_SEQPACKET Unix socket.
 *
 * One packet is one message. Sizes and counts are limited here, before anything is allocated. Received
 * descriptors are close-on-exec and belong to the fdlist; every error path closes them.
 */
#ifndef SHMEMD_PROTO_FRAMING_H
#define SHMEMD_PROTO_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/fdlist.h"

#define SHMD_DEFAULT_SOCKET "/run/shmemd/shmemd.sock"
#define SHMD_SOCKET_ENV "SHMEMD_SOCKET"

#define FRAMING_MAX_PACKET_BYTES 65536u
#define FRAMING_MAX_FDS 16u

/* Tests of version skew build both sides with others. */
#ifndef SHMD_PROTOCOL_VERSION_MAX
#define SHMD_PROTOCOL_VERSION_MIN 1u
#define SHMD_PROTOCOL_VERSION_MAX 1u
#endif

/*
 * Send one packet. Blocks or not as the socket does. fds may be NULL. 0, -EAGAIN (would block), -EPIPE,
 * -EMSGSIZE, or another negative errno. Never raises SIGPIPE. The descriptors stay the caller's.
 */
int framing_send(int sock, const void *buf, size_t bytes, const int *fds, unsigned int n_fds);

/*
 * Receive one packet into buf (size at least FRAMING_MAX_PACKET_BYTES) and append its descriptors to *fds.
 * 0 and *ret_bytes; -EAGAIN; -ECONNRESET at the end of the stream; -EMSGSIZE for a packet or ancillary data
 * above the limits (packet consumed, descriptors closed); -EMFILE and *ret_bytes when this process has no place for
 * the descriptors (those that came are closed).
 */
int framing_recv(int sock, void *buf, size_t size, size_t *ret_bytes, struct fdlist *fds);

/*
 * The same for a packet without descriptors, and never blocks. FRAMING_HAS_FDS: the next packet has some, and is left
 * where it is. Only right if no other thread or process reads this socket meanwhile.
 */
#define FRAMING_HAS_FDS 1
int framing_recv_plain(int sock, void *buf, size_t size, size_t *ret_bytes);

/* Does the next packet bring descriptors? Takes none. */
bool framing_next_has_fds(int sock);

/*
 * Shut a socket down and drop what was not read. The kernel closes the descriptors in these packets on this thread, which
 * takes as long as their sender likes: where that may not be, daemon/porter does it.
 */
void framing_drain(int sock);
/* The same, and close it: the peer reads the end, not an error. Returns -1; errno kept. */
int framing_close(int sock);

/*
 * May a peer send descriptors to this socket? A listening socket hands its answer on to the connections that are made
 * to it, and sending one against it fails at the sender. -ENOPROTOOPT: the kernel cannot (before Linux 6.16); then it may.
 */
int framing_set_passing(int sock, bool on);
bool framing_is_passing(int sock); /* true also where the kernel does not say */
/* include/uapi/asm-generic/socket.h of Linux 6.16 and later; the same number on x86-64 and aarch64. */
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

/* Options both sides rely on, for a socket that was accepted or made by socketpair. 0 or negative errno. */
int framing_setup(int sock);

/* A blocking, close-on-exec client socket, set up and connected. Descriptor or negative errno. */
int framing_connect(const char *path);

#endif
