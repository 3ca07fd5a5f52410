/* SPDX-License-Identifier: Apache-2.0 */
/* Command line, exit status, and a start with wrong settings. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "daemon/clients/refuse-clients.h"
#include "daemon/daemon.h"
#include "daemon/log.h"
#include "daemon/service/fdstore.h"
#include "daemon/settings/settings.h"
#include "daemon/settings/settings-saved.h"
#include "proto/base/cleanup.h"

#define EXIT_USAGE 2

/*
 * The kernel maps, unmaps and extends memory of a process under one lock, and a user whose memory is being mapped can make it wait
 * there for seconds. A thread that wants a few bytes meanwhile finds them in its heap, which glibc makes writable in advance (pages
 * that nobody touches cost no memory). Every thread has its own heap, since glibc holds the lock of a heap while it extends it.
 */
#define FIRST_HEAP (64 << 20) /* the control thread's */
#define HEAP_IN_ADVANCE (32 << 20) /* each thread's, and when the first one is used up */
#define HEAP_KEPT (256 << 20) /* before any is given back */
#define LARGEST_IN_HEAP (16 << 20)
#define MOST_HEAPS 4096 /* more than threads */

static void keep_heap(void)
{
	void *volatile mem;

	mallopt(M_ARENA_MAX, MOST_HEAPS);
	mallopt(M_TRIM_THRESHOLD, HEAP_KEPT);
	mallopt(M_MMAP_THRESHOLD, LARGEST_IN_HEAP);
	mallopt(M_TOP_PAD, FIRST_HEAP);
	/* Does not fit into the heap that is there, so glibc extends it now. */
	mem = malloc(LARGEST_IN_HEAP / 2);
	free(mem);
	mallopt(M_TOP_PAD, HEAP_IN_ADVANCE);
}

/* Clients cannot wait until an administrator corrects the settings, so each gets the reason. */
static int give_up(int listener, const char *why)
{
	char text[1024];

	snprintf(text, sizeof(text), "its settings are wrong; an administrator has to correct them (\"shmemd --check-config\" tests them), then run "
		 "\"systemctl restart shmemd\": %s", why);
	refuse_clients(listener, text);
	return EXIT_USAGE;
}

static int run(struct settings *settings, const struct settings_source *source)
{
	_cleanup_close_ int listener = fdstore_copy_listener();
	struct daemon *daemon;
	bool is_wrong = false, was_told;
	int r;

	log_init((enum log_target)settings->log_target, (int)settings->log_level);
	if (source->trouble)
		log_line(LOG_ERR, &(struct log_fields){.event = CATALOG_SETTINGS_HELD}, "%s", source->trouble);
	log_begin_start();
	r = daemon_new(settings, source, &daemon, &is_wrong);
	was_told = log_end_start();
	if (r < 0) {
		if (!was_told)
			log_line(LOG_ERR, &(struct log_fields){.event = CATALOG_START_FAILED}, "cannot start: %s", strerror(-r));
		return is_wrong ? give_up(listener, "they do not fit this machine; the log of shmemd says why") : EXIT_FAILURE;
	}
	listener = safe_close(listener);
	r = daemon_run(daemon);
	daemon_free(daemon);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* A wrong file must not end kept sessions: the daemon takes the previous settings, or defaults. */
static int hold(struct settings *settings, const struct settings_source *source, const struct settings_error *error,
		struct settings_error *ret_trouble)
{
	struct settings_source other = *source;
	const char *with = "the settings of the previous daemon";
	enum settings_action action;
	char path[SETTINGS_PATH_BYTES];
	int r;

	other.instead = path;
	r = settings_saved_path(path, sizeof(path));
	if (r == 0)
		r = settings_load(settings, &other, &action, ret_trouble);
	if (r < 0) {
		with = "default settings, since those of the previous daemon cannot be read,";
		other.instead = "/dev/null";
		r = settings_load(settings, &other, &action, ret_trouble);
	}
	snprintf(ret_trouble->text, sizeof(ret_trouble->text), "started with %s to keep live sessions: %.*s", with,
		 (int)sizeof(ret_trouble->text) - 160, error->text);
	return r;
}

static int fail_settings(enum settings_action action, const struct settings_error *error)
{
	_cleanup_close_ int listener = fdstore_copy_listener();

	if (action != SETTINGS_RUN) {
		fprintf(stderr, "shmemd: %s\n", error->text);
		return EXIT_USAGE;
	}
	log_init(LOG_TO_AUTO, LOG_INFO);
	log_line(LOG_ERR, &(struct log_fields){.event = CATALOG_START_FAILED}, "%s", error->text);
	return give_up(listener, error->text);
}

int main(int argc, char **argv)
{
	static struct settings settings;
	static struct settings_error error, trouble;
	struct settings_source source = {argv, SHMD_SYSCONFDIR "/shmemd/shmemd.conf", NULL, NULL};
	enum settings_action action = SETTINGS_RUN;

	keep_heap();
	if (settings_load(&settings, &source, &action, &error) < 0) {
		if (!fdstore_has_sessions() || hold(&settings, &source, &error, &trouble) < 0)
			return fail_settings(action, &error);
		source.trouble = trouble.text;
	}
	switch (action) {
	case SETTINGS_RUN:
		return run(&settings, &source);
	case SETTINGS_CHECK:
		if (settings.removed[0])
			fprintf(stderr, "shmemd: %s" SETTINGS_REMOVED_TEXT "\n", settings.removed);
		settings_print_all(&settings, stdout);
		break;
	case SETTINGS_HELP:
		settings_print_help(stdout);
		break;
	case SETTINGS_VERSION:
		printf("shmemd %s\n", SHMD_VERSION_STRING);
		break;
	case SETTINGS_MAN_CONF:
	case SETTINGS_MAN_DAEMON:
		settings_print_man(action, stdout);
		break;
	}
	return EXIT_SUCCESS;
}
