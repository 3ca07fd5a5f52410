/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that a person wrote into numbers, strictly: the whole text is used, without blanks or signs; -EINVAL for what
 * is not of the form, -ERANGE for what does not fit in 64 bits. Words and units are as written here, in this case.
 */
#ifndef SHMEMD_BASE_PARSE_H
#define SHMEMD_BASE_PARSE_H

#include <stdint.h>

int parse_u64(const char *text, unsigned int base, uint64_t *ret_value); /* base 8 or 10 */

/* "64", "64B", and powers of 1024: "4K", "4k", "4KiB", and so M, G and T. */
int parse_bytes(const char *text, uint64_t *ret_bytes);

/* The text without blanks at both ends; cuts those at its end off in place. */
char *parse_strip(char *text);

#endif
