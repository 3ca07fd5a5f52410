/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a health page. Its client can punch holes into the page, for which whoever writes or unmaps it waits in the kernel, and
 * so does the end of any process that has it mapped. So a porter writes the page, and the daemon never maps it while one runs.
 */
#ifndef SHMEMD_PORTER_WORDS_H
#define SHMEMD_PORTER_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* Changes of a page's words. Bits are NICs of the session; at most one of the three has the bit of a NIC. */
struct words {
	uint64_t lost, down, active;
	bool has_ended;
	uint8_t reserved[7];
};

bool words_are_any(const struct words *words);
/* *words follow `older`: where both speak of a NIC, *words hold. */
void words_prepend(struct words *words, const struct words *older);
/* Into the page that fd names. May wait for its client. Any thread. Negative errno: it cannot be mapped. */
int words_write(int fd, const struct words *words);

#endif
