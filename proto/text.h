/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a string on the wire may hold: valid UTF-8 without control characters, so that it can go to a log or a
 * terminal as it is.
 */
#ifndef SHMEMD_PROTO_TEXT_H
#define SHMEMD_PROTO_TEXT_H

#include <stdbool.h>
#include <stddef.h>

bool text_is_clean(const char *text, size_t bytes);
void text_clean(char *text, size_t bytes); /* each byte that may not stay becomes '?' */

#endif
