/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that a person wrote into numbers, strictly: the whole text is used, without blanks or signs; -EINVAL for what
 * is not of the form, -ERANGE for what does not fit in 64 bits. Words and units are as written here, in this case.
 */
#ifndef SHMEMD_BASE_PARSE_H
#define SHMEMD_BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

int parse_u64(const char *text, uint64_t *ret_value); /* "64", "0x40" */

/* As parse_u64, and -ERANGE outside [min, max]. */
int parse_u64_range(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value);

/* "64", "64B", and powers of 1024: "4K", "4KiB", "2M", "2MiB", "1G", "1GiB", "1T", "1TiB". */
int parse_bytes(const char *text, uint64_t *ret_bytes);

/* "20ns", "20us", "100ms", "5s", "2min", "1h"; "0" needs no unit, anything else does. */
int parse_nsec(const char *text, uint64_t *ret_nsec);

int parse_bool(const char *text, bool *ret_value); /* yes/no, true/false, on/off, 1/0 */

#endif
