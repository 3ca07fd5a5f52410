/* SPDX-License-Identifier: Apache-2.0 */
/* A line to stderr before a process ends. Any thread. It takes no lock of stdio, and drops the line if stderr is full for a while. */
#ifndef SHMD_BOOTSTRAP_LAST_WORDS_H
#define SHMD_BOOTSTRAP_LAST_WORDS_H

void last_words(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
