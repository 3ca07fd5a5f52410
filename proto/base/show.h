/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody else's bytes in a message of ours: printable ASCII as it is, every other byte as \xNN, "..." behind what is cut.
 * A file of any kind can be named as settings, and a terminal must not act on what stands in it. Pure; any thread.
 */
#ifndef SHMEMD_SHOW_H
#define SHMEMD_SHOW_H

#include <stddef.h>
#include <stdint.h>

#define SHOW_MAX_BYTES 64 /* of text, escapes included */
#define SHOW_BUF_BYTES (SHOW_MAX_BYTES + sizeof("..."))

/* Returns buf. */
const char *show_bytes(const void *bytes, size_t n, char buf[SHOW_BUF_BYTES]);
const char *show_text(const char *text, char buf[SHOW_BUF_BYTES]);

/* "1 NIC", "2 NICs": the s of a noun behind a number. */
static inline const char *plural_s(uint64_t n)
{
	return n == 1 ? "" : "s";
}

#endif
