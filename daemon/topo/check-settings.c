/* SPDX-License-Identifier: Apache-2.0 */
/* The settings about NICs and GPUs, held against this machine. Reads nothing: whoever asks has read them. Keeps nothing; see check.h. */
#include "daemon/topo/check-private.h"

#define FIX "correct shmemd.conf, with the names that shmemctl topology shows, then reload shmemd"

void check_settings(const struct check_host *host, struct check_teller *to)
{
	const struct check_settings *settings = host->settings;

	if (!settings)
		check_say(to, CHECK_OK, "", "", "none are given for this machine");
	else if (settings->unread)
		check_say(to, CHECK_WARN, "", "run shmemctl doctor as root", "not known: %s", settings->unread);
	else if (settings->error)
		check_say(to, CHECK_FAIL, "", FIX, "%s", settings->error);
	else if (settings->warning)
		check_say(to, CHECK_WARN, "", FIX, "%s", settings->warning);
	else
		check_say(to, CHECK_OK, "", "", "nics-include, nics-exclude and gpu-nic-map name nothing that is not here");
}
