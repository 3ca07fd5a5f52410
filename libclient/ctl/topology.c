/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl topology: the GPUs and NICs of a machine, and who uses which. */
#include "libclient/ctl/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int find_why(const struct args *args, const struct topo *topo, int *ret_gpu)
{
	*ret_gpu = -1;
	if (!args_has(args, OPTION_WHY))
		return 0;
	*ret_gpu = topo_find_gpu(topo, args->values[OPTION_WHY]);
	if (*ret_gpu >= 0)
		return 0;
	if (!topo->n_gpus)
		return ctl_fail("there is no GPU %s: this machine has no GPUs", args->values[OPTION_WHY]);
	return ctl_fail("there is no GPU %s: a GPU is named by index (0 to %u), PCI address or UUID",
			args->values[OPTION_WHY], topo->n_gpus - 1);
}

static int write_picture(struct ctl *ctl, const struct topology_view *view, const char *path)
{
	FILE *out;
	bool is_whole;

	/* The caller reports errors of standard output, as for every answer. */
	if (!strcmp(path, "-")) {
		topology_svg(view, ctl->out);
		return 0;
	}
	out = fopen(path, "we");
	if (!out)
		return ctl_fail("%s: %s", path, strerror(errno));
	topology_svg(view, out);
	is_whole = !ferror(out);
	if (fclose(out) || !is_whole)
		return ctl_fail("%s: %s", path, strerror(errno));
	return 0;
}

static int report_settings(const struct topology_settings *settings)
{
	if (*settings->unread)
		fprintf(stderr, "shmemctl: %s: the map is drawn without its nics-include, nics-exclude and gpu-nic-map\n", settings->unread);
	if (*settings->warning)
		fprintf(stderr, "shmemctl: warning: %s\n", settings->warning);
	if (!*settings->error)
		return 0;
	return ctl_fail("%s%s", settings->error, settings->is_followed ? "; the map follows the other settings" : "");
}

static int draw(struct ctl *ctl, const struct topology_view *view)
{
	if (args_has(ctl->args, OPTION_SVG))
		return write_picture(ctl, view, ctl->args->values[OPTION_SVG]);
	if (ctl->is_json)
		topology_json(ctl, view);
	else
		topology_print(ctl, view);
	return 0;
}

static int show(struct ctl *ctl, const struct topo *topo)
{
	struct topology_view view = {.topo = topo};
	struct topology_settings settings;
	struct topo_map *map;
	int r = find_why(ctl->args, topo, &view.why), status;

	if (r)
		return r;
	map = calloc(1, sizeof(*map));
	if (!map)
		return ctl_fail("out of memory");
	view.map = map;
	view.source = ctl->args->values[OPTION_FROM] ? ctl->args->values[OPTION_FROM] : "this machine";
	r = topology_assign(ctl->args, topo, map, &settings);
	status = r == -ENOMEM ? ctl_fail("out of memory") : report_settings(&settings);
	r = r == 0 ? draw(ctl, &view) : status;
	free(map);
	return r ? r : status;
}

int ctl_topology(struct ctl *ctl)
{
	bool is_dump = ctl->args->n_words;
	struct topo *topo = NULL;
	int r;

	if (is_dump && (ctl->is_json || args_has(ctl->args, OPTION_WHY) || args_has(ctl->args, OPTION_SVG) ||
			args_has(ctl->args, OPTION_CONFIG)))
		return ctl_fail("topology dump writes XML, and takes neither --json nor --why nor --svg nor --config");
	if (args_has(ctl->args, OPTION_SVG) && (ctl->is_json || args_has(ctl->args, OPTION_WHY)))
		return ctl_fail("--svg writes a picture and nothing else: ask once more with --json or --why");
	r = topology_load(ctl->args, &topo);
	if (!r && is_dump)
		topo_dump(topo, ctl->out);
	else if (!r)
		r = show(ctl, topo);
	topo_free(topo);
	return r;
}
