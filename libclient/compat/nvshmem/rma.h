/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts and gets by the copy engine, for functions of any type (table.txt names them, generate.py makes them). `name` is the function's.
 *
 * Either dest or source is symmetric; the other may be any memory of the host or of a GPU. A failure is written to stderr, since most of
 * these functions return nothing.
 */
#ifndef SHMD_NVSHMEM_RMA_H
#define SHMD_NVSHMEM_RMA_H

#include <shmd-coll.h>
#include <shmd-stream.h>

#include "libclient/compat/nvshmem/nvs.h"

/* A value in the registers of an integer; 16-bit floating-point types of CUDA travel so, too. */
typedef uint16_t nvs_half;

static inline cuda_address nvs_address(const void *memory)
{
	return (cuda_address)(uintptr_t)memory;
}

/* By the host: complete when it returns, or by the next quiet. */
void nvs_put(const char *name, void *dest, const void *source, size_t bytes, int pe, bool is_now);
void nvs_get(const char *name, void *dest, const void *source, size_t bytes, int pe, bool is_now);
struct nvs_strides {
	size_t n, bytes; /* elements, and of one */
	ptrdiff_t dest, source; /* in elements */
};
void nvs_put_strided(const char *name, void *dest, const void *source, struct nvs_strides strides, int pe);
void nvs_get_strided(const char *name, void *dest, const void *source, struct nvs_strides strides, int pe);

/* In the order of a stream of the program. */
void nvs_put_on(const char *name, void *dest, const void *source, size_t bytes, int pe, cuda_stream stream);
void nvs_get_on(const char *name, void *dest, const void *source, size_t bytes, int pe, cuda_stream stream);
void nvs_put_strided_on(const char *name, void *dest, const void *source, struct nvs_strides strides, int pe, cuda_stream stream);
void nvs_get_strided_on(const char *name, void *dest, const void *source, struct nvs_strides strides, int pe, cuda_stream stream);

/* ---- on-stream.c */

void nvs_p_on(const char *name, void *dest, uint64_t value, uint32_t bytes, int pe, cuda_stream stream);
/* Waits for the stream. value stays as it is after a failure. */
void nvs_g_on(const char *name, void *value, const void *source, size_t bytes, int pe, cuda_stream stream);
struct nvs_signal {
	uint64_t *word, value;
	int op; /* enum nvs_signal_op */
};
void nvs_put_signal_on(const char *name, void *dest, const void *source, size_t bytes, struct nvs_signal signal, int pe, cuda_stream stream);

/* Own words; cmp: enum nvs_cmp instead of wait.cmp. */
void nvs_wait_on(const char *name, struct shmd_wait wait, int cmp, bool is_signed, cuda_stream stream);

/* ---- atomic.c: complete when they return; the former value, 0 after a failure */

uint64_t nvs_atomic(const char *name, const void *dest, struct shmd_atomic what, int pe);
nvs_half nvs_atomic_half(const char *name, void *dest, nvs_half value, int pe);
/* The bits of a value of any type. */
#define NVS_BITS(value)                                              \
	({                                                           \
		__typeof__(value) value_ = (value);                  \
		uint64_t bits_ = 0;                                  \
                                                                     \
		__builtin_memcpy(&bits_, &value_, sizeof(value_));   \
		bits_;                                               \
	})

/* ---- coll.c */

/* Collectives: `bytes` of each member. is_on_stream false: complete when it returns. They return enum nvs_result. */
struct nvs_where {
	bool is_on_stream;
	cuda_stream stream;
};
int nvs_broadcast(const char *name, int32_t team, void *dest, const void *source, size_t bytes, int root, struct nvs_where where);
int nvs_alltoall(const char *name, int32_t team, void *dest, const void *source, size_t bytes, struct nvs_where where);
int nvs_fcollect(const char *name, int32_t team, void *dest, const void *source, size_t bytes, struct nvs_where where);
/* n elements; is_scatter: of the part of each member. */
struct nvs_math {
	void *dest;
	const void *source;
	size_t n;
	enum shmd_type type;
	enum shmd_reduce_op op;
	bool is_scatter;
};
int nvs_reduce(const char *name, int32_t team, struct nvs_math math, struct nvs_where where);

#endif
