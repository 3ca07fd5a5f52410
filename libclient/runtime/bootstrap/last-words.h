/* SPDX-License-Identifier: Apache-2.0 */
/* Output before a process ends. Any thread. */
#ifndef SHMD_BOOTSTRAP_LAST_WORDS_H
#define SHMD_BOOTSTRAP_LAST_WORDS_H

/* A line to stderr. It takes no lock of stdio, and drops the line if stderr is full for a while. */
void last_words(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Bytes that stdio and std::cout still have. Waits for half a second at most: another thread may hold a stream, and a pipe may be full. */
void last_flush(void);

#endif
