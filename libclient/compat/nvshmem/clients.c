/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owners of copies of the state: device libraries, which say where their symbols are when they are called back, and modules and libraries of
 * kernels, whose symbols are looked up. Nothing in the state changes while a job lives, so each gets it once; that of queues follows the heap. Each gets as many bytes as it
 * has, because another symbol lies behind its state.
 */
#include <errno.h>
#include <stdlib.h>

#include "libclient/compat/nvshmem/ibgda.h"
#include "libclient/compat/nvshmem/proxy.h"
#include "proto/base/cleanup.h"

/* Read by device libraries from 3.6 on, before they say where their symbols are: 0, no queues, or 1. Programs may have the only copy of it. */
NVS_API extern int nvshmem_selected_device_transport;

/* ---- the list; with the lock */

int nvs_client_add(struct nvs_client client)
{
	struct nvs_client *copy = malloc(sizeof(*copy));

	if (!copy)
		return shmd_error_set(-ENOMEM, "no memory for a device library");
	*copy = client;
	copy->next = nvs.clients;
	nvs.clients = copy;
	return 0;
}

static void end(struct nvs_client **at)
{
	struct nvs_client *client = *at;

	*at = client->next;
	free(client);
}

void nvs_client_remove(uint64_t state)
{
	for (struct nvs_client **at = &nvs.clients; state && *at; at = &(*at)->next)
		if ((*at)->state == state) {
			end(at);
			return;
		}
}

void nvs_client_remove_newest(void)
{
	end(&nvs.clients);
}

void nvs_clients_drop(void)
{
	while (nvs.clients)
		end(&nvs.clients);
}

/* ---- the state to one of them */

/* Device code up to 3.4 without code for queues asks a thread of the host; what later one asks is not known here. */
static bool needs_channel(const struct nvs_client *client)
{
	return !client->transport && nvs_version_class(client->version) == NVS_CLASS_A;
}

static int show_way(const struct nvs_client *client, struct nvs_facts *facts)
{
	if (!needs_channel(client))
		return nvs_ibgda_show(client);
	nvs_proxy_open_channel(facts);
	return 0;
}

static int write_state(const struct nvs_client *client)
{
	const struct nvs_set *set = &nvs.sets[nvs_class_set(nvs_version_class(client->version), (uint32_t)nvs.facts.npes)];
	struct nvs_facts facts = nvs.facts;
	struct nvs_state state;
	int r;

	facts.team_pool = set->pool;
	facts.psync_pool = (uint64_t)(uintptr_t)set->psync;
	facts.sync_counter = (uint64_t)(uintptr_t)set->counters;
	r = nvs.ibgda ? show_way(client, &facts) : nvs_ibgda_tell_count(client);
	nvs_state_fill(&facts, client->bytes, &state);
	return r ? r : device_write(nvs.device, client->state, &state, client->bytes);
}

/* Its result means nothing: up to 3.4 it returns nothing. */
static int ask(struct nvs_client *client)
{
	void *state = NULL, *transport = NULL;
	int r = device_enter(nvs.device);

	if (r < 0)
		return r;
	nvshmem_selected_device_transport = nvs.ibgda != NULL;
	(void)client->find(&state, &transport);
	r = device_leave(nvs.device, CUDA_OK, "ask for the device library's symbols");
	if (r < 0)
		return r;
	if (!state)
		return shmd_error_set(-ENXIO, "the device library of the program does not find its state on this GPU; is the program built for it?");
	client->state = (uint64_t)(uintptr_t)state;
	client->transport = (uint64_t)(uintptr_t)transport;
	r = write_state(client);
	client->has_state = !r;
	return r;
}

int nvs_clients_show(void)
{
	int r = 0;

	for (struct nvs_client *client = nvs.clients; !r && client; client = client->next)
		if (!client->has_state)
			r = ask(client);
	return r;
}

/* A program may unload kernels without telling the library; their memory is gone then. */
static bool is_unloaded(const struct nvs_client *client)
{
	const struct cuda_api *cuda = nvs.device->cuda;
	cuda_address seen = 0;
	cuda_result result;

	if (client->find || !cuda->pointer_attribute || device_enter(nvs.device))
		return false;
	result = cuda->pointer_attribute(&seen, CUDA_POINTER_GPU_ADDRESS, client->transport);
	return !device_leave(nvs.device, CUDA_OK, "") && result != CUDA_OK;
}

int nvs_clients_show_queues(void)
{
	struct nvs_client **at = &nvs.clients;
	int r = 0;

	while (!r && *at) {
		struct nvs_client *client = *at;

		if (client->has_state && !needs_channel(client) && is_unloaded(client)) {
			end(at);
			continue;
		}
		if (client->has_state && !needs_channel(client))
			r = nvs_ibgda_show(client);
		at = &client->next;
	}
	return r;
}

void nvs_clients_hide(void)
{
	for (struct nvs_client *client = nvs.clients; client; client = client->next)
		client->has_state = false;
}

/* ---- modules and libraries of kernels */

typedef cuda_result (*lookup_fn)(cuda_address *ret_addr, size_t *ret_bytes, void *handle, const char *name);

static int look_up(lookup_fn lookup, void *handle, const char *name, size_t least, cuda_address *ret_addr, size_t *ret_bytes)
{
	int r = device_enter(nvs.device);
	cuda_result result;

	if (r < 0)
		return r;
	result = lookup(ret_addr, ret_bytes, handle, name);
	r = device_leave(nvs.device, result, name);
	if (!r && *ret_bytes < least)
		r = shmd_error_set(-EINVAL, "%s has %zu bytes in these kernels, and not %zu", name, *ret_bytes, least);
	return r;
}

static int find_symbols(lookup_fn lookup, void *handle, struct nvs_client *client)
{
	cuda_address version_at = 0;
	size_t bytes = 0, transport_bytes = 0;
	int r = look_up(lookup, handle, "nvshmemi_device_lib_version_d", sizeof(client->version), &version_at, &bytes);

	if (!r)
		r = device_read(nvs.device, &client->version, version_at, sizeof(client->version));
	if (!r)
		r = look_up(lookup, handle, "nvshmemi_device_state_d", offsetof(struct nvs_state, tma_policy), &client->state, &bytes);
	/* Kernels without it have no code for queues. */
	if (!r && look_up(lookup, handle, "nvshmemi_ibgda_device_state_d", sizeof(struct nvs_ibgda_state), &client->transport, &transport_bytes) < 0)
		client->transport = 0;
	client->bytes = bytes < sizeof(struct nvs_state) ? (uint32_t)bytes : (uint32_t)sizeof(struct nvs_state);
	return r;
}

static int add(lookup_fn lookup, void *handle)
{
	struct nvs_client client = {.has_state = true};
	int r = lookup ? find_symbols(lookup, handle, &client) : nvs_lacks("the lookup of symbols");

	if (!r)
		r = nvs_version_check(client.version, nvs_newer_is_allowed());
	if (!r)
		r = write_state(&client);
	return r ? r : nvs_client_add(client);
}

static int add_kernels(const char *name, lookup_fn (*choose)(void), void *handle)
{
	int r = nvs_ready();

	if (r < 0)
		return nvs_fail(name, r);
	pthread_mutex_lock(&nvs.lock);
	r = add(choose(), handle);
	pthread_mutex_unlock(&nvs.lock);
	return nvs_result(name, r);
}

static int remove_kernels(const char *name, lookup_fn (*choose)(void), void *handle)
{
	struct nvs_client client = {.find = NULL};
	int r;

	if (!nvs_is_running())
		return NVS_SUCCESS;
	pthread_mutex_lock(&nvs.lock);
	r = choose() ? find_symbols(choose(), handle, &client) : 0;
	if (!r)
		nvs_client_remove(client.state);
	pthread_mutex_unlock(&nvs.lock);
	return nvs_result(name, r);
}

static lookup_fn of_module(void)
{
	return nvs.device->cuda->module_symbol;
}

static lookup_fn of_library(void)
{
	return nvs.device->cuda->library_symbol;
}

NVS_API int nvshmemx_cumodule_init(void *module);
int nvshmemx_cumodule_init(void *module)
{
	return add_kernels("nvshmemx_cumodule_init", of_module, module);
}

NVS_API int nvshmemx_cumodule_finalize(void *module);
int nvshmemx_cumodule_finalize(void *module)
{
	return remove_kernels("nvshmemx_cumodule_finalize", of_module, module);
}

NVS_API int nvshmemx_culibrary_init(void *library);
int nvshmemx_culibrary_init(void *library)
{
	return add_kernels("nvshmemx_culibrary_init", of_library, library);
}

NVS_API int nvshmemx_culibrary_finalize(void *library);
int nvshmemx_culibrary_finalize(void *library)
{
	return remove_kernels("nvshmemx_culibrary_finalize", of_library, library);
}
