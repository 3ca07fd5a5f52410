/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which characters of others' text a terminal or a log may show. Pure functions; any thread. */
#ifndef SHMD_BASE_UNICODE_H
#define SHMD_BASE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the number of bytes of the UTF-8 character at `text`, which has `left` bytes, and its code; 0 if it is invalid. */
unsigned int unicode_decode(const char *text, size_t left, uint32_t *ret_code);

bool unicode_is_control(uint32_t code); /* C0, DEL, C1 */
/*
 * The character is invisible, or changes the order or the lines of others: bidirectional controls, separators of lines and
 * paragraphs, characters without width, tags, selectors and noncharacters.
 */
bool unicode_is_hidden(uint32_t code);

#endif
