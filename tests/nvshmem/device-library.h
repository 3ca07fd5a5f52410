/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of NVSHMEM without a GPU: it has the functions of the host library that the process has loaded, and a device library of its own, whose
 * symbols lie in memory of the fake CUDA as those of NVIDIA's lie in a GPU's.
 */
#ifndef SHMEMD_TESTS_DEVICE_LIBRARY_H
#define SHMEMD_TESTS_DEVICE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "libclient/compat/nvshmem/images.h"

#define CHECK(condition)                                                                              \
	do {                                                                                          \
		if (!(condition)) {                                                                   \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);       \
			exit(1);                                                                      \
		}                                                                                     \
	} while (0)

typedef void *stream_t;

struct dims { /* dim3 */
	unsigned int x, y, z;
};

/* Member, and parameters as the interface has them. */
#define HOST_FUNCTIONS(X)                                                                                                          \
	X(int, nvshmemid_hostlib_init_attr, (int, int *, unsigned int, struct nvs_init_attr *, struct nvs_version, int (*)(void **, void **))) \
	X(void, nvshmemid_hostlib_finalize, (void *, void *))                                                                      \
	X(int, nvshmemid_init_status, (void))                                                                                      \
	X(int, nvshmemx_hostlib_init_attr, (unsigned int, struct nvs_init_attr *))                                                 \
	X(void, nvshmemx_hostlib_finalize, (void))                                                                                 \
	X(int, nvshmemx_init_status, (void))                                                                                       \
	X(int, nvshmemx_get_uniqueid, (struct nvs_uid *))                                                                          \
	X(int, nvshmemx_set_attr_uniqueid_args, (int, int, struct nvs_uid *, struct nvs_init_attr *))                              \
	X(int, nvshmemx_cumodule_init, (const void *))                                                                             \
	X(int, nvshmemx_cumodule_finalize, (const void *))                                                                         \
	X(int, nvshmemx_culibrary_init, (const void *))                                                                            \
	X(int, nvshmem_my_pe, (void))                                                                                              \
	X(int, nvshmem_n_pes, (void))                                                                                              \
	X(void, nvshmem_info_get_version, (int *, int *))                                                                          \
	X(void, nvshmemx_vendor_get_version_info, (int *, int *, int *))                                                           \
	X(void *, nvshmem_malloc, (size_t))                                                                                        \
	X(void *, nvshmem_calloc, (size_t, size_t))                                                                                \
	X(void *, nvshmem_align, (size_t, size_t))                                                                                 \
	X(void, nvshmem_free, (void *))                                                                                            \
	X(int, nvshmemx_buffer_register, (void *, size_t))                                                                         \
	X(int, nvshmemx_buffer_unregister, (void *))                                                                               \
	X(void, nvshmemx_buffer_unregister_all, (void))                                                                            \
	X(void *, nvshmem_ptr, (const void *, int))                                                                                \
	X(void *, nvshmemx_mc_ptr, (int32_t, const void *))                                                                        \
	X(void, nvshmem_barrier_all, (void))                                                                                       \
	X(void, nvshmem_sync_all, (void))                                                                                          \
	X(int, nvshmem_barrier, (int32_t))                                                                                         \
	X(void, nvshmem_quiet, (void))                                                                                             \
	X(uint64_t, nvshmem_signal_fetch, (uint64_t *))                                                                            \
	X(int, nvshmem_team_my_pe, (int32_t))                                                                                      \
	X(int, nvshmem_team_n_pes, (int32_t))                                                                                      \
	X(int, nvshmem_team_translate_pe, (int32_t, int, int32_t))                                                                 \
	X(int, nvshmem_team_split_strided, (int32_t, int, int, int, const struct nvs_team_config *, long, int32_t *))              \
	X(int, nvshmem_team_split_2d, (int32_t, int, const struct nvs_team_config *, long, int32_t *, const struct nvs_team_config *, long, int32_t *)) \
	X(void, nvshmem_team_destroy, (int32_t))                                                                                   \
	X(void, nvshmem_putmem, (void *, const void *, size_t, int))                                                               \
	X(void, nvshmem_getmem, (void *, const void *, size_t, int))                                                               \
	X(void, nvshmem_int_put_nbi, (int *, const int *, size_t, int))                                                            \
	X(void, nvshmem_int_get_nbi, (int *, const int *, size_t, int))                                                            \
	X(void, nvshmem_double_p, (double *, double, int))                                                                         \
	X(double, nvshmem_double_g, (const double *, int))                                                                         \
	X(void, nvshmem_short_iput, (short *, const short *, ptrdiff_t, ptrdiff_t, size_t, int))                                   \
	X(void, nvshmem_iget32, (void *, const void *, ptrdiff_t, ptrdiff_t, size_t, int))                                         \
	X(int, nvshmem_float_broadcast, (int32_t, float *, const float *, size_t, int))                                            \
	X(int, nvshmem_uint64_fcollect, (int32_t, uint64_t *, const uint64_t *, size_t))                                           \
	X(void, nvshmemx_int_iput_on_stream, (int *, const int *, ptrdiff_t, ptrdiff_t, size_t, int, stream_t))                     \
	X(void, nvshmemx_iget16_on_stream, (void *, const void *, ptrdiff_t, ptrdiff_t, size_t, int, stream_t))                     \
	X(void, nvshmemx_putmem_on_stream, (void *, const void *, size_t, int, stream_t))                                          \
	X(void, nvshmemx_getmem_on_stream, (void *, const void *, size_t, int, stream_t))                                          \
	X(void, nvshmemx_putmem_signal_on_stream, (void *, const void *, size_t, uint64_t *, uint64_t, int, int, stream_t))        \
	X(void, nvshmemx_signal_wait_until_on_stream, (uint64_t *, int, uint64_t, stream_t))                                       \
	X(int, nvshmemx_broadcastmem_on_stream, (int32_t, void *, const void *, size_t, int, stream_t))                            \
	X(int, nvshmemx_alltoallmem_on_stream, (int32_t, void *, const void *, size_t, stream_t))                                  \
	X(void, nvshmemx_barrier_all_on_stream, (stream_t))                                                                        \
	X(int, nvshmemx_team_sync_on_stream, (int32_t, stream_t))                                                                  \
	X(int, nvshmemx_qp_create, (int, int32_t **))                                                                              \
	X(void, nvshmem_debug_log, (int, unsigned long, const char *, int, const char *, ...))                                     \
	X(void *, nvshmemx_buffer_register_symmetric, (void *, size_t, int))                                                       \
	X(void *, nvshmemx_buffer_register_symmetric_at_preferred_address, (void *, size_t, void *, int))                          \
	X(int, nvshmemx_buffer_unregister_symmetric, (void *, size_t))                                                             \
	X(void, nvshmem_int_atomic_add, (int *, int, int))                                                                         \
	X(int, nvshmem_int_atomic_fetch_add, (int *, int, int))                                                                    \
	X(void, nvshmem_uint64_atomic_inc, (uint64_t *, int))                                                                      \
	X(long, nvshmem_long_atomic_fetch_inc, (long *, int))                                                                      \
	X(void, nvshmem_double_atomic_set, (double *, double, int))                                                                \
	X(float, nvshmem_float_atomic_swap, (float *, float, int))                                                                 \
	X(double, nvshmem_double_atomic_fetch, (const double *, int))                                                              \
	X(int64_t, nvshmem_int64_atomic_compare_swap, (int64_t *, int64_t, int64_t, int))                                          \
	X(void, nvshmem_uint_atomic_or, (unsigned int *, unsigned int, int))                                                       \
	X(uint32_t, nvshmem_uint32_atomic_fetch_and, (uint32_t *, uint32_t, int))                                                  \
	X(int32_t, nvshmem_int32_atomic_fetch_xor, (int32_t *, int32_t, int))                                                      \
	X(void, nvshmemx_double_atomic_add, (double *, double, int))                                                               \
	X(float, nvshmemx_float_atomic_fetch_add, (float *, float, int))                                                           \
	X(void, nvshmemx_half_atomic_add, (uint16_t *, uint16_t, int))                                                             \
	X(uint16_t, nvshmemx_half_atomic_fetch_add, (uint16_t *, uint16_t, int))                                                   \
	X(int, nvshmem_int_sum_reduce, (int32_t, int *, const int *, size_t))                                                      \
	X(int, nvshmem_uint32_xor_reduce, (int32_t, uint32_t *, const uint32_t *, size_t))                                         \
	X(int, nvshmem_int_max_reducescatter, (int32_t, int *, const int *, size_t))                                               \
	X(int, nvshmem_double_min_reduce, (int32_t, double *, const double *, size_t))                                             \
	X(int, nvshmem_half_sum_reduce, (int32_t, uint16_t *, const uint16_t *, size_t))                                           \
	X(int, nvshmem_schar_min_reduce, (int32_t, signed char *, const signed char *, size_t))                                    \
	X(int, nvshmemx_bfloat16_prod_reduce_on_stream, (int32_t, uint16_t *, const uint16_t *, size_t, stream_t))                 \
	X(int, nvshmemx_int_sum_reduce_on_stream, (int32_t, int *, const int *, size_t, stream_t))                                 \
	X(int, nvshmemx_int_prod_reduce_on_stream, (int32_t, int *, const int *, size_t, stream_t))                                \
	X(int, nvshmemx_int_max_reduce_on_stream, (int32_t, int *, const int *, size_t, stream_t))                                 \
	X(int, nvshmemx_int64_or_reduce_on_stream, (int32_t, int64_t *, const int64_t *, size_t, stream_t))                        \
	X(int, nvshmemx_int_sum_reducescatter_on_stream, (int32_t, int *, const int *, size_t, stream_t))                          \
	X(int, nvshmemx_char_fcollect_on_stream, (int32_t, char *, const char *, size_t, stream_t))                                \
	X(int, nvshmemx_barrier_on_stream, (int32_t, stream_t))                                                                    \
	X(void, nvshmemx_int_p_on_stream, (int *, int, int, stream_t))                                                             \
	X(void, nvshmemx_double_p_on_stream, (double *, double, int, stream_t))                                                    \
	X(void, nvshmemx_schar_p_on_stream, (signed char *, signed char, int, stream_t))                                           \
	X(double, nvshmemx_double_g_on_stream, (const double *, int, stream_t))                                                    \
	X(void, nvshmemx_signal_op_on_stream, (uint64_t *, uint64_t, int, int, stream_t))                                          \
	X(void, nvshmemx_short_wait_until_on_stream, (short *, int, short, stream_t))                                              \
	X(void, nvshmemx_uint64_wait_until_on_stream, (uint64_t *, int, uint64_t, stream_t))                                       \
	X(void, nvshmemx_long_wait_until_all_on_stream, (long *, size_t, const int *, int, long, stream_t))                        \
	X(void, nvshmemx_long_wait_until_all_vector_on_stream, (long *, size_t, const int *, int, long *, stream_t))               \
	X(uint64_t, nvshmem_uint64_atomic_fetch, (const uint64_t *, int))                                                          \
	X(int, nvshmem_team_get_config, (int32_t, struct nvs_team_config *))                                                       \
	X(int, nvshmemx_team_get_uniqueid, (uint64_t *))                                                                           \
	X(int, nvshmemx_team_init, (int32_t *, struct nvs_team_config *, long, int, int))                                          \
	X(int, nvshmemx_collective_launch, (const void *, struct dims, struct dims, void **, size_t, stream_t))                    \
	X(int, nvshmemx_collective_launch_attr, (const void *, const void *, void **))                                             \
	X(int, nvshmemx_collective_launch_query_gridsize, (const void *, struct dims, void **, size_t, int *))                     \
	X(void, nvshmemx_flush, (void))                                                                                            \
	X(void, nvshmemx_flush_on_stream, (stream_t))                                                                              \
	X(void, nvshmemx_signal_counted_reset, (uint64_t *))                                                                       \
	X(int, nvshmemx_region_start, (uint64_t *, const void *))                                                                  \
	X(int, nvshmemx_region_stop, (uint64_t))                                                                                   \
	X(int, nvshmemx_region_is_active, (uint32_t, int *))

struct host {
#define HOST_MEMBER(type, name, parameters) type(*name) parameters;
	HOST_FUNCTIONS(HOST_MEMBER)
#undef HOST_MEMBER
	int *transport; /* nvshmem_selected_device_transport */
	int *debug_level; /* nvshmem_debug_level */
	uint64_t *debug_mask; /* nvshmem_debug_mask */
};
extern struct host host;

/* By the name and the version that programs ask for. */
void host_load(void);

/* The symbols of the device library, with bytes behind them that belong to something else. */
struct device_library {
	struct nvs_version version;
	unsigned char *state, *transport;
	int n_asked;
	int selected; /* nvshmem_selected_device_transport when it was asked */
	bool is_lost; /* it does not find its state */
};
extern struct device_library device_library;

void device_library_make(int minor);
/* main() of a program MINOR WAY: takes the way on GPU 0, after prepare(), which may be NULL. Returns the exit status, 2 for an unknown way. */
struct way {
	const char *name;
	void (*run)(void);
};
int device_library_main(char **argv, const struct way *ways, size_t n_ways, void (*prepare)(void));
/* nvshmem_init() and nvshmem_finalize() as the headers have them: what the device library makes of them. */
int device_library_init(unsigned int flags, struct nvs_init_attr *attr);
void device_library_finalize(void);
/* The state as the device library has it; checks that nothing was written behind it. */
struct nvs_state device_library_state(void);

#endif
