/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of the functions that generate.py makes from table.txt: by name, type of an element (void: bytes), and bytes of one. */
#ifndef SHMD_NVSHMEM_TYPED_H
#define SHMD_NVSHMEM_TYPED_H

#include "libclient/compat/nvshmem/rma.h"

/* ---- puts and gets of the host */

#define NVS_MAKE_MOVE(name, type, bytes, call, is_now)                               \
	NVS_API void name(type *dest, const type *source, size_t n, int pe);          \
	void name(type *dest, const type *source, size_t n, int pe)                   \
	{                                                                             \
		call(#name, dest, source, n * (bytes), pe, is_now);                   \
	}
#define NVS_MAKE_PUT(name, type, bytes) NVS_MAKE_MOVE(name, type, bytes, nvs_put, true)
#define NVS_MAKE_GET(name, type, bytes) NVS_MAKE_MOVE(name, type, bytes, nvs_get, true)
#define NVS_MAKE_PUT_NBI(name, type, bytes) NVS_MAKE_MOVE(name, type, bytes, nvs_put, false)
#define NVS_MAKE_GET_NBI(name, type, bytes) NVS_MAKE_MOVE(name, type, bytes, nvs_get, false)

#define NVS_MAKE_STRIDED(name, type, bytes_, call)                                                                          \
	NVS_API void name(type *dest, const type *source, ptrdiff_t dest_stride, ptrdiff_t source_stride, size_t n, int pe); \
	void name(type *dest, const type *source, ptrdiff_t dest_stride, ptrdiff_t source_stride, size_t n, int pe)         \
	{                                                                                                                    \
		struct nvs_strides strides = {.n = n, .bytes = (bytes_), .dest = dest_stride, .source = source_stride};      \
                                                                                                                             \
		call(#name, dest, source, strides, pe);                                                                      \
	}
#define NVS_MAKE_IPUT(name, type, bytes) NVS_MAKE_STRIDED(name, type, bytes, nvs_put_strided)
#define NVS_MAKE_IGET(name, type, bytes) NVS_MAKE_STRIDED(name, type, bytes, nvs_get_strided)

#define NVS_MAKE_P(name, type, bytes)                                \
	NVS_API void name(type *dest, const type value, int pe);      \
	void name(type *dest, const type value, int pe)               \
	{                                                             \
		nvs_put(#name, dest, &value, (bytes), pe, true);      \
	}
#define NVS_MAKE_G(name, type, bytes)                                \
	NVS_API type name(const type *source, int pe);                \
	type name(const type *source, int pe)                         \
	{                                                             \
		type value = 0;                                       \
                                                                      \
		nvs_get(#name, &value, source, (bytes), pe, true);    \
		return value;                                         \
	}

/* ---- on streams */

#define NVS_MAKE_MOVE_ON(name, type, bytes, call)                                                     \
	NVS_API void name(type *dest, const type *source, size_t n, int pe, cuda_stream stream);      \
	void name(type *dest, const type *source, size_t n, int pe, cuda_stream stream)               \
	{                                                                                             \
		call(#name, dest, source, n * (bytes), pe, stream);                                   \
	}
#define NVS_MAKE_PUT_ON(name, type, bytes) NVS_MAKE_MOVE_ON(name, type, bytes, nvs_put_on)
#define NVS_MAKE_GET_ON(name, type, bytes) NVS_MAKE_MOVE_ON(name, type, bytes, nvs_get_on)

#define NVS_MAKE_STRIDED_ON(name, type, bytes_, call)                                                                               \
	NVS_API void name(type *dest, const type *source, ptrdiff_t dest_stride, ptrdiff_t source_stride, size_t n, int pe,         \
			  cuda_stream stream);                                                                                      \
	void name(type *dest, const type *source, ptrdiff_t dest_stride, ptrdiff_t source_stride, size_t n, int pe, cuda_stream stream) \
	{                                                                                                                            \
		struct nvs_strides strides = {.n = n, .bytes = (bytes_), .dest = dest_stride, .source = source_stride};              \
                                                                                                                                     \
		call(#name, dest, source, strides, pe, stream);                                                                      \
	}
#define NVS_MAKE_IPUT_ON(name, type, bytes) NVS_MAKE_STRIDED_ON(name, type, bytes, nvs_put_strided_on)
#define NVS_MAKE_IGET_ON(name, type, bytes) NVS_MAKE_STRIDED_ON(name, type, bytes, nvs_get_strided_on)

#define NVS_MAKE_PUT_SIGNAL_ON(name, type, bytes)                                                                                        \
	NVS_API void name(type *dest, const type *source, size_t n, uint64_t *word, uint64_t value, int op, int pe, cuda_stream stream); \
	void name(type *dest, const type *source, size_t n, uint64_t *word, uint64_t value, int op, int pe, cuda_stream stream)          \
	{                                                                                                                                \
		nvs_put_signal_on(#name, dest, source, n * (bytes), (struct nvs_signal){word, value, op}, pe, stream);                   \
	}

#define NVS_MAKE_P_ON(name, type, bytes)                                                                  \
	NVS_API void name(type *dest, const type value, int pe, cuda_stream stream);                      \
	void name(type *dest, const type value, int pe, cuda_stream stream)                               \
	{                                                                                                 \
		nvs_p_on(#name, dest, NVS_BITS(value), bytes, pe, stream);                                \
	}
#define NVS_MAKE_G_ON(name, type, bytes)                                                                  \
	NVS_API type name(const type *source, int pe, cuda_stream stream);                                \
	type name(const type *source, int pe, cuda_stream stream)                                         \
	{                                                                                                 \
		type value = 0;                                                                           \
                                                                                                          \
		nvs_g_on(#name, &value, source, bytes, pe, stream);                                       \
		return value;                                                                             \
	}

#define NVS_IS_SIGNED(type) ((type)-1 < (type)1)
#define NVS_MAKE_WAIT_ON(name, type, bytes_)                                                                                        \
	NVS_API void name(type *word, int cmp, type value, cuda_stream stream);                                                     \
	void name(type *word, int cmp, type value, cuda_stream stream)                                                              \
	{                                                                                                                           \
		struct shmd_wait wait = {.words = word, .n = 1, .bytes = bytes_, .value = NVS_BITS(value)};                         \
                                                                                                                                    \
		nvs_wait_on(#name, wait, cmp, NVS_IS_SIGNED(type), stream);                                                         \
	}
#define NVS_MAKE_WAIT_ALL_ON(name, type, bytes_)                                                                                    \
	NVS_API void name(type *words, size_t n, const int *status, int cmp, type value, cuda_stream stream);                       \
	void name(type *words, size_t n, const int *status, int cmp, type value, cuda_stream stream)                                \
	{                                                                                                                           \
		struct shmd_wait wait = {.words = words, .n = n, .bytes = bytes_, .status = status, .value = NVS_BITS(value)};      \
                                                                                                                                    \
		nvs_wait_on(#name, wait, cmp, NVS_IS_SIGNED(type), stream);                                                         \
	}
#define NVS_MAKE_WAIT_ALL_VECTOR_ON(name, type, bytes_)                                                                             \
	NVS_API void name(type *words, size_t n, const int *status, int cmp, type *values, cuda_stream stream);                     \
	void name(type *words, size_t n, const int *status, int cmp, type *values, cuda_stream stream)                              \
	{                                                                                                                           \
		struct shmd_wait wait = {.words = words, .n = n, .bytes = bytes_, .status = status, .values = values};              \
                                                                                                                                    \
		nvs_wait_on(#name, wait, cmp, NVS_IS_SIGNED(type), stream);                                                         \
	}

/* ---- atomics; what the table calls them: ADD and INC are of integers */

#define NVS_MAKE_ATOMIC(name, type, bytes_, op_)                                                                                  \
	NVS_API void name(type *dest, type value, int pe);                                                                        \
	void name(type *dest, type value, int pe)                                                                                 \
	{                                                                                                                         \
		(void)nvs_atomic(#name, dest, (struct shmd_atomic){.op = op_, .bytes = bytes_, .value = NVS_BITS(value)}, pe);    \
	}
#define NVS_MAKE_ATOMIC_ADD(name, type, bytes) NVS_MAKE_ATOMIC(name, type, bytes, SHMD_ATOMIC_ADD)
#define NVS_MAKE_ATOMIC_SET(name, type, bytes) NVS_MAKE_ATOMIC(name, type, bytes, SHMD_ATOMIC_SWAP)
#define NVS_MAKE_ATOMIC_AND(name, type, bytes) NVS_MAKE_ATOMIC(name, type, bytes, SHMD_ATOMIC_AND)
#define NVS_MAKE_ATOMIC_OR(name, type, bytes) NVS_MAKE_ATOMIC(name, type, bytes, SHMD_ATOMIC_OR)
#define NVS_MAKE_ATOMIC_XOR(name, type, bytes) NVS_MAKE_ATOMIC(name, type, bytes, SHMD_ATOMIC_XOR)
#define NVS_MAKE_ATOMIC_ADD_FLOAT(name, type, bytes) NVS_MAKE_ATOMIC(name, type, bytes, SHMD_ATOMIC_ADD_FLOAT)

#define NVS_RETURN_OLD(name, type, atomic)                        \
	uint64_t old = nvs_atomic(name, dest, atomic, pe);        \
	type value_;                                              \
                                                                  \
	__builtin_memcpy(&value_, &old, sizeof(value_));          \
	return value_

#define NVS_MAKE_ATOMIC_OLD(name, type, bytes_, op_)                                                                              \
	NVS_API type name(type *dest, type value, int pe);                                                                        \
	type name(type *dest, type value, int pe)                                                                                 \
	{                                                                                                                         \
		struct shmd_atomic atomic = {.op = op_, .bytes = bytes_, .value = NVS_BITS(value)};                               \
                                                                                                                                  \
		NVS_RETURN_OLD(#name, type, atomic);                                                                              \
	}
#define NVS_MAKE_ATOMIC_FETCH_ADD(name, type, bytes) NVS_MAKE_ATOMIC_OLD(name, type, bytes, SHMD_ATOMIC_ADD)
#define NVS_MAKE_ATOMIC_SWAP(name, type, bytes) NVS_MAKE_ATOMIC_OLD(name, type, bytes, SHMD_ATOMIC_SWAP)
#define NVS_MAKE_ATOMIC_FETCH_AND(name, type, bytes) NVS_MAKE_ATOMIC_OLD(name, type, bytes, SHMD_ATOMIC_AND)
#define NVS_MAKE_ATOMIC_FETCH_OR(name, type, bytes) NVS_MAKE_ATOMIC_OLD(name, type, bytes, SHMD_ATOMIC_OR)
#define NVS_MAKE_ATOMIC_FETCH_XOR(name, type, bytes) NVS_MAKE_ATOMIC_OLD(name, type, bytes, SHMD_ATOMIC_XOR)
#define NVS_MAKE_ATOMIC_FETCH_ADD_FLOAT(name, type, bytes) NVS_MAKE_ATOMIC_OLD(name, type, bytes, SHMD_ATOMIC_ADD_FLOAT)

#define NVS_MAKE_ATOMIC_INC(name, type, bytes_)                                                                                   \
	NVS_API void name(type *dest, int pe);                                                                                    \
	void name(type *dest, int pe)                                                                                             \
	{                                                                                                                         \
		(void)nvs_atomic(#name, dest, (struct shmd_atomic){.op = SHMD_ATOMIC_ADD, .bytes = bytes_, .value = 1}, pe);      \
	}
#define NVS_MAKE_ATOMIC_FETCH_INC(name, type, bytes_)                                                                             \
	NVS_API type name(type *dest, int pe);                                                                                    \
	type name(type *dest, int pe)                                                                                             \
	{                                                                                                                         \
		struct shmd_atomic atomic = {.op = SHMD_ATOMIC_ADD, .bytes = bytes_, .value = 1};                                 \
                                                                                                                                  \
		NVS_RETURN_OLD(#name, type, atomic);                                                                              \
	}
#define NVS_MAKE_ATOMIC_FETCH(name, type, bytes_)                                                                                 \
	NVS_API type name(const type *dest, int pe);                                                                              \
	type name(const type *dest, int pe)                                                                                       \
	{                                                                                                                         \
		struct shmd_atomic atomic = {.op = SHMD_ATOMIC_FETCH, .bytes = bytes_};                                           \
                                                                                                                                  \
		NVS_RETURN_OLD(#name, type, atomic);                                                                              \
	}
#define NVS_MAKE_ATOMIC_COMPARE_SWAP(name, type, bytes_)                                                                          \
	NVS_API type name(type *dest, type compared, type value, int pe);                                                         \
	type name(type *dest, type compared, type value, int pe)                                                                  \
	{                                                                                                                         \
		struct shmd_atomic atomic = {                                                                                     \
			.op = SHMD_ATOMIC_COMPARE_SWAP, .bytes = bytes_, .value = NVS_BITS(value), .compare = NVS_BITS(compared)}; \
                                                                                                                                  \
		NVS_RETURN_OLD(#name, type, atomic);                                                                              \
	}
#define NVS_MAKE_ATOMIC_ADD_HALF(name, type, bytes)                                                                               \
	NVS_API void name(type *dest, type value, int pe);                                                                        \
	void name(type *dest, type value, int pe)                                                                                 \
	{                                                                                                                         \
		(void)nvs_atomic_half(#name, dest, value, pe);                                                                    \
	}
#define NVS_MAKE_ATOMIC_FETCH_ADD_HALF(name, type, bytes)                                                                         \
	NVS_API type name(type *dest, type value, int pe);                                                                        \
	type name(type *dest, type value, int pe)                                                                                 \
	{                                                                                                                         \
		return nvs_atomic_half(#name, dest, value, pe);                                                                   \
	}

/* ---- collectives */

#define NVS_MAKE_BROADCAST(name, type, bytes)                                                                               \
	NVS_API int name(int32_t team, type *dest, const type *source, size_t n, int root);                                 \
	int name(int32_t team, type *dest, const type *source, size_t n, int root)                                          \
	{                                                                                                                    \
		return nvs_broadcast(#name, team, dest, source, n * (bytes), root, (struct nvs_where){.is_on_stream = false}); \
	}
#define NVS_MAKE_BROADCAST_ON(name, type, bytes)                                                                            \
	NVS_API int name(int32_t team, type *dest, const type *source, size_t n, int root, cuda_stream stream);             \
	int name(int32_t team, type *dest, const type *source, size_t n, int root, cuda_stream stream)                      \
	{                                                                                                                    \
		return nvs_broadcast(#name, team, dest, source, n * (bytes), root, (struct nvs_where){true, stream});        \
	}
#define NVS_MAKE_EXCHANGE(name, type, bytes, call)                                                                          \
	NVS_API int name(int32_t team, type *dest, const type *source, size_t n);                                           \
	int name(int32_t team, type *dest, const type *source, size_t n)                                                    \
	{                                                                                                                    \
		return call(#name, team, dest, source, n * (bytes), (struct nvs_where){.is_on_stream = false});              \
	}
#define NVS_MAKE_EXCHANGE_ON(name, type, bytes, call)                                                                       \
	NVS_API int name(int32_t team, type *dest, const type *source, size_t n, cuda_stream stream);                       \
	int name(int32_t team, type *dest, const type *source, size_t n, cuda_stream stream)                                \
	{                                                                                                                    \
		return call(#name, team, dest, source, n * (bytes), (struct nvs_where){true, stream});                       \
	}
#define NVS_MAKE_ALLTOALL(name, type, bytes) NVS_MAKE_EXCHANGE(name, type, bytes, nvs_alltoall)
#define NVS_MAKE_FCOLLECT(name, type, bytes) NVS_MAKE_EXCHANGE(name, type, bytes, nvs_fcollect)
#define NVS_MAKE_ALLTOALL_ON(name, type, bytes) NVS_MAKE_EXCHANGE_ON(name, type, bytes, nvs_alltoall)
#define NVS_MAKE_FCOLLECT_ON(name, type, bytes) NVS_MAKE_EXCHANGE_ON(name, type, bytes, nvs_fcollect)

/* Integers, float and double; half and bfloat16 are integers in C, so generate.py names those two. */
#define NVS_INTEGER(type) ((enum shmd_type)((NVS_IS_SIGNED(type) ? SHMD_TYPE_INT8 : SHMD_TYPE_UINT8) + __builtin_ctz(sizeof(type))))
#define NVS_TYPE(type) _Generic((type)0, float: SHMD_TYPE_FLOAT, double: SHMD_TYPE_DOUBLE, default: NVS_INTEGER(type))

#define NVS_MAKE_MATH(name, type, kind_, op_, is_scatter_)                                                                           \
	NVS_API int name(int32_t team, type *dest, const type *source, size_t n);                                                   \
	int name(int32_t team, type *dest, const type *source, size_t n)                                                            \
	{                                                                                                                           \
		struct nvs_math math = {dest, source, n, kind_, op_, is_scatter_};                                                  \
                                                                                                                                    \
		return nvs_reduce(#name, team, math, (struct nvs_where){.is_on_stream = false});                                    \
	}
#define NVS_MAKE_MATH_ON(name, type, kind_, op_, is_scatter_)                                                                        \
	NVS_API int name(int32_t team, type *dest, const type *source, size_t n, cuda_stream stream);                               \
	int name(int32_t team, type *dest, const type *source, size_t n, cuda_stream stream)                                        \
	{                                                                                                                           \
		struct nvs_math math = {dest, source, n, kind_, op_, is_scatter_};                                                  \
                                                                                                                                    \
		return nvs_reduce(#name, team, math, (struct nvs_where){true, stream});                                             \
	}
#define NVS_MAKE_REDUCE(name, type, bytes, kind, op) NVS_MAKE_MATH(name, type, kind, op, false)
#define NVS_MAKE_REDUCESCATTER(name, type, bytes, kind, op) NVS_MAKE_MATH(name, type, kind, op, true)
#define NVS_MAKE_REDUCE_ON(name, type, bytes, kind, op) NVS_MAKE_MATH_ON(name, type, kind, op, false)
#define NVS_MAKE_REDUCESCATTER_ON(name, type, bytes, kind, op) NVS_MAKE_MATH_ON(name, type, kind, op, true)

#endif
