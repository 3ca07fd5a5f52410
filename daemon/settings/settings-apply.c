/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies settings to the running daemon.
 *
 * A reload first does everything that can fail: reading, comparing the policy with the machine, and changing the socket's group.
 * The rest cannot fail, so settings are never half changed. Sessions stay as they are: a lower limit binds later charges, and a
 * session keeps the figures that Hello gave it. If the file has gone since the start, nothing changes, because no administrator asked for the
 * defaults. Under socket activation the socket keeps its mode and group, and the log says so if the file wants others. A
 * daemon in the foreground takes the hang-up of its terminal for a reload; SIGTERM or Ctrl-C ends it. Control thread.
 */
#include "daemon/settings/settings-apply.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "daemon/log.h"
#include "daemon/session/node-map.h"
#include "daemon/topo/topo.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

/* The default of Linux. */
#define FD_LIMIT_UNKNOWN 1024

static struct quota_amount limits(const struct settings *settings)
{
	return (struct quota_amount){.n = {
		[QUOTA_CONNECTIONS] = settings->max_connections,
		[QUOTA_SESSIONS] = settings->max_sessions,
		[QUOTA_QPS] = settings->max_qps,
		[QUOTA_CQS] = settings->max_cqs,
		[QUOTA_MRS] = settings->max_mrs,
		[QUOTA_BYTES] = settings->max_registered_bytes,
		[QUOTA_FDS] = settings->max_fds,
		[QUOTA_PUBLISHED] = settings->max_published,
		[QUOTA_MAPS] = settings->max_mappings ? settings->max_mappings : UINT64_MAX,
	}};
}

void settings_apply_ctx_pool(const struct settings *settings, struct nic_ctx_pool_attr *ret_attr)
{
	uint32_t n = (uint32_t)settings->warm_queues, log2_depth = (uint32_t)__builtin_ctzll(settings->warm_depth);
	struct nic_queues_attr *queues = &ret_attr->queues;

	*ret_attr = (struct nic_ctx_pool_attr){.n_ctxs = (unsigned int)settings->warm_contexts};
	if (n == 0)
		return;
	queues->n_cq_specs = queues->n_qp_specs = 1;
	queues->cqs[0] = (struct nic_cq_spec){
		.count = n, .log2_entries = log2_depth, .flags = NIC_CQ_COLLAPSED | NIC_CQ_OVERRUN_IGNORE};
	queues->qps[0] = (struct nic_qp_spec){
		.count = n, .type = NIC_QP_RC, .log2_sq_wqebbs = log2_depth, .send_cq_step = 1, .recv_cq_step = 1};
}

/* "proto,session,nic" */
static unsigned int parse_debug(const char *text)
{
	static const struct {
		const char *name;
		enum note_topic topic;
	} topics[] = {{"proto", NOTE_PROTO}, {"session", NOTE_SESSION}, {"nic", NOTE_NIC}};
	unsigned int wanted = 0;

	while (text && *text) {
		size_t bytes = strcspn(text, ",");

		for (unsigned int i = 0; i < sizeof(topics) / sizeof(topics[0]); i++)
			if (strlen(topics[i].name) == bytes && strncmp(topics[i].name, text, bytes) == 0)
				wanted |= topics[i].topic;
		text += bytes + (text[bytes] == ',');
	}
	return wanted;
}

static unsigned int set_log(const struct settings *settings)
{
	unsigned int debug = parse_debug(getenv("SHMEMD_DEBUG"));

	log_init((enum log_target)settings->log_target, debug ? LOG_DEBUG : (int)settings->log_level);
	return settings->log_level >= LOG_DEBUG ? debug | NOTE_SESSION | NOTE_NIC : debug;
}

static struct nic_qp_params qp_params(const struct settings *settings)
{
	return (struct nic_qp_params){
		.timeout = (uint8_t)settings->qp_timeout,
		.retry_count = (uint8_t)settings->qp_retries,
		.rnr_retry = (uint8_t)settings->qp_rnr_retries,
		.min_rnr_timer = (uint8_t)settings->qp_rnr_timer,
		.max_rd_atomic = (uint8_t)settings->qp_reads,
	};
}

static void warn_of_removed(const struct settings *settings)
{
	if (settings->removed[0])
		log_line(LOG_WARNING, NULL, "%s" SETTINGS_REMOVED_TEXT, settings->removed);
}

void settings_apply_registry(const struct settings *settings, struct registry_attr *attr)
{
	attr->limits = limits(settings);
	attr->quiesce_nsec = settings->quiesce_timeout_msec * NSEC_PER_MSEC;
	attr->restart_grace_nsec = settings->restart_grace_msec * NSEC_PER_MSEC;
	attr->cpu_doorbells = settings->doorbell == SETTINGS_DOORBELL_CPU;
	attr->no_atomics = settings->atomics == SETTINGS_ATOMICS_OFF;
	attr->qp_params = qp_params(settings);
	attr->hooks.debug = set_log(settings);
	warn_of_removed(settings);
}

uint64_t settings_apply_fd_limit(const struct settings *settings)
{
	struct rlimit limit = {.rlim_max = FD_LIMIT_UNKNOWN};
	rlim_t old;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return limit.rlim_max;
	old = limit.rlim_cur;
	limit.rlim_cur = limit.rlim_max;
	/* Not when fs.nr_open was lowered below it. */
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		limit.rlim_max = old;
	if (limit.rlim_max < settings->max_fds)
		log_line(LOG_WARNING, NULL,
			 "max-fds is %" PRIu64 ", but this process may open only %" PRIu64
			 " descriptors; raise LimitNOFILE or lower max-fds",
			 settings->max_fds, (uint64_t)limit.rlim_max);
	return limit.rlim_max < INT_MAX ? limit.rlim_max : INT_MAX; /* "infinity" */
}

/* ---- policy --------------------------------------------------------------------------------------------------- */

/* The texts were read once already, when they were set. */
static int make_policy(const struct settings *settings, struct topo_policy **ret_policy)
{
	_cleanup_free_ struct topo_policy *policy = calloc(1, sizeof(*policy));
	char why[TOPO_POLICY_WHY_BYTES];
	int r;

	if (!policy)
		return -ENOMEM;
	r = topo_policy_set(policy, "nics-include", settings->nics_include, why);
	if (r == 0)
		r = topo_policy_set(policy, "nics-exclude", settings->nics_exclude, why);
	if (r == 0)
		r = topo_policy_set(policy, "gpu-nic-map", settings->gpu_nic_map, why);
	if (r == 0)
		*ret_policy = take_ptr(policy);
	return r;
}

/* Names the consequence of a policy that cannot be followed. */
static const char *despite(const struct node_map *map, int r, bool has_sessions)
{
	if (r == -ENETDOWN)
		return "; until the port is up, shmemd applies the rest of the map";
	if (!has_sessions)
		return "";
	return map ? "; shmemd applies the rest of it, to keep the sessions that it took over"
		   : "; shmemd ignores it, and starts to keep the sessions that it took over";
}

static void warn_of_doubts(const struct node_map *map)
{
	const char *doubts = node_map_doubts(map);

	if (*doubts)
		log_line(LOG_WARNING, &(struct log_fields){.event = CATALOG_NAMES_ABSENT}, "%s", doubts);
}

int settings_apply_policy(const struct settings *settings, struct node_map *map, bool has_sessions)
{
	_cleanup_free_ struct topo_policy *policy = NULL;
	char why[TOPO_POLICY_WHY_BYTES];
	int r = make_policy(settings, &policy);
	bool goes_on;

	if (r < 0)
		return r;
	r = node_map_check_policy(map, policy, why);
	/* Links may come up after the daemon at a boot. */
	goes_on = r == 0 || r == -ENETDOWN || has_sessions;
	if (r < 0)
		log_line(goes_on ? LOG_WARNING : LOG_ERR, NULL, "%s%s", why, despite(map, r, has_sessions));
	if (!goes_on)
		return r;
	node_map_set_policy(map, take_ptr(policy));
	warn_of_doubts(map);
	return 0;
}

/* ---- reload --------------------------------------------------------------------------------------------------- */

static int refuse(const struct settings_error *error, int r)
{
	log_line(LOG_ERR, &(struct log_fields){.event = CATALOG_RELOAD_REFUSED},
		 "settings stay as they were: %s", error->text);
	return r;
}

static void tell_changes(const struct settings_changes *changes)
{
	log_line(LOG_NOTICE, &(struct log_fields){.event = CATALOG_RELOAD_DONE}, "reloaded the settings; %s%s",
		 changes->taken[0] ? "changed: " : "none changed", changes->taken);
	if (changes->waiting[0])
		log_line(LOG_WARNING, &(struct log_fields){.event = CATALOG_RELOAD_DONE},
			 "these settings changed and take effect at the next start: %s", changes->waiting);
}

/* A missing file does not select the defaults: an empty file does, or a restart. */
static int check_file(const struct settings_apply_target *target, const struct settings *next, struct settings_error *error)
{
	const char *path = target->source->default_path;

	if (next->has_file)
		return 0;
	if (!target->settings->has_file) {
		log_line(LOG_INFO, NULL, "there is still no file %s", path);
		return 0;
	}
	snprintf(error->text, sizeof(error->text), "%s no longer exists; create an empty file to use the defaults", path);
	return -ENOENT;
}

/* The socket unit decides about the service manager's socket. */
static void keep_access(const struct settings_apply_target *target, struct settings *next)
{
	const struct settings *now = target->settings;

	if (!target->listener->activated ||
	    (now->socket_mode == next->socket_mode && strcmp(now->socket_group, next->socket_group) == 0))
		return;
	log_line(LOG_WARNING, &(struct log_fields){.event = CATALOG_RELOAD_DONE},
		 "socket-mode and socket-group have no effect under socket activation; set them in the socket unit");
	next->socket_mode = now->socket_mode;
	memcpy(next->socket_group, now->socket_group, sizeof(next->socket_group));
}

static int set_access(const struct settings_apply_target *target, const struct settings *next, struct settings_error *error)
{
	const struct settings *now = target->settings;
	int r;

	if (now->socket_mode == next->socket_mode && strcmp(now->socket_group, next->socket_group) == 0)
		return 0;
	r = listener_set_access(target->listener, next);
	if (r < 0)
		snprintf(error->text, sizeof(error->text), "the socket cannot have mode 0%" PRIo64 " and group \"%s\": %s",
			 next->socket_mode, next->socket_group, strerror(-r));
	return r;
}

static int check_policy(const struct settings_apply_target *target, const struct settings *next, struct topo_policy **ret_policy,
			struct settings_error *error)
{
	char why[TOPO_POLICY_WHY_BYTES];
	int r = make_policy(next, ret_policy);

	if (r < 0)
		return r;
	r = node_map_check_policy(target->registry->node_map, *ret_policy, why);
	if (r < 0)
		snprintf(error->text, sizeof(error->text), "%s", why);
	return r;
}

int settings_apply_reload(const struct settings_apply_target *target, struct settings_error *ret_error)
{
	_cleanup_free_ struct topo_policy *policy = NULL;
	struct settings *settings = target->settings;
	struct settings_changes changes;
	enum settings_action action;
	struct nic_ctx_pool_attr ctx_pool;
	struct settings next;
	bool has_new_fds;
	int r;

	r = settings_load(&next, target->source, &action, ret_error);
	if (r == 0)
		r = check_file(target, &next, ret_error);
	if (r == 0)
		r = check_policy(target, &next, &policy, ret_error);
	if (r < 0)
		return refuse(ret_error, r);
	keep_access(target, &next);
	r = set_access(target, &next, ret_error);
	if (r < 0)
		return refuse(ret_error, r);
	settings->has_file = next.has_file;
	has_new_fds = next.max_fds != settings->max_fds;
	settings_reload(settings, &next, &changes);
	settings_apply_registry(settings, &target->registry->attr);
	registry_set_limits(target->registry, &target->registry->attr.limits);
	settings_apply_ctx_pool(settings, &ctx_pool);
	ctx_pool_set(target->ctx_pool, &ctx_pool);
	node_map_set_policy(target->registry->node_map, take_ptr(policy));
	warn_of_doubts(target->registry->node_map);
	tell_changes(&changes);
	if (has_new_fds)
		settings_apply_fd_limit(settings);
	return 0;
}
