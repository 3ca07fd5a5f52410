/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client on its connection: Hello, the health page, closing.
 *
 * A forked child gets -ECHILD from every call and may only close, which frees its copy and leaves the parent's session alone.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "libclient/agent.h"
#include "libclient/client-open.h"
#include "libclient/from-msg.h"
#include "libclient/objects.h"
#include "proto/framing.h"

DEFINE_CLEANUP(struct shmd_client *, shmd_client_close);

/* ---- opening */

static int map_health_page(struct shmd_client *client, int fd)
{
	struct stat st;
	void *page;

	if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(struct shmd_health_page))
		return text_fail(-EPROTO, "shmemd's health page is too small");
	page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return text_fail(-errno, "cannot map the health page: %s", strerror(errno));
	client->health = page;
	if (client->health->version != SHMD_HEALTH_PAGE_VERSION)
		return text_fail(-EPROTONOSUPPORT, "shmemd's health page has version %u, this library knows %u",
				 client->health->version, SHMD_HEALTH_PAGE_VERSION);
	return 0;
}

static int take_hello(struct shmd_client *client, struct request *call)
{
	const struct msg_hello_rep *rep = &call->rep.hello_rep;
	_cleanup_close_ int fd = -1;
	int r;

	if (rep->version < SHMD_PROTOCOL_VERSION_MIN || rep->version > SHMD_PROTOCOL_VERSION_MAX)
		return text_fail(-EPROTONOSUPPORT, "shmemd chose protocol version %u, this library speaks %u to %u",
				 rep->version, SHMD_PROTOCOL_VERSION_MIN, SHMD_PROTOCOL_VERSION_MAX);
	restart_none(&client->restart);
	client->session = rep->session;
	client->limits = rep->limits;
	text_copy(client->daemon, sizeof(client->daemon), rep->daemon);
	if (client->role == SHMD_ROLE_CONTROL)
		return 0;
	fd = request_take_fd(call, 0);
	r = fd < 0 ? fd : map_health_page(client, fd);
	if (r < 0 || !rep->watch_fd)
		return r;
	r = request_take_fd(call, rep->watch_fd - 1);
	return r < 0 ? r : restart_begin(&client->restart, r, rep->restart_grace_nsec);
}

static int client_hello(struct shmd_client *client)
{
	_cleanup_request_ struct request call;
	struct msg_hello_req *req = &call.req.hello_req;
	int r;

	request_init(&call, MSG_HELLO_REQ, MSG_HELLO_REP);
	req->version_min = SHMD_PROTOCOL_VERSION_MIN;
	req->version_max = SHMD_PROTOCOL_VERSION_MAX;
	req->role = client->role == SHMD_ROLE_CONTROL ? MSG_ROLE_CONTROL : MSG_ROLE_CLIENT;
	req->resumes = req->role == MSG_ROLE_CLIENT;
	text_copy(req->library, sizeof(req->library), "libshmemclient " SHMD_VERSION_STRING);
	restart_expect(&client->restart);
	r = request_call(client, &call);
	return r < 0 ? r : take_hello(client, &call);
}

static int client_make_pollable(struct shmd_client *client)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int flags;

	flags = fcntl(client->sock, F_GETFL);
	if (flags < 0 || fcntl(client->sock, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	client->events.signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (client->events.signal_fd < 0)
		return -errno;
	client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (client->epoll_fd < 0 ||
	    epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, client->sock, &ev) < 0 ||
	    epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, client->events.signal_fd, &ev) < 0)
		return -errno;
	return 0;
}

static struct shmd_client *client_new(int sock, const struct shmd_client_attr *attr)
{
	struct shmd_client *client = calloc(1, sizeof(*client));

	if (!client) {
		safe_close(sock);
		return NULL;
	}
	client->pid = getpid();
	client->sock = sock;
	client->epoll_fd = client->events.signal_fd = -1;
	restart_init(&client->restart);
	client->role = attr && attr->role ? attr->role : SHMD_ROLE_CLIENT;
	client->timeout_nsec = attr && attr->timeout_nsec ? attr->timeout_nsec
							  : CLIENT_DEFAULT_TIMEOUT_NSEC;
	client->trace = trace_is_wanted();
	client->next_id = 1;
	pthread_mutex_init(&client->lock, NULL);
	list_init(&client->nics);
	list_init(&client->mems);
	list_init(&client->mrs);
	list_init(&client->queues);
	list_init(&client->dcts);
	list_init(&client->gpus);
	list_init(&client->gpu_pins);
	list_init(&client->gpu_mems);
	return client;
}

int client_open_on_fd(int sock, const struct shmd_client_attr *attr, struct shmd_client **ret_client)
{
	_cleanup_(shmd_client_closep) struct shmd_client *client = client_new(sock, attr);
	int r;

	if (!client)
		return text_fail(-ENOMEM, "no memory for a client");
	client->buf = malloc(FRAMING_MAX_PACKET_BYTES);
	if (!client->buf)
		return text_fail(-ENOMEM, "no memory for a client");
	r = client_make_pollable(client);
	if (r < 0)
		return text_fail(r, "cannot prepare the connection: %s", strerror(-r));
	r = client_hello(client);
	if (!r && client->health)
		r = watcher_start(client);
	if (r < 0)
		return r;
	*ret_client = take_ptr(client);
	return 0;
}

/* ---- closing */

static void client_free_objects(struct shmd_client *client)
{
	struct shmd_queues *queues, *queues_next;
	struct shmd_dct *dct, *dct_next;
	struct shmd_mr *mr, *mr_next;
	struct shmd_nic *nic, *nic_next;
	struct shmd_mem *mem, *mem_next;

	agent_free(client);
	gpu_mem_free_all(client);
	gpu_close_all(client);
	list_for_each_entry_safe(queues, queues_next, &client->queues, link)
		queues_free(queues);
	list_for_each_entry_safe(dct, dct_next, &client->dcts, link)
		dct_free(dct);
	list_for_each_entry_safe(mr, mr_next, &client->mrs, link)
		mr_free(mr);
	list_for_each_entry_safe(nic, nic_next, &client->nics, link)
		nic_free(nic);
	list_for_each_entry_safe(mem, mem_next, &client->mems, link)
		mem_free(mem);
}

/* The end of closing. No other thread of the library uses it. */
static void client_free(struct shmd_client *client)
{
	client_free_objects(client);
	if (client->health)
		munmap(client->health, PAGE_BYTES);
	safe_close(client->sock);
	safe_close(client->epoll_fd);
	safe_close(client->events.signal_fd);
	restart_deinit(&client->restart);
	free(client->buf);
	free(client);
}

/* In its own process. False: the memory agent frees the client later. */
static bool client_stop(struct shmd_client *client)
{
	/* Ends the session even where a forked child still holds a copy of the socket. */
	__atomic_store_n(&client->closing, true, __ATOMIC_RELEASE);
	shutdown(client->sock, SHUT_RDWR);
	watcher_stop(client);
	return agent_stop(client, client_free);
}

void shmd_client_close(struct shmd_client *client)
{
	if (client && (client->pid != getpid() || client_stop(client)))
		client_free(client);
}

/* ---- asking */

uint64_t shmd_client_session(const struct shmd_client *client)
{
	return client ? client->session : 0;
}

const char *shmd_client_daemon(const struct shmd_client *client)
{
	return client ? client->daemon : "";
}

int shmd_client_limits(const struct shmd_client *client, struct shmd_limits *ret_limits)
{
	int r = client_check_out(client, ret_limits, "ret_limits");

	if (r < 0)
		return r;
	limits_from_msg(&client->limits, ret_limits);
	return 0;
}

/* The session's word; if that is 0, the worst word of its NICs. A word without a NIC stays 0. */
static int health_of_page(const struct shmd_health_page *page)
{
	int session = (int)__atomic_load_n(&page->session, __ATOMIC_ACQUIRE), worst = SHMD_HEALTH_OK;

	if (session)
		return session;
	for (unsigned int i = 0; i < SHMD_HEALTH_NICS; i++) {
		int nic = (int)__atomic_load_n(&page->nic[i], __ATOMIC_ACQUIRE);

		/* A port may come back; everything else is final. */
		if (nic && (!worst || worst == SHMD_HEALTH_PORT_DOWN))
			worst = nic;
	}
	return worst;
}

/* Reads what has arrived without waiting; true if the connection is broken. A thread that holds the lock reads it itself. */
static bool health_look(struct shmd_client *client)
{
	bool dead;

	if (pthread_mutex_trylock(&client->lock))
		return false;
	dead = request_drain(client) < 0;
	client_unlock(client);
	return dead;
}

int shmd_client_health(struct shmd_client *client)
{
	int r = client_check(client);
	bool dead;

	if (r < 0)
		return r;
	dead = health_look(client);
	if (!client->health)
		return dead ? SHMD_HEALTH_DAEMON_GONE : SHMD_HEALTH_OK;
	return health_of_page(client->health);
}

int shmd_nic_health(const struct shmd_nic *nic)
{
	int r = client_check(nic ? nic->client : NULL);
	const struct shmd_health_page *page;
	int session;

	if (r < 0)
		return r;
	(void)health_look(nic->client);
	page = nic->client->health;
	session = (int)__atomic_load_n(&page->session, __ATOMIC_ACQUIRE);
	return session ? session : (int)__atomic_load_n(&page->nic[nic->info.index], __ATOMIC_ACQUIRE);
}

struct shmd_health_page *shmd_client_health_page(struct shmd_client *client)
{
	return client ? client->health : NULL;
}
