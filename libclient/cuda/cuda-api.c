/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the CUDA driver.
 *
 * Once in a process, at the first use of a GPU. A failure is not kept: a driver may be loaded into the kernel later.
 */
#include "libclient/cuda/cuda-api.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <shmemclient.h>

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_api loaded;
static bool is_loaded;

static bool find(void *library, const char *symbol, void *ret_function)
{
	void *function = dlsym(library, symbol);

	/* ISO C has no conversion from an object's address to a function's. */
	memcpy(ret_function, &function, sizeof(function));
	return function != NULL;
}

static int load(struct cuda_api *api)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	const char *missing = NULL, *reason;
	cuda_result result;

	if (!library) {
		reason = dlerror();
		return shmd_error_set(-ENODEV, "no CUDA driver: %s", reason ? reason : "libcuda.so.1");
	}
#define CUDA_FIND(name, symbol, parameters)                                                                   \
	if (!find(library, symbol, &api->name))                                                               \
		missing = symbol;
	CUDA_FUNCTIONS(CUDA_FIND)
#undef CUDA_FIND
#define CUDA_FIND(name, symbol, parameters) (void)find(library, symbol, &api->name);
	CUDA_OPTIONAL_FUNCTIONS(CUDA_FIND)
	CUDA_MEMORY_FUNCTIONS(CUDA_FIND)
#undef CUDA_FIND
	if (missing) {
		dlclose(library);
		return shmd_error_set(-ENODEV, "this CUDA driver has no %s", missing);
	}
	result = api->init(0);
	/* The library stays: unloading CUDA is unsafe. */
	return result == CUDA_OK ? 0 : cuda_fail(api, result, "start CUDA");
}

int cuda_api_get(const struct cuda_api **ret_api)
{
	int r = 0;

	pthread_mutex_lock(&load_lock);
	if (!is_loaded)
		r = load(&loaded);
	if (!r)
		is_loaded = true;
	pthread_mutex_unlock(&load_lock);
	if (!r)
		*ret_api = &loaded;
	return r;
}

int cuda_has_memory_apart(const struct cuda_api *api)
{
	const char *missing = NULL;

#define CUDA_LOOK(name, symbol, parameters)                                                                   \
	if (!api->name)                                                                                       \
		missing = symbol;
	CUDA_MEMORY_FUNCTIONS(CUDA_LOOK)
#undef CUDA_LOOK
	return missing ? shmd_error_set(-EOPNOTSUPP, "this CUDA driver has no %s", missing) : 0;
}

static int errno_of(cuda_result result)
{
	switch (result) {
	case CUDA_INVALID_VALUE:
	case CUDA_INVALID_CONTEXT:
		return -EINVAL;
	case CUDA_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_IS_GONE:
		return -ESHUTDOWN;
	case CUDA_NO_GPU:
	case CUDA_INVALID_GPU:
		return -ENODEV;
	case CUDA_ALREADY_REGISTERED:
		return -EEXIST;
	case CUDA_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}

int cuda_fail(const struct cuda_api *api, cuda_result result, const char *what)
{
	const char *text = NULL;

	if (api->error_text(result, &text) != CUDA_OK || !text)
		text = "unknown error";
	return shmd_error_set(errno_of(result), "%s: CUDA says \"%s\" (%d)", what, text, result);
}
