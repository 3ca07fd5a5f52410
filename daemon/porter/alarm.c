/* SPDX-License-Identifier: Apache-2.0 */
/* When porters_tick() is due, and since when a porter is idle. Control thread. */
#include "daemon/porter/porter-private.h"
#include "proto/base/nsec.h"

void porters_alarm(struct porters *porters, uint64_t nsec)
{
	uint64_t at = nsec_add(nsec_now(), nsec);

	if (porters->alarm_nsec > 0 && porters->alarm_nsec <= at)
		return;
	porters->alarm_nsec = at;
	porters->attr.hooks.alarm(porters->attr.hooks.arg, nsec);
}

void porter_look_idle(struct porter *porter)
{
	bool is_idle = list_empty(&porter->slots) && list_empty(&porter->holds);

	if (!is_idle) {
		porter->idle_nsec = 0;
	} else if (porter->idle_nsec == 0) {
		porter->idle_nsec = nsec_now();
		porters_alarm(porter->porters, PORTER_IDLE_NSEC);
	}
}
