/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA driver API that the library and compat/nvshmem call, loaded at run time: a process without libcuda.so.1 runs.
 *
 * Types and numbers are CUDA's own, declared again here so that the build needs no header of CUDA.
 */
#ifndef SHMEMD_CLIENT_CUDA_API_H
#define SHMEMD_CLIENT_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef int cuda_result; /* CUresult */
typedef int cuda_ordinal; /* CUdevice */
typedef void *cuda_context; /* CUcontext */
typedef void *cuda_stream; /* CUstream */
typedef uint64_t cuda_address; /* CUdeviceptr */
typedef void *cuda_module; /* CUmodule */
typedef void *cuda_function; /* CUfunction */
typedef unsigned long long cuda_memory; /* CUmemGenericAllocationHandle */

enum {
	CUDA_OK = 0,
	CUDA_INVALID_VALUE = 1,
	CUDA_OUT_OF_MEMORY = 2,
	CUDA_IS_GONE = 4, /* CUDA_ERROR_DEINITIALIZED: the process ends */
	CUDA_NO_GPU = 100,
	CUDA_INVALID_GPU = 101,
	CUDA_INVALID_CONTEXT = 201,
	CUDA_NOT_READY = 600,
	CUDA_ALREADY_REGISTERED = 712,
	CUDA_NO_PEER_ACCESS = 217, /* CUDA_ERROR_PEER_ACCESS_UNSUPPORTED */
	CUDA_KERNEL_REFUSES = 304, /* CUDA_ERROR_OPERATING_SYSTEM */
	CUDA_NOT_PERMITTED = 800,
	CUDA_NOT_SUPPORTED = 801,
};

#define CUDA_REGISTER_PORTABLE 0x1u
#define CUDA_REGISTER_MAP 0x2u
#define CUDA_REGISTER_IO 0x4u
#define CUDA_STREAM_NON_BLOCKING 0x1u
#define CUDA_WAIT_AT_LEAST 0x0u /* CU_STREAM_WAIT_VALUE_GEQ: the difference, as a signed number, is not below 0 */
#define CUDA_WAIT_EQUAL 0x1u
#define CUDA_POINTER_GPU_ADDRESS 3 /* CU_POINTER_ATTRIBUTE_DEVICE_POINTER */
#define CUDA_POINTER_HOST_ADDRESS 4 /* CU_POINTER_ATTRIBUTE_HOST_POINTER */
#define CUDA_POINTER_RANGE_START 11 /* CU_POINTER_ATTRIBUTE_RANGE_START_ADDR */
#define CUDA_POINTER_RANGE_BYTES 12 /* CU_POINTER_ATTRIBUTE_RANGE_SIZE */
#define CUDA_LOADS_LAZILY 2 /* CU_MODULE_LAZY_LOADING */
#define CUDA_CAPTURE_RELAXED 2 /* CU_STREAM_CAPTURE_MODE_RELAXED */
#define CUDA_RANGE_DMABUF 1 /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */

/* ---- memory operations of streams */

#define CUDA_MEMOP_WRITE4 2 /* CU_STREAM_MEM_OP_WRITE_VALUE_32 */
#define CUDA_MEMOP_WRITE8 5 /* CU_STREAM_MEM_OP_WRITE_VALUE_64 */
#define CUDA_MAX_MEMOPS 255u /* of one call */

/* CUstreamBatchMemOpParams of a write. CUDA fences before each. */
struct cuda_memop {
	int kind;
	uint64_t addr, value;
	unsigned int flags;
	uint64_t reserved[2];
};
_Static_assert(sizeof(struct cuda_memop) == 48, "as CUDA has it");

/* ---- launches with attributes */

struct cuda_launch_attribute { /* CUlaunchAttribute */
	unsigned int id, unused;
	unsigned int value[16];
};
_Static_assert(sizeof(struct cuda_launch_attribute) == 72, "as CUDA has it");

struct cuda_launch { /* CUlaunchConfig */
	unsigned int grid[3], block[3], shared_bytes;
	cuda_stream stream;
	struct cuda_launch_attribute *attributes;
	unsigned int n_attributes;
};
_Static_assert(sizeof(struct cuda_launch) == 56, "as CUDA has it");

/* ---- memory apart from addresses ("virtual memory management") */

#define CUDA_PLACE_GPU 1 /* CU_MEM_LOCATION_TYPE_DEVICE */
#define CUDA_MEMORY_PINNED 1 /* CU_MEM_ALLOCATION_TYPE_PINNED */
#define CUDA_HANDLE_FD 1 /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
#define CUDA_ACCESS_READ_WRITE 3 /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */

struct cuda_place { /* CUmemLocation */
	int kind, id;
};

struct cuda_memory_attr { /* CUmemAllocationProp */
	int kind, handle_kinds;
	struct cuda_place place;
	void *unused;
	uint8_t compression, is_for_nics; /* gpuDirectRDMACapable */
	uint8_t more[6];
};
_Static_assert(sizeof(struct cuda_memory_attr) == 32, "as CUDA has it");

struct cuda_access { /* CUmemAccessDesc */
	struct cuda_place place;
	int flags;
};
_Static_assert(sizeof(struct cuda_access) == 12, "as CUDA has it");

/* Member of cuda_api, symbol, parameters. */
#define CUDA_FUNCTIONS(X)                                                                                     \
	X(init, "cuInit", (unsigned int flags))                                                               \
	X(error_text, "cuGetErrorString", (cuda_result error, const char **text))                             \
	X(gpu_get, "cuDeviceGet", (cuda_ordinal * gpu, int ordinal))                                          \
	X(gpu_name, "cuDeviceGetName", (char *name, int bytes, cuda_ordinal gpu))                             \
	X(gpu_pci, "cuDeviceGetPCIBusId", (char *pci, int bytes, cuda_ordinal gpu))                           \
	X(primary_retain, "cuDevicePrimaryCtxRetain", (cuda_context * context, cuda_ordinal gpu))             \
	X(primary_release, "cuDevicePrimaryCtxRelease_v2", (cuda_ordinal gpu))                                \
	X(context_current, "cuCtxGetCurrent", (cuda_context * context))                                       \
	X(context_gpu, "cuCtxGetDevice", (cuda_ordinal * gpu))                                                \
	X(context_push, "cuCtxPushCurrent_v2", (cuda_context context))                                        \
	X(context_pop, "cuCtxPopCurrent_v2", (cuda_context * context))                                        \
	X(stream_create, "cuStreamCreate", (cuda_stream * stream, unsigned int flags))                        \
	X(stream_destroy, "cuStreamDestroy_v2", (cuda_stream stream))                                         \
	X(stream_sync, "cuStreamSynchronize", (cuda_stream stream))                                           \
	X(stream_query, "cuStreamQuery", (cuda_stream stream))                                                \
	X(host_register, "cuMemHostRegister_v2", (void *addr, size_t bytes, unsigned int flags))              \
	X(host_unregister, "cuMemHostUnregister", (void *addr))                                               \
	X(host_address, "cuMemHostGetDevicePointer_v2", (cuda_address * gpu, void *addr, unsigned int flags)) \
	X(alloc, "cuMemAlloc_v2", (cuda_address * addr, size_t bytes))                                        \
	X(free, "cuMemFree_v2", (cuda_address addr))                                                          \
	X(copy_in, "cuMemcpyHtoDAsync_v2",                                                                    \
	  (cuda_address dst, const void *src, size_t bytes, cuda_stream stream))                              \
	X(copy_out, "cuMemcpyDtoHAsync_v2",                                                                   \
	  (void *dst, cuda_address src, size_t bytes, cuda_stream stream))                                    \
	X(set8, "cuMemsetD8Async", (cuda_address dst, unsigned char value, size_t bytes, cuda_stream stream)) \
	X(copy_within, "cuMemcpyDtoDAsync_v2",                                                                \
	  (cuda_address dst, cuda_address src, size_t bytes, cuda_stream stream))                             \
	X(gpu_count, "cuDeviceGetCount", (int *n))

/* The same; NULL if the driver lacks the function. */
#define CUDA_OPTIONAL_FUNCTIONS(X)                                                                            \
	X(range_handle, "cuMemGetHandleForAddressRange",                                                      \
	  (void *ret_handle, cuda_address addr, size_t bytes, int kind, unsigned long long flags))            \
	X(priority_range, "cuCtxGetStreamPriorityRange", (int *least, int *greatest))                         \
	X(stream_create_priority, "cuStreamCreateWithPriority",                                               \
	  (cuda_stream * stream, unsigned int flags, int priority))                                           \
	X(gpu_attribute, "cuDeviceGetAttribute", (int *ret_value, int attribute, cuda_ordinal gpu))            \
	X(stream_write4, "cuStreamWriteValue32_v2",                                                           \
	  (cuda_stream stream, cuda_address addr, uint32_t value, unsigned int flags))                        \
	X(stream_write8, "cuStreamWriteValue64_v2",                                                           \
	  (cuda_stream stream, cuda_address addr, uint64_t value, unsigned int flags))                        \
	X(stream_batch, "cuStreamBatchMemOp_v2",                                                              \
	  (cuda_stream stream, unsigned int n, struct cuda_memop *memops, unsigned int flags))                      \
	X(stream_wait8, "cuStreamWaitValue64_v2",                                                             \
	  (cuda_stream stream, cuda_address addr, uint64_t value, unsigned int flags))                        \
	X(stream_capture, "cuStreamIsCapturing", (cuda_stream stream, int *ret_status))                       \
	X(module_symbol, "cuModuleGetGlobal_v2",                                                              \
	  (cuda_address * ret_addr, size_t *ret_bytes, void *module, const char *name))                       \
	X(library_symbol, "cuLibraryGetGlobal",                                                               \
	  (cuda_address * ret_addr, size_t *ret_bytes, void *library, const char *name))                      \
	X(module_load, "cuModuleLoadData", (cuda_module * module, const void *image))                         \
	X(module_unload, "cuModuleUnload", (cuda_module module))                                              \
	X(module_function, "cuModuleGetFunction", (cuda_function * function, cuda_module module, const char *name)) \
	X(launch, "cuLaunchKernel",                                                                           \
	  (cuda_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, \
	   unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, cuda_stream stream, void **parameters, void **extra)) \
	X(launch_with, "cuLaunchKernelEx",                                                                    \
	  (const struct cuda_launch *launch, cuda_function function, void **parameters, void **extra))       \
	X(max_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                          \
	  (int *ret_n, cuda_function function, int threads, size_t shared_bytes))                             \
	X(copy_any, "cuMemcpyAsync", (cuda_address dst, cuda_address src, size_t bytes, cuda_stream stream))  \
	X(pointer_attribute, "cuPointerGetAttribute", (void *ret, int attribute, cuda_address ptr))           \
	X(address_range, "cuMemGetAddressRange_v2", (cuda_address *ret_begin, size_t *ret_bytes, cuda_address ptr)) \
	X(memory_retain, "cuMemRetainAllocationHandle", (cuda_memory *ret_memory, void *addr))                    \
	X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                                     \
	X(loading_mode, "cuModuleGetLoadingMode", (int *ret_mode))

/* All of them are there, or cuda_has_memory_apart() says which is not. */
#define CUDA_MEMORY_FUNCTIONS(X)                                                                                  \
	X(memory_step, "cuMemGetAllocationGranularity", (size_t * ret_bytes, const struct cuda_memory_attr *attr, int which)) \
	X(memory_new, "cuMemCreate",                                                                              \
	  (cuda_memory * ret_memory, size_t bytes, const struct cuda_memory_attr *attr, unsigned long long flags)) \
	X(memory_release, "cuMemRelease", (cuda_memory memory))                                                   \
	X(memory_export, "cuMemExportToShareableHandle", (void *ret_handle, cuda_memory memory, int kind, unsigned long long flags)) \
	X(memory_import, "cuMemImportFromShareableHandle", (cuda_memory * ret_memory, void *handle, int kind))    \
	X(range_reserve, "cuMemAddressReserve",                                                                   \
	  (cuda_address * ret_addr, size_t bytes, size_t align, cuda_address wish, unsigned long long flags))     \
	X(range_free, "cuMemAddressFree", (cuda_address addr, size_t bytes))                                      \
	X(range_map, "cuMemMap", (cuda_address addr, size_t bytes, size_t offset, cuda_memory memory, unsigned long long flags)) \
	X(range_unmap, "cuMemUnmap", (cuda_address addr, size_t bytes))                                           \
	X(range_access, "cuMemSetAccess", (cuda_address addr, size_t bytes, const struct cuda_access *access, size_t n))

struct cuda_api {
#define CUDA_MEMBER(name, symbol, parameters) cuda_result(*name) parameters;
	CUDA_FUNCTIONS(CUDA_MEMBER)
	CUDA_OPTIONAL_FUNCTIONS(CUDA_MEMBER)
	CUDA_MEMORY_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
};

/*
 * Loads libcuda.so.1 and initialises it, once in a process; it stays loaded. -ENODEV, with text, without a
 * driver or a GPU.
 */
int cuda_api_get(const struct cuda_api **ret_api);
/* 0, or -EOPNOTSUPP with text: a driver older than CUDA 11 lacks CUDA_MEMORY_FUNCTIONS. */
int cuda_has_memory_apart(const struct cuda_api *api);
/* Sets the error text "what: CUDA's words" and returns a negative errno for a result that is not CUDA_OK. */
int cuda_fail(const struct cuda_api *api, cuda_result result, const char *what);

#endif
