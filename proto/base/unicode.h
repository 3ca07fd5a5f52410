/* SPDX-License-Identifier: Apache-2.0 */
/* Which characters somebody else's text may bring to a terminal or a log. Pure functions; any thread. */
#ifndef SHMD_BASE_UNICODE_H
#define SHMD_BASE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the UTF-8 character at `text`, of which `left` bytes may be read, and its number; 0: there is none. */
unsigned int unicode_decode(const char *text, size_t left, uint32_t *ret_code);

bool unicode_is_control(uint32_t code); /* C0, DEL, C1 */
/*
 * Nobody sees it, or it changes the order or the lines of what others see: bidirectional controls, separators of lines and
 * paragraphs, what has no width, tags and selectors, noncharacters.
 */
bool unicode_is_hidden(uint32_t code);

#endif
