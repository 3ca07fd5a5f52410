/* SPDX-License-Identifier: Apache-2.0 */
/* See bind.h. A CPU whose place sysfs does not tell is a core of its own. */
#include "libclient/runtime/run/bind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct place {
	int package, core;
};

static int read_number(const char *sys, int cpu, const char *name)
{
	char path[256];
	FILE *file;
	int number;

	snprintf(path, sizeof(path), "%.160s/devices/system/cpu/cpu%d/topology/%s", sys, cpu, name);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &number) != 1)
		number = -1;
	fclose(file);
	return number;
}

static struct place place_of(const char *sys, int cpu)
{
	struct place place = {read_number(sys, cpu, "physical_package_id"), read_number(sys, cpu, "core_id")};

	return place.core < 0 ? (struct place){-2, cpu} : place;
}

int bind_find_cores(const char *sys, cpu_set_t **ret_sets)
{
	struct place places[CPU_SETSIZE];
	cpu_set_t allowed, *sets;
	int n = 0, at;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return -errno;
	sets = calloc(CPU_SETSIZE, sizeof(*sets));
	if (!sets)
		return -ENOMEM;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed))
			continue;
		places[n] = place_of(sys, cpu);
		for (at = 0; places[at].package != places[n].package || places[at].core != places[n].core;)
			at++;
		n += at == n;
		CPU_SET(cpu, &sets[at]);
	}
	*ret_sets = sets;
	return n;
}
