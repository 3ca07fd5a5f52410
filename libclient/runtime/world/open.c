/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a world. An open world has a bootstrap, a rank and the hellos of all PEs; it has no heap and no session.
 *
 * Every collective step ends with an exchange of outcomes, so that a step succeeds on all PEs or on none.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <shmd/dev/args.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "libclient/runtime/bootstrap/last-words.h"
#include "libclient/runtime/gpu/device.h"
#include "libclient/runtime/settings/announce.h"
#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/settings/nvtx.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/world-start.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

#define MODULE_BYTES RUNTIME_VALUE_BYTES

static void world_free(struct shmd_world *world)
{
	if (!world)
		return;
	free(world->dev);
	free(world->pes);
	free(world->peers);
	free(world->hellos);
	free(world->outcomes);
	free(world->cards);
	pthread_mutex_destroy(&world->lock);
	pthread_mutex_destroy(&world->tables);
	pthread_mutex_destroy(&world->gpu_lock);
	pthread_mutex_destroy(&world->gpu_copies);
	free(world);
}
DEFINE_CLEANUP(struct shmd_world *, world_free);

/* ---- opening */

static void *zeroed_lines(size_t n, size_t bytes)
{
	void *memory = NULL;

	if (posix_memalign(&memory, 64, n * bytes))
		return NULL;
	return memset(memory, 0, n * bytes);
}

static void dev_init(struct shmd_world *world)
{
	struct shmd_dev_world *dev = world->dev;

	dev->version = SHMD_DEV_WORLD_VERSION;
	dev->size_bytes = sizeof(*dev);
	dev->my_pe = (uint32_t)world->rank;
	dev->n_pes = (uint32_t)world->size;
	dev->pes_addr = (uintptr_t)world->pes;
	dev->timeout_nsec = world->settings.timeout_nsec ? world->settings.timeout_nsec : SHMD_DEV_NO_TIMEOUT;
}

static int world_new(const struct shmd_bootstrap *boot, const struct runtime_settings *settings, uint32_t allow,
		     struct shmd_world **ret_world)
{
	_cleanup_(world_freep) struct shmd_world *world = calloc(1, sizeof(*world));
	size_t n = (size_t)boot->size;

	if (!world)
		return shmd_error_set(-ENOMEM, "no memory for a world");
	pthread_mutex_init(&world->lock, NULL);
	pthread_mutex_init(&world->tables, NULL);
	pthread_mutex_init(&world->gpu_lock, NULL);
	pthread_mutex_init(&world->gpu_copies, NULL);
	world->pid = getpid();
	world->boot = *boot;
	world->settings = *settings;
	world->allow = allow;
	world->rank = boot->rank;
	world->size = boot->size;
	world->hellos = calloc(n, sizeof(*world->hellos));
	world->outcomes = calloc(n, sizeof(*world->outcomes));
	world->cards = calloc(n, sizeof(*world->cards));
	world->peers = calloc(n, sizeof(*world->peers));
	world->pes = zeroed_lines(n, sizeof(*world->pes));
	world->dev = zeroed_lines(1, sizeof(*world->dev));
	if (!world->hellos || !world->outcomes || !world->cards || !world->peers || !world->pes || !world->dev)
		return shmd_error_set(-ENOMEM, "no memory for %zu PEs", n);
	for (size_t i = 0; i < n; i++)
		world->peers[i].node = world->peers[i].node_pe = -1;
	dev_init(world);
	*ret_world = take_ptr(world);
	return 0;
}

static int greet(struct shmd_world *world)
{
	struct world_hello hello;
	int r = hello_fill(&hello);

	/* A PE without a hello ends the exchange of the others, too: its bootstrap closes. */
	if (r < 0)
		return r;
	r = world->boot.ops->allgather(&world->boot, &hello, world->hellos, sizeof(hello));
	if (!r)
		r = hellos_check(world->hellos, world->size);
	if (!r)
		memcpy(world->key.secret, world->hellos[0].secret, sizeof(world->key.secret));
	return r ? r : world_watch(world);
}

int world_open_on(struct shmd_bootstrap *bootstrap, const struct runtime_settings *settings, uint32_t allow, struct shmd_world **ret_world)
{
	_cleanup_(world_freep) struct shmd_world *world = NULL;
	int r = 0;

	/* All PEs see it, and no team can be larger than the world. */
	if (bootstrap->size > TEAM_MAX_PES)
		r = shmd_error_set(-EINVAL, "a world of %d PEs: there is room for %d", bootstrap->size, TEAM_MAX_PES);
	if (!r)
		r = world_new(bootstrap, settings, allow, &world);
	if (!r)
		r = greet(world);
	if (r < 0) {
		bootstrap->ops->close(world ? &world->boot : bootstrap);
		return r;
	}
	*ret_world = take_ptr(world);
	return 0;
}

/* ---- settings and attr */

static int family_of(uint64_t family)
{
	return family == RUNTIME_FAMILY_IPV4 ? AF_INET : family == RUNTIME_FAMILY_IPV6 ? AF_INET6 : 0;
}

/* The setting as bootstrap_open() reads it. */
static void module_of(const struct runtime_settings *settings, char text[MODULE_BYTES])
{
	text[0] = '\0';
	for (unsigned int i = 0; i < runtime_n_rows; i++)
		if (!strcmp(runtime_rows[i].name, "SHMD_BOOTSTRAP"))
			runtime_value_format(&runtime_rows[i], settings, text, MODULE_BYTES);
}

static uint32_t allow_of(const struct runtime_settings *settings)
{
	return (settings->paths & RUNTIME_PATH_MAPPED ? SHMD_ALLOW_MAPPED : 0) |
	       (settings->paths & RUNTIME_PATH_QUEUE ? SHMD_ALLOW_QUEUE : 0);
}

static int check_attr(const struct shmd_world_attr *attr)
{
	if (attr->paths & ~(SHMD_ALLOW_MAPPED | SHMD_ALLOW_QUEUE))
		return shmd_error_set(-EINVAL, "paths has unknown bits: 0x%x", attr->paths);
	if ((unsigned int)attr->threads > SHMD_THREAD_MULTIPLE)
		return shmd_error_set(-EINVAL, "there is no thread level %d", (int)attr->threads);
	if (attr->uid && attr->mpi_comm)
		return shmd_error_set(-EINVAL, "both a unique id and a communicator are given");
	if (attr->socket_path && strlen(attr->socket_path) >= RUNTIME_TEXT_BYTES)
		return shmd_error_set(-ENAMETOOLONG, "socket_path has more than %d bytes", RUNTIME_TEXT_BYTES - 1);
	return attr->gpu ? device_check_name(attr->gpu) : 0;
}

static void apply_attr(const struct shmd_world_attr *attr, struct runtime_settings *settings)
{
	if (attr->heap_bytes)
		settings->heap_bytes = attr->heap_bytes;
	if (attr->timeout_nsec)
		settings->timeout_nsec = attr->timeout_nsec == SHMD_DEV_NO_TIMEOUT ? 0 : attr->timeout_nsec;
	if (attr->socket_path)
		snprintf(settings->socket, sizeof(settings->socket), "%s", attr->socket_path);
	if (attr->gpu)
		snprintf(settings->gpu, sizeof(settings->gpu), "%s", attr->gpu);
	if (attr->gpu_heap_bytes)
		settings->gpu_heap_bytes = attr->gpu_heap_bytes;
	if (attr->threads)
		settings->thread_level = (uint64_t)attr->threads - SHMD_THREAD_SINGLE + RUNTIME_THREAD_SINGLE;
}

/* Worlds that meet by the launcher are counted, and all ranks open them in the same order. */
static uint32_t number_of(const struct shmd_world_attr *attr)
{
	static uint32_t n_launched;

	return attr->uid || attr->mpi_comm ? 0 : __atomic_fetch_add(&n_launched, 1, __ATOMIC_RELAXED);
}

static int meet(const struct shmd_world_attr *attr, const struct runtime_settings *settings, struct shmd_bootstrap *ret)
{
	char module[MODULE_BYTES];
	struct bootstrap_attr how = {
		.module = attr->uid ? "uid" : attr->mpi_comm ? "mpi" : attr->bootstrap ? attr->bootstrap : module,
		.uid = attr->uid,
		.rank = attr->rank,
		.size = attr->size,
		.mpi_comm = attr->mpi_comm,
		.interface = settings->bootstrap_interface[0] ? settings->bootstrap_interface : NULL,
		.family = family_of(settings->bootstrap_family),
		.timeout_nsec = settings->bootstrap_timeout_nsec,
		.lost_nsec = settings->bootstrap_lost_nsec,
		.number = number_of(attr),
	};

	module_of(settings, module);
	return bootstrap_open(&how, ret);
}

static pthread_mutex_t reports = PTHREAD_MUTEX_INITIALIZER; /* around the log's and the profiler's beginnings */

/* The log and the profiler's ranges are the process's, and follow the newest world. */
static int reports_open(const struct runtime_settings *settings)
{
	int r;

	pthread_mutex_lock(&reports);
	r = runtime_log_open(settings, NULL);
	runtime_nvtx_open(settings, NULL);
	pthread_mutex_unlock(&reports);
	return r;
}

static int log_setting(void *arg, const struct runtime_setting_info *info)
{
	(void)arg;
	if (!info->is_default)
		runtime_log(SETTINGS, DEBUG, "%s=%s (%s)", info->name, info->value,
			    strcmp(info->source, "default") ? info->source : "attr of the world");
	return 0;
}

static int reports_identify(const struct runtime_settings *settings, int rank)
{
	int r;

	pthread_mutex_lock(&reports);
	r = runtime_log_identify(rank);
	if (!rank)
		runtime_log_unknown(NULL);
	pthread_mutex_unlock(&reports);
	if (runtime_log_wants(RUNTIME_PART_SETTINGS, RUNTIME_LOG_DEBUG))
		runtime_settings_each(settings, log_setting, NULL);
	runtime_settings_announce(settings, rank);
	return r;
}

int shmd_world_open(const struct shmd_world_attr *attr, struct shmd_world **ret_world)
{
	static const struct shmd_world_attr defaults;
	struct runtime_settings settings;
	struct shmd_bootstrap boot = {0};
	int r;

	if (!ret_world)
		return shmd_error_set(-EINVAL, "ret_world is NULL");
	attr = attr ? attr : &defaults;
	r = check_attr(attr);
	if (!r)
		r = runtime_settings_load(&settings, NULL);
	if (r < 0)
		return r;
	apply_attr(attr, &settings);
	if (settings.gpu[0])
		r = device_check_name(settings.gpu);
	if (!r)
		r = reports_open(&settings);
	if (!r)
		r = meet(attr, &settings, &boot);
	if (r < 0) {
		/* A name with a typing error may be the reason. */
		runtime_log_unknown(NULL);
		return r;
	}
	r = reports_identify(&settings, boot.rank);
	if (r < 0) {
		boot.ops->close(&boot);
		return r;
	}
	runtime_log(WORLD, INFO, "a world of %d PEs, by %s", boot.size, boot.ops->name);
	return world_open_on(&boot, &settings, attr->paths ? attr->paths : allow_of(&settings), ret_world);
}

int shmd_uid_make(struct shmd_uid *ret_uid)
{
	struct runtime_settings settings;
	struct bootstrap_attr how = {0};
	int r;

	if (!ret_uid)
		return shmd_error_set(-EINVAL, "ret_uid is NULL");
	r = runtime_settings_load(&settings, NULL);
	if (r < 0)
		return r;
	how.interface = settings.bootstrap_interface[0] ? settings.bootstrap_interface : NULL;
	how.family = family_of(settings.bootstrap_family);
	return bootstrap_uid_make(&how, ret_uid);
}

/* ---- the end */

static void world_drop(struct shmd_world *world, bool is_ours)
{
	world_stop(world, is_ours);
	/* In a child the connections are the parent's, whose end of them must not notice. */
	if (is_ours)
		world->boot.ops->close(&world->boot);
	world_free(world);
}

static bool is_forgiven(const struct shmd_world *world)
{
	uint32_t n_gone = __atomic_load_n(&world->dev->n_gone, __ATOMIC_ACQUIRE);

	return n_gone && n_gone == __atomic_load_n(&world->dev->n_gone_known, __ATOMIC_ACQUIRE);
}

int shmd_world_close(struct shmd_world *world)
{
	int r;

	if (!world)
		return 0;
	if (world->pid != getpid()) {
		world_drop(world, false);
		return 0;
	}
	runtime_log(WORLD, DEBUG, "closing the world");
	(void)world_ctx_settle(world);
	bootstrap_limit(&world->boot, world->settings.timeout_nsec);
	r = world->boot.ops->barrier(&world->boot);
	if (r < 0)
		r = world_boot_error(world, r, "shmd_world_close");
	/* The bootstrap of a world that has lost a PE cannot wait for the others. */
	if (r == -EHOSTDOWN && is_forgiven(world))
		r = 0;
	world_drop(world, true);
	return r;
}

void shmd_world_abort(struct shmd_world *world, int status, const char *why)
{
	if (status == SHMD_ABORT_SUCCESS)
		status = 0;
	else if (!status)
		status = 1;
	if (world && world->pid == getpid()) {
		__atomic_store_n(&world->dev->ended, 1, __ATOMIC_RELEASE);
		last_flush();
		world->boot.ops->abort(&world->boot, status, why ? why : "no reason given");
	}
	_exit(status);
}
