/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root object: loop, listener, registry, NICs, clients, and their order of birth and death.
 *
 * NICs outlive sessions, sessions outlive the loop's watches of them until the deferred free, and until workers have
 * torn them down. Only this file decides that the daemon as a whole cannot go on. Control thread.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config.h"
#include "daemon/client.h"
#include "daemon/fdstore.h"
#include "daemon/hot-watch.h"
#include "daemon/listener.h"
#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/newcomers.h"
#include "daemon/nic/nic.h"
#include "daemon/nics.h"
#include "daemon/node.h"
#include "daemon/node-watch.h"
#include "daemon/restart/adopt.h"
#include "daemon/restart/store.h"
#include "daemon/seek.h"
#include "daemon/service.h"
#include "daemon/session/drain.h"
#include "daemon/session/node-map.h"
#include "daemon/session/registry.h"
#include "daemon/tune.h"
#include "daemon/warm.h"
#include "daemon/workers.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define ACCEPTS_PER_TURN 16
#define ACCEPT_PAUSE_NSEC (100 * NSEC_PER_MSEC)
#define LOOKS_PER_TURN 256 /* a microsecond for each at most */
#define LOOK_NSEC (100 * NSEC_PER_MSEC)
/* Without anything done for so long, or after all that time, it is left to the kernel: before the service manager's patience ends. */
#define FINISH_NSEC (30 * NSEC_PER_SEC)
#define FINISH_MOST_NSEC (80 * NSEC_PER_SEC)
/* How often the service manager is told that the start goes on, and how long it may take from then on. */
#define PROGRESS_NSEC NSEC_PER_SEC
#define PATIENCE_NSEC (60 * NSEC_PER_SEC)
/* Of the descriptors that the process may open, one part in this many is kept from connections. */
#define RESERVED_SHARE 8u
/* Of those that may be on their way, as many, a user may leave one part in this many unread, and one session's. */
#define UNREAD_SHARE 8u

struct daemon {
	struct settings *settings;
	const struct settings_source *source;
	struct loop *loop;
	struct loop_signal *sigterm, *sigint, *sighup;
	struct service service;
	uint64_t hang_in; /* fault point: the loop stands still in this accept, counted down; 0: never */
	struct listener listener;
	struct loop_watch *accept_watch;
	struct loop_timer *accept_pause;
	int accept_fds, last_fd; /* clients are accepted below this number; the number of the last one */
	struct loop_timer *drain;
	struct loop_timer *look; /* at sockets of ended sessions */
	bool look_armed;
	bool have_registry;
	struct registry registry;
	struct node_map *node_map; /* NULL: none could be made */
	struct node_watch *node_watch; /* NULL: no NIC is of the map */
	struct workers *workers; /* NULL: no NIC blocks */
	struct warm *warm; /* NULL likewise */
	struct hot_watch *hot_watch;
	struct nics nics;
	struct newcomers *newcomers; /* NULL: NICs are the daemon's own */
	struct list clients; /* struct client.link, owned */
	struct seek seek;
	struct keep_store *store; /* NULL: sessions end with the daemon */
	bool ran; /* the start succeeded */
	uint64_t progress_nsec; /* when the service manager was told last that the start goes on */
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

/* ---- NICs ------------------------------------------------------------------------------------------------------- */

/* "loop.hang:N" is the daemon's own fault point, the others are the soft NIC's. */
static const char *nic_fault(struct daemon *daemon)
{
	const char *text = getenv("SHMEMD_FAULT");
	char more;

	return text && sscanf(text, "loop.hang:%" SCNu64 "%c", &daemon->hang_in, &more) == 1 && daemon->hang_in > 0
		? NULL : text;
}

static int open_nics(struct daemon *daemon)
{
	int r;

	daemon->nics.loop = daemon->loop;
	daemon->nics.registry = &daemon->registry;
	daemon->nics.settings = daemon->settings;
	daemon->nics.fault = nic_fault(daemon);
	r = nics_open(&daemon->nics);
	/* Soft NICs are there in place of what the machine has not: they stay alone. */
	daemon->registry.attr.takes_newcomers =
		daemon->registry.blocks && daemon->settings->backend != SETTINGS_BACKEND_SOFT;
	return r;
}

/* ---- clients ------------------------------------------------------------------------------------------------------ */

static void on_accept_pause_over(void *arg)
{
	struct daemon *daemon = arg;

	loop_watch_set(daemon->accept_watch, LOOP_READ);
}

/* Out of descriptors or memory: the backlog waits, and so do we, instead of spinning on it. */
static void pause_accept(struct daemon *daemon)
{
	log_provoked(LOG_ERR, &(struct log_fields){.event = CATALOG_ACCEPT_PAUSED},
		     "cannot accept a client now: %m");
	loop_watch_set(daemon->accept_watch, 0);
	loop_timer_arm(daemon->accept_pause, ACCEPT_PAUSE_NSEC);
}

/* Only while there are some: an idle daemon sleeps. */
static void watch_ended(struct daemon *daemon)
{
	if (daemon->registry.unread.n_ended > 0 && !daemon->look_armed)
		daemon->look_armed = loop_timer_arm(daemon->look, LOOK_NSEC) == 0;
}

static void on_look(void *arg)
{
	struct daemon *daemon = arg;

	daemon->look_armed = false;
	unread_look(&daemon->registry.unread, LOOKS_PER_TURN);
	watch_ended(daemon);
}

static void on_activity(void *arg)
{
	struct daemon *daemon = arg;

	service_activity(&daemon->service);
	watch_ended(daemon);
	warm_look(daemon->warm);
	hot_watch_look(daemon->hot_watch);
}

/*
 * Connections take no more than their share of what the process may open, so that the requests of those who are in find
 * room for the descriptors that come with them. New descriptors get the lowest free number.
 */
static bool has_room(struct daemon *daemon)
{
	if (daemon->last_fd < daemon->accept_fds)
		return true;
	daemon->last_fd = fcntl(daemon->listener.fd, F_DUPFD_CLOEXEC, 0);
	if (daemon->last_fd < 0)
		daemon->last_fd = INT_MAX;
	else
		close(daemon->last_fd);
	errno = EMFILE;
	return daemon->last_fd < daemon->accept_fds;
}

static int accept_now(struct daemon *daemon)
{
	int sock = -1;

	if (has_room(daemon))
		sock = accept4(daemon->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (sock >= 0)
		daemon->last_fd = sock;
	return sock;
}

static struct client_attr client_attr(struct daemon *daemon)
{
	return (struct client_attr){
		.loop = daemon->loop,
		.registry = &daemon->registry,
		.clients = &daemon->clients,
		.handshake_nsec = daemon->settings->handshake_timeout_msec * NSEC_PER_MSEC,
		.activity = on_activity,
		.activity_arg = daemon,
	};
}

static bool accept_one(struct daemon *daemon)
{
	const struct client_attr attr = client_attr(daemon);
	int sock = accept_now(daemon);
	int r;

	if (sock < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			pause_accept(daemon);
		return false;
	}
	if (daemon->hang_in && --daemon->hang_in == 0)
		for (;;)
			pause();
	r = client_new(&attr, sock);
	if (r < 0 && r != -EDQUOT && r != -ESRCH)
		log_provoked(LOG_WARNING, NULL, "cannot serve a new client: %s", strerror(-r));
	return true;
}

static void on_accept(void *arg, unsigned int events)
{
	struct daemon *daemon = arg;

	for (int i = 0; i < ACCEPTS_PER_TURN; i++)
		if (!accept_one(daemon))
			return;
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
		if (!session_is_kept(client->session))
			session_end(client->session, SHMD_STATUS_SHUTDOWN, "%s",
				    status_text(SHMD_STATUS_SHUTDOWN));
	loop_stop(daemon->loop);
}

static void on_reload(void *arg)
{
	struct daemon *daemon = arg;
	const struct tune_target target = {daemon->settings, daemon->source, &daemon->listener, &daemon->registry,
					   daemon->warm, daemon->hot_watch};
	struct settings_error error = {"out of memory"}; /* what fails without a word */
	int r;

	service_reloading(&daemon->service);
	r = tune_reload(&target, &error);
	service_reloaded(&daemon->service, r < 0 ? error.text : NULL);
}

/* ---- birth and death ------------------------------------------------------------------------------------------------ */

/* NULL: they were looked for. */
static const char *why_no_mlx5(const struct settings *settings)
{
	if (!HAVE_MLX5)
		return "this build of shmemd has no mlx5 backend";
	return settings->backend == SETTINGS_BACKEND_SOFT
		? "shmemd was started with --backend soft, and the mlx5 backend is what drives it" : NULL;
}

static int make_registry(struct daemon *daemon, uint64_t max_fds)
{
	struct registry_attr attr = {
		.daemon = "shmemd " SHMD_VERSION_STRING,
		.no_mlx5 = why_no_mlx5(daemon->settings),
		.max_unread_fds = max_fds / UNREAD_SHARE + CONNECTION_MAX_FDS,
		.keep = daemon->store ? &adopt_keep_ops : NULL,
		.keep_arg = daemon->store,
		.hooks = {
			.arg = daemon,
			.drain_alarm = on_drain_alarm,
			.note = on_note,
			.attention = on_attention,
			.work = on_work,
		},
	};
	int r;

	tune_registry(daemon->settings, &attr);
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
	r = loop_timer_new(daemon->loop, on_look, daemon, &daemon->look);
	if (r < 0)
		return r;
	r = loop_signal_new(daemon->loop, SIGTERM, on_stop, daemon, &daemon->sigterm);
	if (r < 0)
		return r;
	r = loop_signal_new(daemon->loop, SIGINT, on_stop, daemon, &daemon->sigint);
	if (r < 0)
		return r;
	r = loop_signal_new(daemon->loop, SIGHUP, on_reload, daemon, &daemon->sighup);
	if (r < 0)
		return r;
	return loop_timer_new(daemon->loop, on_accept_pause_over, daemon, &daemon->accept_pause);
}

static int make_workers(struct daemon *daemon)
{
	const struct workers_attr attr = {
		.loop = daemon->loop,
		.n_threads = (unsigned int)daemon->settings->worker_threads,
		.activity = on_activity,
		.activity_arg = daemon,
	};
	int r = daemon->registry.blocks ? workers_new(&attr, &daemon->workers) : 0;

	if (r < 0)
		log_line(LOG_ERR, NULL, "cannot make %u worker threads: %s", attr.n_threads, strerror(-r));
	return r;
}

static int make_warm(struct daemon *daemon)
{
	struct nic_warm_attr attr;
	int r = daemon->workers ? warm_new(daemon->loop, &daemon->registry, &daemon->warm) : 0;

	if (r < 0)
		return r;
	daemon->nics.warm = daemon->warm;
	tune_warm(daemon->settings, &attr);
	warm_set(daemon->warm, &attr);
	return 0;
}

static void on_found(void *arg)
{
	struct daemon *daemon = arg;

	newcomers_look(daemon->newcomers);
}

static int make_newcomers(struct daemon *daemon)
{
	const struct newcomers_attr attr = {
		.nics = &daemon->nics,
		.seek = &daemon->seek,
		.node_map = daemon->node_map,
		.opened = on_activity,
		.arg = daemon,
	};

	daemon->seek.found = on_found;
	daemon->seek.found_arg = daemon;
	return newcomers_new(&attr, &daemon->newcomers);
}

/* ---- sessions of the daemon before, and for the one after ------------------------------------------------------- */

static int on_adopted(void *arg, struct session *session)
{
	struct daemon *daemon = arg;
	const struct client_attr attr = client_attr(daemon);

	return client_adopt(&attr, session);
}

/* The service manager's patience with a start is no measure for how many sessions there are. */
static void on_progress(void *arg)
{
	struct daemon *daemon = arg;
	uint64_t now = nsec_now();

	if (now < nsec_add(daemon->progress_nsec, PROGRESS_NSEC))
		return;
	daemon->progress_nsec = now;
	fdstore_try_notify("EXTEND_TIMEOUT_USEC=%" PRIu64, PATIENCE_NSEC / NSEC_PER_USEC);
}

static int adopt_sessions(struct daemon *daemon)
{
	const struct adopt_attr attr = {
		.registry = &daemon->registry,
		.store = daemon->store,
		.attach = on_adopted,
		.progress = on_progress,
		.arg = daemon,
	};
	struct adopt_result result;

	daemon->progress_nsec = nsec_now();
	return adopt_all(&attr, &result);
}

/* What this machine cannot do is a wrong setting, as one that cannot be read is: another start would end the same way. */
static int set_policy(struct daemon *daemon, bool *ret_is_wrong)
{
	int r = tune_policy(daemon->settings, daemon->node_map, !list_empty(&daemon->clients));

	*ret_is_wrong = r == -EINVAL;
	return r;
}

int daemon_new(struct settings *settings, const struct settings_source *source, struct daemon **ret_daemon, bool *ret_is_wrong)
{
	_cleanup_(daemon_freep) struct daemon *daemon = calloc(1, sizeof(*daemon));
	uint64_t max_fds;
	int r;

	if (!daemon)
		return -ENOMEM;
	daemon->settings = settings;
	daemon->source = source;
	daemon->listener.fd = -1;
	nics_init(&daemon->nics);
	list_init(&daemon->clients);
	signal(SIGPIPE, SIG_IGN);
	max_fds = tune_fd_limit(settings);
	daemon->accept_fds = (int)(max_fds - max_fds / RESERVED_SHARE);

	r = make_loop(daemon);
	if (r < 0)
		return r;
	r = listener_init(&daemon->listener, settings);
	if (r < 0)
		return r;
	r = keep_store_new((unsigned int)settings->max_kept_fds, &daemon->store);
	if (r < 0)
		return r;
	r = make_registry(daemon, max_fds);
	if (r < 0)
		return r;
	r = open_nics(daemon);
	if (r == 0)
		r = node_look(&daemon->registry, &daemon->node_map);
	if (r < 0)
		return r;
	daemon->registry.node_map = daemon->node_map;
	r = make_workers(daemon);
	if (r == 0)
		r = adopt_sessions(daemon);
	if (r == 0)
		r = set_policy(daemon, ret_is_wrong);
	if (r == 0)
		r = make_warm(daemon);
	if (r == 0)
		r = hot_watch_new(daemon->loop, &daemon->registry, &daemon->hot_watch);
	if (r < 0)
		return r;
	tune_hot_watch(settings, daemon->hot_watch);
	r = node_watch_new(daemon->loop, &daemon->registry, daemon->node_map, &daemon->node_watch);
	if (r < 0)
		return r;
	r = seek_init(&daemon->seek, daemon->loop, &daemon->registry);
	if (r == 0)
		r = make_newcomers(daemon);
	if (r < 0)
		return r;
	r = service_init(&daemon->service, daemon->loop, &daemon->registry, daemon->listener.path);
	if (r < 0)
		return r;
	r = loop_watch_new(daemon->loop, daemon->listener.fd, LOOP_READ, on_accept, daemon,
			   &daemon->accept_watch);
	if (r < 0)
		return r;
	*ret_daemon = take_ptr(daemon);
	return 0;
}

int daemon_run(struct daemon *daemon)
{
	log_line(LOG_INFO, &(struct log_fields){.event = CATALOG_READY}, "shmemd %s is ready at %s with %u NICs",
		 SHMD_VERSION_STRING, daemon->listener.path, daemon->registry.n_nics);
	service_ready(&daemon->service);
	daemon->ran = true;
	return loop_run(daemon->loop);
}

/* Sessions end in their fixed order, also those whose teardown waits for its turn or for a request under way. */
static void finish_work(struct daemon *daemon)
{
	int r = daemon->workers ? workers_finish(daemon->workers, FINISH_NSEC, FINISH_MOST_NSEC) : 0;

	if (r < 0) {
		log_line(LOG_ERR, NULL, "%s: what is left of it is left to the kernel",
			 r == -ETIME ? "sessions and contexts in advance take too long to tear down"
				     : "a NIC's firmware does not answer");
		listener_deinit(&daemon->listener);
		_exit(EXIT_FAILURE);
	}
	daemon->workers = workers_free(daemon->workers);
}

/*
 * Sessions that outlive this daemon stay as they are, and so does what they hold here: there is no orderly end of NICs then.
 * To end one context after the other would look to those that are left as if their peers had gone.
 */
static void __attribute__((noreturn)) leave(struct daemon *daemon)
{
	listener_deinit(&daemon->listener);
	if (!daemon->ran)
		log_line(LOG_ERR, &(struct log_fields){.event = CATALOG_START_FAILED},
			 "the start failed after sessions of the daemon before were taken over: they wait for the next start");
	fflush(NULL);
	_exit(daemon->ran ? EXIT_SUCCESS : EXIT_FAILURE);
}

struct daemon *daemon_free(struct daemon *daemon)
{
	struct client *client, *tmp;

	if (!daemon)
		return NULL;
	loop_watch_free(daemon->accept_watch);
	loop_timer_free(daemon->accept_pause);
	loop_timer_free(daemon->drain);
	list_for_each_entry_safe(client, tmp, &daemon->clients, link)
		if (!session_is_kept(client->session) || client->session->ended)
			client_free(client);
	warm_stop(daemon->warm);
	node_watch_stop(daemon->node_watch);
	newcomers_stop(daemon->newcomers);
	finish_work(daemon);
	if (!list_empty(&daemon->clients))
		leave(daemon);
	daemon->warm = warm_free(daemon->warm);
	daemon->node_watch = node_watch_free(daemon->node_watch);
	daemon->hot_watch = hot_watch_free(daemon->hot_watch);
	seek_deinit(&daemon->seek);
	loop_timer_free(daemon->look);
	daemon->newcomers = newcomers_free(daemon->newcomers);
	nics_deinit(&daemon->nics);
	if (daemon->have_registry)
		registry_deinit(&daemon->registry);
	node_map_free(daemon->node_map);
	listener_deinit(&daemon->listener);
	loop_signal_free(daemon->sigterm);
	loop_signal_free(daemon->sigint);
	loop_signal_free(daemon->sighup);
	service_deinit(&daemon->service);
	keep_store_free(daemon->store);
	fdstore_end();
	loop_free(daemon->loop);
	free(daemon);
	return NULL;
}
