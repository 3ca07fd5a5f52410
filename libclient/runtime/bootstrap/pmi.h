/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire protocols PMI-1 and PMI-2 over the descriptor that a launcher left in PMI_FD.
 *
 * PMI-1: lines of words "name=value". PMI-2: six digits of length, then "name=value;" after "name=value;". A reply is at most 4 KiB; what the
 * launcher sends is not trusted further than that. Written after the descriptions in MPICH's documentation. One thread at a time.
 */
#ifndef SHMD_RUNTIME_PMI_H
#define SHMD_RUNTIME_PMI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PMI_MOST_BYTES 4096
#define PMI_WORD_BYTES 512

/*
 * The value of `name` in a reply whose words end with `separator` (' ' or ';'). 0; -ENOENT; -EMSGSIZE: the value does not fit. Pure.
 */
int pmi_value(const char *reply, char separator, const char *name, char *value, size_t bytes);
/* The length in six characters before a PMI-2 message, 1 to PMI_MOST_BYTES - 1; -EPROTO. Pure. */
int pmi_length(const char digits[6]);

struct pmi {
	int fd;
	int version; /* 1 or 2: how messages are framed */
	char reply[PMI_MOST_BYTES];
};

/*
 * Send a message and read its reply into pmi->reply. -EPROTO unless its "cmd" is `expect`, -EIO if its "rc" is not 0, -ETIMEDOUT, -ECONNRESET. All
 * with a sentence; after an error the connection is of no more use.
 */
int pmi_call(struct pmi *pmi, const char *message, const char *expect, uint64_t deadline);
/* Sends, without a reply. -ETIMEDOUT, -ECONNRESET, with a sentence. */
int pmi_send(struct pmi *pmi, const char *message, uint64_t deadline);
int pmi_reply_value(const struct pmi *pmi, const char *name, char *value, size_t bytes); /* -EPROTO with a sentence */

#endif
