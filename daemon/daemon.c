/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root object: loop, listener, registry, NICs, clients, and their order of birth and death.
 *
 * NICs outlive sessions, sessions outlive the loop's watches of them until the deferred free, and until workers have torn them
 * down. At a stop the remaining sessions end in the same fixed order. If nothing ends for 30 s (10 s where users can make NICs wait
 * for their memory), or not everything within 80 s, the rest is left to the kernel, and the exit status is 1. Only this file decides that the daemon as a whole cannot go on. Control
 * thread.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "daemon/clients/accept.h"
#include "daemon/clients/client.h"
#include "daemon/clients/fair-turns.h"
#include "daemon/clients/listener.h"
#include "daemon/clients/user-pools.h"
#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/nic/nic.h"
#include "daemon/node/ctx-pool.h"
#include "daemon/node/nic-hotplug.h"
#include "daemon/node/nics.h"
#include "daemon/node/node.h"
#include "daemon/node/redraw.h"
#include "daemon/node/watch.h"
#include "daemon/porter-watch.h"
#include "daemon/porter/zygote.h"
#include "daemon/restart/resume.h"
#include "daemon/restart/store.h"
#include "daemon/service/fdstore.h"
#include "daemon/service/service.h"
#include "daemon/session/drain.h"
#include "daemon/session/node-map.h"
#include "daemon/session/registry.h"
#include "daemon/settings/settings-apply.h"
#include "daemon/settings/settings-saved.h"
#include "daemon/workers.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/sandbox.h"
#include "proto/base/show.h"
#include "proto/base/thread.h"

/* Without anything done for so long, or after all that time, it is left to the kernel: before the service manager's patience ends. */
#define FINISH_NSEC (30 * NSEC_PER_SEC)
#define TOLD_NSEC NSEC_PER_SEC /* a porter that writes health pages takes longer only if its user makes it */
#define FINISH_STALLED_NSEC (10 * NSEC_PER_SEC) /* where a user's memory is all that takes so long */
#define FINISH_MOST_NSEC (80 * NSEC_PER_SEC)
/* During a start: how often it asks the service manager for more time, and for how much. */
#define PROGRESS_NSEC NSEC_PER_SEC
#define PATIENCE_NSEC (60 * NSEC_PER_SEC)
/* A user may leave at most 1/8 of the in-flight descriptor limit unread, plus one session's worth. */
#define INFLIGHT_SHARE 8u

struct daemon {
	struct settings *settings;
	const struct settings_source *source;
	struct loop *loop;
	struct loop_signal *sigterm, *sigint, *sighup;
	struct service service;
	uint64_t hang_in; /* fault point: struct accept_attr */
	uint64_t max_fds; /* that the process may open */
	int zygote; /* owned, until the porters have it */
	int nic_zygote; /* owned: the same, for processes of NICs */
	struct porter_watch *porters;
	struct listener listener;
	struct accept *accept;
	struct loop_timer *drain;
	bool have_registry;
	struct registry registry;
	struct node_map *node_map; /* NULL: none could be made */
	struct redraw *redraw; /* NULL: no NIC is of the map */
	struct workers *workers;
	struct ctx_pool *ctx_pool; /* NULL: no NIC blocks */
	struct nics nics;
	struct nic_hotplug *hotplug; /* NULL: NICs are the daemon's own */
	struct turns *turns;
	struct list clients; /* struct client.link, owned */
	struct node_watch node_watch;
	struct manager_store *store; /* NULL: sessions end with the daemon */
	bool is_wrong; /* the start failed by its settings */
	bool ran; /* the start succeeded */
	int sandbox_r; /* of the next */
	struct sandbox sandbox; /* what processes that handle clients' descriptors get */
	uint64_t progress_nsec; /* of the last request for more time to start */
};

DEFINE_CLEANUP(struct daemon *, daemon_free);

/* ---- hooks of the registry ------------------------------------------------------------------------------------ */

static void on_note(void *arg, const struct note *note)
{
	const struct session *session = note->session;
	struct log_fields fields = {
		.nic = note->nic, .qpn = note->qpn, .kind = note->kind, .event = note->event};

	if (session) {
		fields.session = session->id;
		fields.has_peer = true;
		fields.uid = session->identity.uid;
		fields.pid = session->identity.pid;
	}
	/* Debug lines were asked for by name: none is dropped. */
	if (note->provoked && note->level != LOG_DEBUG)
		log_provoked(note->level, &fields, "%s", note->text);
	else
		log_line(note->level, &fields, "%s", note->text);
}

static void on_drain_alarm(void *arg, uint64_t nsec)
{
	struct daemon *daemon = arg;

	loop_timer_arm(daemon->drain, nsec);
}

static void on_attention(void *arg, struct session *session)
{
	client_attention(session);
}

static void on_work(void *arg, struct work *work)
{
	struct daemon *daemon = arg;

	workers_submit(daemon->workers, work);
}

/* How long the control thread waits for works that are quick unless their user stalls; over all a tenth of its time. */
#define RUN_PATIENCE_NSEC (20 * NSEC_PER_MSEC)

static bool on_run(void *arg, struct work *work)
{
	struct daemon *daemon = arg;

	return workers_run(daemon->workers, work, RUN_PATIENCE_NSEC);
}

/* A look at NICs waits so long for a worker; then what is known is shown. */
#define OFFER_NSEC (50 * NSEC_PER_MSEC)

static void on_offer(void *arg, struct work *work)
{
	struct daemon *daemon = arg;

	workers_offer(daemon->workers, work, OFFER_NSEC);
}

/* ---- NICs ------------------------------------------------------------------------------------------------------- */

/* "loop.hang:N" is the daemon's own fault point, the others are the soft NIC's. */
static const char *nic_fault(struct daemon *daemon)
{
	const char *text = getenv("SHMEMD_FAULT");
	char more;

	return text && sscanf(text, "loop.hang:%" SCNu64 "%c", &daemon->hang_in, &more) == 1 && daemon->hang_in > 0
		? NULL : text;
}

static int start_executor(void *arg, uint32_t uid, int *ret_channel)
{
	const struct zygote_order order = {.kind = ZYGOTE_EXECUTOR, .uid = uid};

	return zygote_fork(((struct daemon *)arg)->nic_zygote, &order, -1, ret_channel);
}

static int start_mapper(void *arg, uint32_t uid, int *ret_channel)
{
	const struct zygote_order order = {.kind = ZYGOTE_MAPPER, .uid = uid};

	return zygote_fork(((struct daemon *)arg)->nic_zygote, &order, -1, ret_channel);
}

static int open_nics(struct daemon *daemon)
{
	int r;

	if (daemon->settings->soft_executors == SETTINGS_EXECUTORS_PROCESS)
		daemon->nics.start_executor = start_executor;
	daemon->nics.start_mapper = start_mapper;
	daemon->nics.start_arg = daemon;
	daemon->nics.loop = daemon->loop;
	daemon->nics.registry = &daemon->registry;
	daemon->nics.settings = daemon->settings;
	daemon->nics.fault = nic_fault(daemon);
	r = nics_open(&daemon->nics);
	/* Soft NICs are there in place of what the machine has not: they stay alone. */
	daemon->registry.attr.has_hotplug =
		daemon->registry.blocks && daemon->settings->backend != SETTINGS_BACKEND_SOFT;
	return r;
}

/* ---- clients ------------------------------------------------------------------------------------------------------ */

static void on_activity(void *arg)
{
	struct daemon *daemon = arg;

	/* Workers import sessions before all of this is there. */
	if (!daemon->ran)
		return;
	service_activity(&daemon->service);
	accept_look(daemon->accept);
	ctx_pool_look(daemon->ctx_pool);
}

static struct client_attr client_attr(struct daemon *daemon)
{
	return (struct client_attr){
		.loop = daemon->loop,
		.registry = &daemon->registry,
		.turns = daemon->turns,
		.clients = &daemon->clients,
		.handshake_nsec = daemon->settings->handshake_timeout_msec * NSEC_PER_MSEC,
		.activity = on_activity,
		.activity_arg = daemon,
	};
}

static int on_connection(void *arg, int sock)
{
	const struct client_attr attr = client_attr(arg);

	return client_new(&attr, sock);
}

static void on_drain(void *arg)
{
	struct daemon *daemon = arg;

	drain_run(&daemon->registry);
}

static void on_stop(void *arg)
{
	struct daemon *daemon = arg;
	struct client *client;

	service_stopping(&daemon->service);
	log_line(LOG_INFO, &(struct log_fields){.event = CATALOG_STOPPING}, "stopping");
	list_for_each_entry(client, &daemon->clients, link)
		if (!session_is_saved(client->session))
			session_end(client->session, SHMD_STATUS_SHUTDOWN, "%s",
				    status_text(SHMD_STATUS_SHUTDOWN));
	loop_stop(daemon->loop);
}

/* Without this the next daemon takes defaults if its settings are wrong. */
static void save_settings(const struct daemon *daemon)
{
	int r = settings_saved_write(daemon->settings);

	if (r < 0)
		log_line(LOG_WARNING, NULL, "cannot save the settings for the next daemon: %s", strerror(-r));
}

static void on_reload(void *arg)
{
	struct daemon *daemon = arg;
	const struct settings_apply_target target = {daemon->settings, daemon->source, &daemon->listener, &daemon->registry,
						     daemon->ctx_pool};
	struct settings_error error = {"out of memory"}; /* what fails without a word */
	int r;

	service_reloading(&daemon->service);
	r = settings_apply_reload(&target, &error);
	if (r == 0)
		save_settings(daemon);
	service_reloaded(&daemon->service, r < 0 ? error.text : NULL);
}

/* ---- birth and death ------------------------------------------------------------------------------------------------ */

/* NULL: they were looked for. */
static const char *why_no_mlx5(const struct settings *settings)
{
	if (nic_mlx5_backend.why_not)
		return nic_mlx5_backend.why_not;
	return settings->backend == SETTINGS_BACKEND_SOFT
		? "shmemd was started with --backend soft, and only the mlx5 backend drives it" : NULL;
}

static int make_registry(struct daemon *daemon)
{
	struct registry_attr attr = {
		.daemon = "shmemd " SHMD_VERSION_STRING,
		.backends = nic_backends,
		.no_mlx5 = why_no_mlx5(daemon->settings),
		.n_admin_places = USER_POOLS_ADMIN_PLACES,
		.sees_gpu = node_named_file() ? NULL : node_sees_gpu,
		.knows_uuids = node_named_file() ? NULL : node_knows_uuids,
		.porters = porter_watch_porters(daemon->porters),
		.max_inflight_fds = daemon->max_fds / INFLIGHT_SHARE + CONNECTION_MAX_FDS,
		.save = daemon->store ? &save_ops : NULL,
		.store = &resume_store,
		.store_arg = daemon->store,
		.hooks = {
			.arg = daemon,
			.drain_alarm = on_drain_alarm,
			.note = on_note,
			.attention = on_attention,
			.work = on_work,
			.run = on_run,
			.offer = on_offer,
		},
	};
	int r;

	user_pools_compute(daemon->max_fds, daemon->settings->soft_nics, &attr.pools);
	settings_apply_registry(daemon->settings, &attr);
	r = registry_init(&daemon->registry, &attr);
	daemon->have_registry = r == 0;
	return r;
}

static int make_loop(struct daemon *daemon)
{
	int r;

	r = loop_new(&daemon->loop);
	if (r < 0)
		return r;
	r = loop_timer_new(daemon->loop, on_drain, daemon, &daemon->drain);
	if (r < 0)
		return r;
	r = loop_signal_new(daemon->loop, SIGTERM, on_stop, daemon, &daemon->sigterm);
	if (r < 0)
		return r;
	r = loop_signal_new(daemon->loop, SIGINT, on_stop, daemon, &daemon->sigint);
	if (r < 0)
		return r;
	return loop_signal_new(daemon->loop, SIGHUP, on_reload, daemon, &daemon->sighup);
}

static int make_turns(struct daemon *daemon)
{
	return turns_new(daemon->loop, &daemon->turns);
}

/* The next daemon has a zygote. Without a manager that keeps sessions, those that have a porter go on here. */
static void on_zygote_ended(void *arg)
{
	struct daemon *daemon = arg;

	log_line(LOG_ERR, NULL, "the process that starts porters has ended: %s", daemon->store
		 ? "shmemd ends as well, so that the service manager starts the next one, and sessions go on there"
		 : "clients of users without a porter cannot connect until shmemd is restarted");
	if (daemon->store)
		on_stop(daemon);
}

/* The zygote comes first, so that porters have nothing that the daemon opens later. */
static int make_zygote(struct daemon *daemon)
{
	const struct zygote_runs runs = {
		.run = {[ZYGOTE_EXECUTOR] = nic_soft_backend.serve, [ZYGOTE_MAPPER] = nic_mlx5_backend.serve}};
	int r;

	daemon->sandbox_r = sandbox_try(&daemon->sandbox);
	r = zygote_start(&runs, &daemon->zygote);
	if (r == 0) {
		daemon->nic_zygote = fcntl(daemon->zygote, F_DUPFD_CLOEXEC, 3);
		r = daemon->nic_zygote < 0 ? -errno : 0;
	}
	if (r < 0)
		log_line(LOG_ERR, NULL, "cannot start the process that makes porters: %s", strerror(-r));
	return r;
}

static int make_porters(struct daemon *daemon)
{
	const struct porter_watch_attr attr = {
		.loop = daemon->loop,
		.zygote = take_fd(&daemon->zygote),
		.linger_nsec = 2 * daemon->settings->restart_grace_msec * NSEC_PER_MSEC,
		.activity = on_activity,
		.zygote_ended = on_zygote_ended,
		.arg = daemon,
	};

	return porter_watch_new(&attr, &daemon->porters);
}

static int make_listener(struct daemon *daemon)
{
	return listener_init(&daemon->listener, daemon->settings);
}

static int make_store(struct daemon *daemon)
{
	int r = manager_store_new((unsigned int)daemon->settings->max_kept_fds, &daemon->store);

	manager_store_set_porters(daemon->store, porter_watch_porters(daemon->porters));
	porters_set_lifeline(porter_watch_porters(daemon->porters), manager_store_lifeline(daemon->store));
	return r;
}

static int make_accept(struct daemon *daemon)
{
	const struct accept_attr attr = {
		.loop = daemon->loop,
		.listener = &daemon->listener,
		.registry = &daemon->registry,
		.max_fds = daemon->max_fds,
		.hang_in = daemon->hang_in,
		.serve = on_connection,
		.arg = daemon,
	};

	return accept_new(&attr, &daemon->accept);
}

static int make_map(struct daemon *daemon)
{
	int r = node_map_make(&daemon->registry, &daemon->node_map);

	daemon->registry.node_map = daemon->node_map;
	return r;
}

static int make_workers(struct daemon *daemon)
{
	const struct workers_attr attr = {
		.loop = daemon->loop,
		.n_threads = (unsigned int)daemon->settings->worker_threads,
		.activity = on_activity,
		.activity_arg = daemon,
	};
	int r = workers_new(&attr, &daemon->workers);

	if (r < 0)
		log_line(LOG_ERR, NULL, "cannot start %u worker thread%s: %s", attr.n_threads, plural_s(attr.n_threads), strerror(-r));
	return r;
}

static int make_ctx_pool(struct daemon *daemon)
{
	struct nic_ctx_pool_attr attr;
	int r = daemon->registry.blocks ? ctx_pool_new(daemon->loop, &daemon->registry, &daemon->ctx_pool) : 0;

	if (r < 0)
		return r;
	daemon->nics.ctx_pool = daemon->ctx_pool;
	settings_apply_ctx_pool(daemon->settings, &attr);
	ctx_pool_set(daemon->ctx_pool, &attr);
	return 0;
}

static int make_redraw(struct daemon *daemon)
{
	return redraw_new(daemon->loop, &daemon->registry, daemon->node_map, &daemon->redraw);
}

static int make_node_watch(struct daemon *daemon)
{
	return node_watch_init(&daemon->node_watch, daemon->loop, &daemon->registry, daemon->redraw);
}

static void on_found(void *arg)
{
	struct daemon *daemon = arg;

	nic_hotplug_look(daemon->hotplug);
}

static int make_nic_hotplug(struct daemon *daemon)
{
	const struct nic_hotplug_attr attr = {
		.nics = &daemon->nics,
		.watch = &daemon->node_watch,
		.node_map = daemon->node_map,
		.opened = on_activity,
		.arg = daemon,
	};

	daemon->node_watch.found = on_found;
	daemon->node_watch.found_arg = daemon;
	return nic_hotplug_new(&attr, &daemon->hotplug);
}

static int make_service(struct daemon *daemon)
{
	return service_init(&daemon->service, daemon->loop, &daemon->registry, daemon->listener.path);
}

static int begin_accepting(struct daemon *daemon)
{
	return accept_begin(daemon->accept);
}

/* ---- sessions of the daemon before, and for the one after ------------------------------------------------------- */

static int on_imported(void *arg, struct session *session)
{
	struct daemon *daemon = arg;
	const struct client_attr attr = client_attr(daemon);

	return client_import(&attr, session);
}

/* Extends the start time-out of the service manager, since resuming takes longer with more sessions. */
static void on_progress(void *arg)
{
	struct daemon *daemon = arg;
	uint64_t now = nsec_now();

	if (now < nsec_add(daemon->progress_nsec, PROGRESS_NSEC))
		return;
	daemon->progress_nsec = now;
	fdstore_try_notify("EXTEND_TIMEOUT_USEC=%" PRIu64, PATIENCE_NSEC / NSEC_PER_USEC);
}

static void on_wait(void *arg, uint64_t nsec)
{
	struct daemon *daemon = arg;

	workers_finish(daemon->workers, nsec, nsec);
}

/*
 * Clients wait for the next daemon for restart-grace, so NICs must go on before, whatever an import waits for. Firmware imports
 * sessions at its own speed, and no user holds it up.
 */
#define LEAST_RESUME_NSEC (3 * NSEC_PER_SEC)

static uint64_t most_resume_nsec(const struct daemon *daemon)
{
	uint64_t nsec = daemon->settings->restart_grace_msec * NSEC_PER_MSEC / 4 * 3;

	if (!daemon->registry.stalls)
		return 0;
	return nsec > LEAST_RESUME_NSEC ? nsec : LEAST_RESUME_NSEC;
}

static int resume_sessions(struct daemon *daemon)
{
	const struct resume_attr attr = {
		.wait = on_wait,
		.most_nsec = most_resume_nsec(daemon),
		.registry = &daemon->registry,
		.store = daemon->store,
		.attach = on_imported,
		.progress = on_progress,
		.arg = daemon,
	};
	struct resume_result result;
	int r;

	daemon->progress_nsec = nsec_now();
	r = resume_all(&attr, &result);
	/* A session that comes too late ends here, and until then porters of the daemon before hold what it has. */
	if (r == 0 && result.n_late == 0)
		porters_tell_taken(porter_watch_porters(daemon->porters));
	return r;
}

/* A policy that this machine cannot follow is a wrong setting: another start would end the same way. */
static int set_policy(struct daemon *daemon)
{
	int r = settings_apply_policy(daemon->settings, daemon->node_map, !list_empty(&daemon->clients));

	daemon->is_wrong = r == -EINVAL;
	return r;
}

/* In this order: each may use what those before it made. */
static int (*const births[])(struct daemon *daemon) = {
	make_zygote,
	make_loop,
	make_turns,
	make_porters,
	make_listener,
	make_store,
	make_registry,
	open_nics,
	make_accept,
	make_map,
	make_workers,
	resume_sessions,
	set_policy,
	make_ctx_pool,
	make_redraw,
	make_node_watch,
	make_nic_hotplug,
	make_service,
	begin_accepting,
};

int daemon_new(struct settings *settings, const struct settings_source *source, struct daemon **ret_daemon, bool *ret_is_wrong)
{
	_cleanup_(daemon_freep) struct daemon *daemon = calloc(1, sizeof(*daemon));
	int r = 0;

	*ret_is_wrong = false;
	if (!daemon)
		return -ENOMEM;
	daemon->settings = settings;
	daemon->source = source;
	daemon->listener.fd = daemon->zygote = daemon->nic_zygote = -1;
	nics_init(&daemon->nics);
	list_init(&daemon->clients);
	signal(SIGPIPE, SIG_IGN);
	/* If RLIMIT_FSIZE forbids a larger memfd, the call fails with -EFBIG; the signal is not needed. */
	signal(SIGXFSZ, SIG_IGN);
	user_pools_bound_malloc();
	/* Before any other thread or process: all of them have somebody who waits for an answer. */
	thread_take_short_turns();
	daemon->max_fds = settings_apply_fd_limit(settings);
	for (unsigned int i = 0; i < sizeof(births) / sizeof(births[0]) && r == 0; i++)
		r = births[i](daemon);
	*ret_is_wrong = daemon->is_wrong;
	if (r == 0)
		*ret_daemon = take_ptr(daemon);
	return r;
}

/* In containers and on other kernels there may be less; sessions go on all the same. */
static void tell_sandbox(const struct daemon *daemon)
{
	const char *lack = daemon->sandbox_r < 0 ? strerror(-daemon->sandbox_r) : sandbox_lack(&daemon->sandbox);

	if (lack)
		log_line(LOG_NOTICE, NULL, "porters, executors and mappers are not confined as they should be: %s", lack);
}

int daemon_run(struct daemon *daemon)
{
	char nics[NICS_TEXT_BYTES];

	log_line(LOG_INFO, &(struct log_fields){.event = CATALOG_READY}, "shmemd %s is ready on %s with %s",
		 SHMD_VERSION_STRING, daemon->listener.path, nics_text(&daemon->registry, nics));
	tell_sandbox(daemon);
	save_settings(daemon);
	service_set_trouble(&daemon->service, daemon->source->trouble);
	service_ready(&daemon->service);
	daemon->ran = true;
	return loop_run(daemon->loop);
}

static const char *why_unfinished(const struct daemon *daemon, int r)
{
	if (r == -ETIME)
		return "destroying sessions and pooled contexts takes too long";
	return daemon->registry.stalls ? "the end of a session waits for memory of its user" : "the firmware of a NIC does not answer";
}

/* Sessions end in their fixed order, also those whose teardown waits for its turn or for a request under way. */
static void finish_work(struct daemon *daemon)
{
	uint64_t patience = daemon->registry.stalls ? FINISH_STALLED_NSEC : FINISH_NSEC;
	int r = daemon->workers ? workers_finish(daemon->workers, patience, FINISH_MOST_NSEC) : 0;

	if (r == 0 && daemon->workers)
		r = workers_stop(daemon->workers, patience);
	if (r < 0) {
		log_line(LOG_ERR, NULL, "%s: leaving the rest to the kernel", why_unfinished(daemon, r));
		listener_deinit(&daemon->listener);
		fdstore_end();
		_exit(EXIT_FAILURE);
	}
	daemon->workers = workers_free(daemon->workers);
}

/* Only then their sockets outlive this process with their porters, and their last answers are on their way. */
static void give_to_manager(struct daemon *daemon)
{
	struct client *client, *tmp;

	if (list_empty(&daemon->clients))
		return;
	fdstore_await();
	list_for_each_entry_safe(client, tmp, &daemon->clients, link)
		session_flush(client->session);
}

/*
 * Sessions that outlive this daemon stay as they are, with all objects that they hold here: the daemon does not close NICs then.
 * To end one context after the other would look to those that are left as if their peers had gone.
 */
static void __attribute__((noreturn)) leave(struct daemon *daemon)
{
	nics_rest(&daemon->nics);
	listener_deinit(&daemon->listener);
	if (!daemon->ran)
		log_line(LOG_ERR, &(struct log_fields){.event = CATALOG_START_FAILED},
			 "cannot start, after taking over sessions of the previous daemon: they wait for the next one");
	fdstore_end();
	fflush(NULL);
	_exit(daemon->ran ? EXIT_SUCCESS : EXIT_FAILURE);
}

struct daemon *daemon_free(struct daemon *daemon)
{
	struct client *client, *tmp;

	if (!daemon)
		return NULL;
	accept_stop(daemon->accept);
	loop_timer_free(daemon->drain);
	list_for_each_entry_safe(client, tmp, &daemon->clients, link)
		if (!session_is_saved(client->session) || client->session->ended)
			client_free(client);
	give_to_manager(daemon);
	if (daemon->porters)
		porters_await_told(porter_watch_porters(daemon->porters), TOLD_NSEC);
	if (daemon->have_registry)
		registry_leave_porters(&daemon->registry);
	ctx_pool_stop(daemon->ctx_pool);
	redraw_stop(daemon->redraw);
	nic_hotplug_stop(daemon->hotplug);
	finish_work(daemon);
	if (!list_empty(&daemon->clients))
		leave(daemon);
	daemon->turns = turns_free(daemon->turns);
	daemon->ctx_pool = ctx_pool_free(daemon->ctx_pool);
	node_watch_deinit(&daemon->node_watch);
	daemon->redraw = redraw_free(daemon->redraw);
	daemon->accept = accept_free(daemon->accept);
	daemon->hotplug = nic_hotplug_free(daemon->hotplug);
	nics_deinit(&daemon->nics);
	if (daemon->have_registry)
		registry_deinit(&daemon->registry);
	porter_watch_free(daemon->porters);
	safe_close(daemon->zygote);
	safe_close(daemon->nic_zygote);
	node_map_free(daemon->node_map);
	listener_deinit(&daemon->listener);
	loop_signal_free(daemon->sigterm);
	loop_signal_free(daemon->sigint);
	loop_signal_free(daemon->sighup);
	service_deinit(&daemon->service);
	manager_store_free(daemon->store);
	fdstore_end();
	loop_free(daemon->loop);
	free(daemon);
	return NULL;
}
