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

/* ---- what is not there: whatever the caller passes, in whatever registers, is left alone */

#define NVS_MISSING_INT(name, type)                  \
	NVS_API int name(void);                       \
	int name(void)                                \
	{                                             \
		static int is_known;                  \
                                                      \
		return nvs_missing(#name, &is_known); \
	}
#define NVS_MISSING_VOID(name, type)                 \
	NVS_API void name(void);                      \
	void name(void)                               \
	{                                             \
		static int is_known;                  \
                                                      \
		(void)nvs_missing(#name, &is_known);  \
	}
#define NVS_MISSING_T(name, type)                    \
	NVS_API type name(void);                      \
	type name(void)                               \
	{                                             \
		static int is_known;                  \
                                                      \
		(void)nvs_missing(#name, &is_known);  \
		return (type)0;                       \
	}
#define NVS_MISSING_POINTER(name, type) NVS_MISSING_T(name, type)

#endif
