/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A string on the wire holds valid UTF-8 without control characters. Sender and receiver replace characters that a reader
 * does not see or that deceive one (proto/base/unicode.h), so a string can go to a log or a terminal as it is.
 */
#ifndef SHMEMD_PROTO_TEXT_H
#define SHMEMD_PROTO_TEXT_H

#include <stdbool.h>
#include <stddef.h>

bool text_is_legal(const char *text, size_t bytes); /* it may stand in a message */
bool text_is_clean(const char *text, size_t bytes); /* and may be shown as it is */
void text_clean(char *text, size_t bytes); /* each byte of what may not be shown becomes '?' */

#endif
