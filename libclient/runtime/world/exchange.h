/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes and outcomes from all PEs to all PEs: by the bootstrap until the world has started, through the heap from then on.
 *
 * Collective; one at a time. Through the heap an exchange is also a sync of the world.
 */
#ifndef SHMD_WORLD_EXCHANGE_H
#define SHMD_WORLD_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include <shmd.h>

/* all[pe * bytes], at most WORLD_EXCHANGE_BYTES each. -EHOSTDOWN, -ETIMEDOUT, ... with a sentence. */
int world_exchange(struct shmd_world *world, const void *mine, void *all, size_t bytes);

/*
 * The two halves of an exchange through the heap: pass on, and look at what a PE passed. *ret_at is that PE's memory, which changes with
 * the next exchange, or `buffer`, into which it was copied.
 */
int world_exchange_write(struct shmd_world *world, const void *mine, size_t bytes);
int world_exchange_read(struct shmd_world *world, int pe, void *buffer, size_t bytes, const void **ret_at);

/* All PEs pass their outcome: 0 if all succeeded, else an error that all PEs return, with its sentence. */
int world_agree(struct shmd_world *world, int error);
/* And a number of each PE: world->outcomes[pe].value. */
int world_agree_on(struct shmd_world *world, int error, uint32_t value);

/* And a range of addresses: the smallest of all PEs is that of the world. error: no range here. */
int world_agree_on_range(struct shmd_world *world, int error, uint64_t bytes, uint64_t *ret_bytes);

/* A status of device functions as an errno, with a sentence. pe: of the world; -1: none in particular. */
int ctx_status_error(const struct shmd_ctx *ctx, int status, const char *what, int pe);
/* The same for the default context. */
int world_status_error(const struct shmd_world *world, int status, const char *what, int pe);

#endif
