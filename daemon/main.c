/* SPDX-License-Identifier: Apache-2.0 */
/* argv, exit status, nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "daemon/check-nics.h"
#include "daemon/settings.h"
#include "daemon/daemon.h"
#include "daemon/log.h"

#define EXIT_USAGE 2

static int run(struct settings *settings, const struct settings_source *source)
{
	struct daemon *daemon;
	bool is_wrong = false;
	int r;

	log_init((enum log_target)settings->log_target, (int)settings->log_level);
	r = daemon_new(settings, source, &daemon, &is_wrong);
	if (r < 0) {
		log_line(LOG_ERR, &(struct log_fields){.event = CATALOG_START_FAILED},
			 "shmemd %s cannot start: %s", SHMD_VERSION_STRING, strerror(-r));
		return is_wrong ? EXIT_USAGE : EXIT_FAILURE;
	}
	r = daemon_run(daemon);
	daemon_free(daemon);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static struct settings settings;
	const struct settings_source source = {argc, argv, SHMD_SYSCONFDIR "/shmemd/shmemd.conf"};
	struct settings_error error = {""};
	enum settings_action action;

	if (settings_load(&settings, &source, &action, &error) < 0) {
		fprintf(stderr, "shmemd: %s\n", error.text);
		return EXIT_USAGE;
	}
	switch (action) {
	case SETTINGS_RUN:
		return run(&settings, &source);
	case SETTINGS_CHECK:
		settings_print_all(&settings, stdout);
		break;
	case SETTINGS_CHECK_NICS:
	case SETTINGS_CHECK_NICS_JSON:
		return check_nics(action == SETTINGS_CHECK_NICS_JSON, stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
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
