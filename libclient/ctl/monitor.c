/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl monitor: events as they happen, one line each, flushed at once for pipes. Its own connection
 * ends with the daemon; if sessions outlive the daemon, it waits for the next one as their clients do, and goes on there.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libclient/ctl/ctl.h"
#include "proto/base/show.h"

#define RETRY_PAUSE_NSEC 50000000

struct monitor {
	struct ctl *ctl;
	uint64_t n_left; /* 0: without end */
};

/* A callback returns it to end shmd_admin_monitor(). */
enum { MONITOR_DONE = 1, MONITOR_CANNOT_WRITE };

/* Local time for people; in UTC, as RFC 3339 has it, for programs. */
static void format_time(uint64_t nsec, bool is_utc, char *buf, size_t size)
{
	time_t sec = (time_t)(nsec / 1000000000u);
	struct tm tm;
	size_t used;

	if (!(is_utc ? gmtime_r(&sec, &tm) : localtime_r(&sec, &tm))) {
		snprintf(buf, size, "?");
		return;
	}
	used = strftime(buf, size, is_utc ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
	if (is_utc)
		snprintf(buf + used, size - used, ".%06uZ", (unsigned int)(nsec % 1000000000u / 1000));
	else
		snprintf(buf + used, size - used, ".%03u", (unsigned int)(nsec % 1000000000u / 1000000));
}

static enum color event_color(const struct shmd_admin_event *event)
{
	switch (event->kind) {
	case SHMD_EVENT_QP_ERROR:
	case SHMD_EVENT_CQ_ERROR:
	case SHMD_EVENT_NIC_LOST:
		return COLOR_RED;
	case SHMD_EVENT_PORT_STATE:
		return ctl_nic_state_color(event->detail);
	case SHMD_EVENT_DRAIN:
	case SHMD_EVENT_DROPPED:
	case SHMD_EVENT_REFUSED:
	case SHMD_EVENT_DAEMON_RESUMED:
		return COLOR_YELLOW;
	case SHMD_EVENT_SESSION_CLOSED:
		return event->detail ? COLOR_YELLOW : COLOR_NONE;
	default:
		return COLOR_NONE;
	}
}

/* ": text", or nothing. */
static void print_text(FILE *out, const struct shmd_admin_event *event)
{
	if (*event->text)
		fprintf(out, ": %s", event->text);
}

static void print_number(FILE *out, const struct shmd_admin_event *event)
{
	switch (event->kind) {
	case SHMD_EVENT_QP_ERROR:
		if (event->number)
			fprintf(out, ", QP %s/0x%x: %s", event->nic, event->number, shmd_syndrome_text(event->detail));
		else
			print_text(out, event);
		break;
	case SHMD_EVENT_CQ_ERROR:
		if (event->number)
			fprintf(out, ", CQ 0x%x on %s: error 0x%x", event->number, event->nic, event->detail);
		print_text(out, event);
		break;
	case SHMD_EVENT_QUEUES_CREATED:
	case SHMD_EVENT_QUEUES_DESTROYED:
		fprintf(out, ", %s: %u QP%s from 0x%x", event->nic, event->detail, plural_s(event->detail), event->number);
		break;
	default:
		print_text(out, event);
		break;
	}
}

static void print_sentence(FILE *out, const struct shmd_admin_event *event)
{
	switch (event->kind) {
	case SHMD_EVENT_PORT_STATE:
		fprintf(out, "%s is %s", event->nic, ctl_nic_state(event->detail));
		/* The event's own text ("the port of soft0 is down") would repeat this line. */
		if (strncmp(event->text, "the port of ", 12) != 0)
			print_text(out, event);
		break;
	case SHMD_EVENT_NIC_LOST:
		fprintf(out, "%s is gone", event->nic);
		print_text(out, event);
		break;
	case SHMD_EVENT_DRAIN:
		fprintf(out, "%s", event->detail ? "drain began" : "drain ended");
		print_text(out, event);
		break;
	case SHMD_EVENT_DROPPED:
		if (*event->nic)
			fprintf(out, "%s", event->text);
		else
			fprintf(out, "lost %u event%s: this reader is too slow", event->number, plural_s(event->number));
		break;
	case SHMD_EVENT_DAEMON_RESUMED:
		fputs(event->text, out);
		break;
	case SHMD_EVENT_REFUSED:
		fprintf(out, "uid %u, pid %u", event->uid, event->pid);
		print_text(out, event);
		break;
	default:
		fprintf(out, "session %" PRIu64 " (uid %u, pid %u)", event->session, event->uid, event->pid);
		print_number(out, event);
		break;
	}
}

static void print_event(struct ctl *ctl, const struct shmd_admin_event *event)
{
	enum color color = event_color(event);
	char when[64];

	format_time(event->time_nsec, false, when, sizeof(when));
	fprintf(ctl->out, "%s  %s%-16s%s  ", when, color_on(ctl->has_color, color), ctl_event_kind(event->kind),
		color_off(ctl->has_color, color));
	print_sentence(ctl->out, event);
	fputc('\n', ctl->out);
}

static void json_event(struct ctl *ctl, const struct shmd_admin_event *event)
{
	struct json json;
	char when[64];

	format_time(event->time_nsec, true, when, sizeof(when));
	ctl_json_begin(ctl, &json);
	json_string(&json, "kind", ctl_event_kind(event->kind));
	json_string(&json, "time", when);
	json_uint(&json, "time_nsec", event->time_nsec);
	json_uint(&json, "session", event->session);
	json_uint(&json, "uid", event->uid);
	json_uint(&json, "pid", event->pid);
	json_string(&json, "nic", event->nic);
	json_uint(&json, "number", event->number);
	json_uint(&json, "detail", event->detail);
	json_string(&json, "text", event->text);
	ctl_json_end(&json);
}

static int take_event(void *arg, const struct shmd_admin_event *event)
{
	struct monitor *monitor = arg;
	struct ctl *ctl = monitor->ctl;

	if (!args_lists(ctl->args, OPTION_KIND, ctl_event_kind(event->kind)))
		return 0;
	if (ctl->is_json)
		json_event(ctl, event);
	else
		print_event(ctl, event);
	if (fflush(ctl->out) || ferror(ctl->out))
		return MONITOR_CANNOT_WRITE;
	return monitor->n_left && !--monitor->n_left ? MONITOR_DONE : 0;
}

/* ---- the next daemon ------------------------------------------------------------------------------------------ */

/* How long to wait for the next daemon; 0: none will take over the sessions. */
static uint64_t ask_grace(struct ctl *ctl)
{
	struct shmd_daemon_status status;

	return shmd_admin_status(ctl->client, &status) == 0 && status.keeps_sessions ? status.restart_grace_nsec : 0;
}

static int tell_resumed(struct monitor *monitor)
{
	struct shmd_admin_event event = {.kind = SHMD_EVENT_DAEMON_RESUMED};
	struct shmd_daemon_status status;
	struct timespec now;
	int r = shmd_admin_status(monitor->ctl->client, &status);

	if (r < 0)
		return r;
	clock_gettime(CLOCK_REALTIME, &now);
	event.time_nsec = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	event.number = status.n_resumed > UINT32_MAX ? UINT32_MAX : (uint32_t)status.n_resumed;
	snprintf(event.text, sizeof(event.text), "%s has restarted and took over %u session%s", status.daemon,
		 event.number, plural_s(event.number));
	return take_event(monitor, &event);
}

/* Replaces the client whose daemon has gone. -ETIMEDOUT: no daemon came; the text has the last reason. */
static int reopen(struct ctl *ctl, uint64_t grace_nsec)
{
	const struct timespec pause = {.tv_nsec = RETRY_PAUSE_NSEC};
	struct shmd_client_attr attr = {
		.role = SHMD_ROLE_CONTROL,
		.socket_path = ctl->args->values[OPTION_SOCKET],
		.timeout_nsec = grace_nsec,
	};
	uint64_t begin = shmd_dev_host_now_nsec();
	struct shmd_client *client;

	while (shmd_client_open(&attr, &client) < 0) {
		if (shmd_dev_host_now_nsec() - begin >= grace_nsec)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	shmd_client_close(ctl->client);
	ctl->client = client;
	return 0;
}

int ctl_monitor(struct ctl *ctl)
{
	struct monitor monitor = {ctl, args_count(ctl->args, OPTION_COUNT, 0)};
	uint64_t grace_nsec;
	int r;

	if (isatty(STDERR_FILENO))
		fprintf(stderr, "watching %s; Ctrl-C ends\n", shmd_client_daemon(ctl->client));
	do {
		grace_nsec = ask_grace(ctl);
		r = shmd_admin_monitor(ctl->client, take_event, &monitor);
		if (r != -ECONNRESET || !grace_nsec || reopen(ctl, grace_nsec) < 0)
			break;
		r = tell_resumed(&monitor);
	} while (!r);
	/* run_once() finds and reports write errors. */
	return r < 0 ? r : 0;
}
