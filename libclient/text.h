/* SPDX-License-Identifier: Apache-2.0 */
/* The lowest floor of the library: error sentences, tracing, waiting for a descriptor. Any thread; no client. */
#ifndef SHMD_TEXT_H
#define SHMD_TEXT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmemclient.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/codec.h"

#define CLIENT_TEXT_BYTES 512

/* ---- text.c */

/* Sets this thread's error text and returns err. */
int text_fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The daemon refused: the sentence of the status, then the daemon's own words. Returns the negative errno. */
int text_fail_status(uint32_t status, const char *text);
/* Copies a string, cut if it does not fit; always terminated. */
void text_copy(char *dst, size_t size, const char *src);

/* ---- how-to-start.c: set the text and return err */

int fail_not_running(int err, const char *path);
int fail_not_socket(int err, const char *path);
int fail_not_allowed(int err, const char *path);

/* ---- trace.c */

bool trace_is_wanted(void);
void trace_message(const char *arrow, const struct msg *msg, const int *fds, unsigned int n_fds);

/* ---- hooks.c */

/* Waits until fd has one of `events`: 0; -EAGAIN after the deadline (CLOCK_MONOTONIC); or a negative errno. */
int wait_fd(int fd, short events, uint64_t deadline_nsec);

#endif
