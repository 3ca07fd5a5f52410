/* SPDX-License-Identifier: Apache-2.0 */
/* Payload sizes in bytes: around words, cache lines, packets, pages and the chunks a large request is cut into. */
#ifndef TESTS_CONFORMANCE_SIZES_H
#define TESTS_CONFORMANCE_SIZES_H

#define CONF_SIZES(X) \
	X(1)          \
	X(2)          \
	X(3)          \
	X(4)          \
	X(7)          \
	X(8)          \
	X(15)         \
	X(16)         \
	X(31)         \
	X(63)         \
	X(64)         \
	X(65)         \
	X(255)        \
	X(1023)       \
	X(1024)       \
	X(4095)       \
	X(4096)       \
	X(4097)       \
	X(65535)      \
	X(65537)      \
	X(262145)     \
	X(1048576)    \
	X(4194307)

#endif
