/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl config import-env: the NICs that the environment gives NVSHMEM and DeepEP, as lines of shmemd.conf.
 *
 * Prints lines only if every variable can be translated and this machine, or that of --from, can follow the result. NVSHMEM counts
 * the processes of one job on the node, shmemd counts GPUs; the translation takes them for the same, and a comment says so. It
 * follows NVSHMEM's documentation; a comment also says where NVSHMEM behaves differently. Refuses settings without a translation,
 * with the reason.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/ctl/topology.h"
#include "proto/base/show.h"

#define MAX_FIELDS 3
#define MAX_PORT 255

/* "mlx5_0:1:2" in pieces. */
struct fields {
	char text[MAX_FIELDS][TOPO_NAME_BYTES];
	unsigned int n;
};

struct import {
	const struct topo *topo;
	FILE *value; /* the setting */
	FILE *notes; /* comments before it */
	unsigned int n_entries;
	unsigned int n_pes; /* with NVSHMEM_HCA_PE_MAPPING */
	char pes[TOPO_MAX_GPUS][TOPO_NAME_BYTES + 8];
	uint64_t devices; /* a bit for each named device */
};

/* One variable: the shape of its entries, and the function that takes one. False: the entry has another shape. */
struct variable {
	const char *name;
	const char *form;
	bool has_blanks; /* empty entries, between two commas or at the end, are skipped */
	bool (*add)(struct import *import, const struct fields *fields);
};

/* ---- pieces -------------------------------------------------------------------------------------------------------- */

static bool is_name(const char *text)
{
	return *text && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == strlen(text);
}

/* Decimal digits only. */
static bool is_number(const char *text, unsigned int min, unsigned int max)
{
	uint64_t number;

	return strspn(text, "0123456789") == strlen(text) && args_parse_number(text, &number) && number >= min && number <= max;
}

static bool split(const char *entry, size_t n_bytes, struct fields *ret)
{
	memset(ret, 0, sizeof(*ret));
	while (n_bytes > 0 && isspace((unsigned char)*entry)) {
		entry++;
		n_bytes--;
	}
	while (n_bytes > 0 && isspace((unsigned char)entry[n_bytes - 1]))
		n_bytes--;
	for (;;) {
		size_t n = 0;

		while (n < n_bytes && entry[n] != ':')
			n++;
		if (ret->n == MAX_FIELDS || n == 0 || n >= TOPO_NAME_BYTES)
			return false;
		memcpy(ret->text[ret->n++], entry, n);
		if (n == n_bytes)
			return true;
		entry += n + 1;
		n_bytes -= n + 1;
	}
}

/* A name and perhaps a port: the fields from `first` on. */
static bool format_nic(const struct fields *fields, unsigned int first, char buf[TOPO_NAME_BYTES + 8])
{
	const char *port = fields->n > first + 1 ? fields->text[first + 1] : NULL;

	if (fields->n <= first || !is_name(fields->text[first]) || (port && !is_number(port, 1, MAX_PORT)))
		return false;
	snprintf(buf, TOPO_NAME_BYTES + 8, "%s%s%.3s", fields->text[first], port ? ":" : "", port ? port : "");
	return true;
}

static void put(struct import *import, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct import *import, const char *fmt, ...)
{
	va_list list;

	if (import->n_entries++)
		fputs(", ", import->value);
	va_start(list, fmt);
	vfprintf(import->value, fmt, list);
	va_end(list);
}

/* ---- one entry of each variable -------------------------------------------------------------------------------------- */

static bool add_listed(struct import *import, const struct fields *fields)
{
	char nic[TOPO_NAME_BYTES + 8];

	if (fields->n > 2 || !format_nic(fields, 0, nic))
		return false;
	put(import, "%s", nic);
	return true;
}

/* Only collects: a machine with more GPUs begins again with the first entry. */
static bool add_pes(struct import *import, const struct fields *fields)
{
	uint64_t count = 1;
	char nic[TOPO_NAME_BYTES + 8];

	if (!format_nic(fields, 0, nic))
		return false;
	if (fields->n == 3 && (!is_number(fields->text[2], 1, TOPO_MAX_GPUS) || !args_parse_number(fields->text[2], &count)))
		return false;
	for (; count > 0 && import->n_pes < TOPO_MAX_GPUS; count--)
		memcpy(import->pes[import->n_pes++], nic, sizeof(nic));
	return count == 0;
}

static bool add_device(struct import *import, const struct fields *fields)
{
	char nic[TOPO_NAME_BYTES + 8];
	uint64_t device;

	if (!is_number(fields->text[0], 0, TOPO_MAX_GPUS - 1) || !args_parse_number(fields->text[0], &device) ||
	    !format_nic(fields, 1, nic) || import->devices >> device & 1)
		return false;
	import->devices |= 1ull << device;
	put(import, "%u:%s", (unsigned int)device, nic);
	return true;
}

static const struct variable hca_list = {"NVSHMEM_HCA_LIST", "name[:port]", true, add_listed};
static const struct variable pe_mapping = {"NVSHMEM_HCA_PE_MAPPING", "name[:port[:count]], for 64 PEs at most", true, add_pes};
static const struct variable device_mapping = {"DEEP_EP_DEVICE_TO_HCA_MAPPING", "device:name[:port], each device once", false, add_device};

/* Of NVSHMEM_HCA_PE_MAPPING and NVSHMEM_HCA_LIST. */
static const char pe_switch[] = "NVSHMEM_ENABLE_NIC_PE_MAPPING";

/* ---- a whole variable ----------------------------------------------------------------------------------------------- */

static const char *value_of(const char *name)
{
	const char *text = getenv(name);

	return text && text[strspn(text, " \t")] ? text : NULL;
}

/* Replaces control characters, for the terminal. */
static int refuse_entry(const struct variable *variable, const char *entry, size_t n_bytes)
{
	char shown[80];
	size_t n = n_bytes < sizeof(shown) ? n_bytes : sizeof(shown) - 1;

	for (size_t i = 0; i < n; i++)
		shown[i] = isprint((unsigned char)entry[i]) ? entry[i] : '?';
	shown[n] = 0;
	return ctl_fail("%s: \"%s\" is not of the form %s", variable->name, shown, variable->form);
}

static bool is_blank(const char *text, size_t n_bytes)
{
	while (n_bytes > 0 && isspace((unsigned char)text[n_bytes - 1]))
		n_bytes--;
	return n_bytes == 0;
}

static int read_entries(struct import *import, const struct variable *variable, const char *text)
{
	for (;; text++) {
		size_t n = strcspn(text, ",");
		bool is_left_out = variable->has_blanks && is_blank(text, n);
		struct fields fields;

		if (!is_left_out && (!split(text, n, &fields) || !variable->add(import, &fields)))
			return refuse_entry(variable, text, n);
		text += n;
		if (!*text)
			break;
	}
	return import->n_entries || import->n_pes ? 0 : ctl_fail("%s names no NIC", variable->name);
}

/* A bool as NVSHMEM reads it: every text that does not begin like "no" means yes. */
static bool is_off(const char *value)
{
	return value && strchr("0NnFf", *value);
}

static int import_list(struct import *import, const char *text, const char **ret_key)
{
	const char *dealt = value_of(pe_switch);

	text += strspn(text, " \t");
	*ret_key = *text == '^' ? "nics-exclude" : "nics-include";
	text += *text == '^';
	if (strchr(text, '^'))
		return ctl_fail("%s: one ^ before the whole list excludes all of it; shmemd has no list that does both", hca_list.name);
	if (strchr(text, '='))
		return ctl_fail("%s: \"=\" means something to NCCL only; leave it out", hca_list.name);
	if (dealt && !is_off(dealt))
		fprintf(import->notes, "# By %s NVSHMEM deals these NICs out to PEs in turn; here distance decides.\n", pe_switch);
	return read_entries(import, &hca_list, text);
}

/* Without its switch, NVSHMEM takes the mapping for a list of NICs. */
static void put_filter(struct import *import)
{
	fprintf(import->notes, "# %s is off: so to NVSHMEM these are the NICs to choose from, and distance decides.\n", pe_switch);
	for (unsigned int i = 0; i < import->n_pes; i++) {
		bool is_new = true;

		for (unsigned int before = 0; before < i; before++)
			is_new &= strcmp(import->pes[before], import->pes[i]) != 0;
		if (is_new)
			put(import, "%s", import->pes[i]);
	}
}

static void note_pes(struct import *import)
{
	unsigned int n_gpus = import->topo->n_gpus;

	fprintf(import->notes,
		"# PE 0 of a node is taken for GPU 0, and so on, and NICs in the order in which they are written, as documented.\n"
		"# NVSHMEM itself takes them in the order of its list of devices, and gives them to PEs only with\n"
		"# %s=1: without, they are the NICs to choose from, and distance decides.\n", pe_switch);
	if (n_gpus > import->n_pes)
		fprintf(import->notes, "# %u PE%s for %u GPUs: they start again from the first.\n", import->n_pes, plural_s(import->n_pes), n_gpus);
	else if (n_gpus && n_gpus < import->n_pes)
		fprintf(import->notes, "# %u PEs for %u GPU%s: the rest is left out.\n", import->n_pes, n_gpus, plural_s(n_gpus));
}

static void put_pes(struct import *import)
{
	unsigned int n_gpus = import->topo->n_gpus ? import->topo->n_gpus : import->n_pes;

	note_pes(import);
	for (unsigned int gpu = 0; gpu < n_gpus; gpu++)
		put(import, "%u:%s", gpu, import->pes[gpu % import->n_pes]);
}

static int import_pes(struct import *import, const char *text, const char **ret_key)
{
	bool is_filter = is_off(value_of(pe_switch));
	int r = read_entries(import, &pe_mapping, text);

	*ret_key = is_filter ? "nics-include" : "gpu-nic-map";
	if (r)
		return r;
	if (is_filter)
		put_filter(import);
	else
		put_pes(import);
	return 0;
}

static int import_devices(struct import *import, const char *text, const char **ret_key)
{
	*ret_key = "gpu-nic-map";
	fprintf(import->notes, "# Devices of CUDA are taken for GPUs in the order of their PCI addresses (CUDA_DEVICE_ORDER=PCI_BUS_ID).\n");
	return read_entries(import, &device_mapping, text);
}

static void note_unused(struct import *import, const struct variable *variable, const char *why)
{
	if (value_of(variable->name))
		fprintf(import->notes, "# %s does not count: %s.\n", variable->name, why);
}

/* The variable that counts if several are set, by the order of NVSHMEM and DeepEP. */
static int translate(struct import *import, const char **ret_key)
{
	static const char *const by_deepep = "DeepEP sets NVSHMEM_HCA_LIST anew for each process";

	if (value_of(device_mapping.name)) {
		note_unused(import, &hca_list, by_deepep);
		note_unused(import, &pe_mapping, by_deepep);
		return import_devices(import, value_of(device_mapping.name), ret_key);
	}
	if (value_of(hca_list.name)) {
		note_unused(import, &pe_mapping, "NVSHMEM ignores it beside NVSHMEM_HCA_LIST");
		return import_list(import, value_of(hca_list.name), ret_key);
	}
	if (value_of(pe_mapping.name))
		return import_pes(import, value_of(pe_mapping.name), ret_key);
	return ctl_fail("nothing to import: none of %s, %s and %s is set", hca_list.name, pe_mapping.name, device_mapping.name);
}

/* ---- the command ---------------------------------------------------------------------------------------------------- */

static bool is_there(const struct topo *topo, const struct topo_named *named)
{
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (strcmp(topo->nics[i].seen.name, named->name) == 0 && (!named->port || !topo->nics[i].seen.port || topo->nics[i].seen.port == named->port))
			return true;
	return false;
}

/* NVSHMEM warns of these too; a list may name NICs of other nodes. */
static void note_absent(struct import *import, const struct topo_named *list, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		char port[16] = "";

		if (is_there(import->topo, &list[i]))
			continue;
		if (list[i].port)
			snprintf(port, sizeof(port), ":%u", (unsigned int)list[i].port);
		fprintf(import->notes, "# This machine has no NIC %s%s.\n", list[i].name, port);
		fprintf(stderr, "shmemctl: this machine has no NIC %s%s\n", list[i].name, port);
	}
}

static int check(struct import *import, const char *key, const char *value)
{
	struct topo_policy *policy = calloc(1, sizeof(*policy));
	char why[TOPO_POLICY_WHY_BYTES];
	bool is_known = import->topo->n_gpus && import->topo->n_nics;
	int r = 0;

	if (!policy)
		return ctl_fail("out of memory");
	if (topo_policy_set(policy, key, value, why) < 0)
		r = ctl_fail("%s: %s", key, why);
	else if (is_known && topo_policy_check(policy, import->topo, why) < 0)
		r = ctl_fail("%s", why);
	else if (!is_known)
		fprintf(import->notes, "# Not checked, since this machine has no GPU or no RDMA NIC; --from names another machine.\n");
	if (!r && is_known) {
		note_absent(import, policy->included, policy->n_included);
		note_absent(import, policy->excluded, policy->n_excluded);
	}
	free(policy);
	return r;
}

static int import(struct ctl *ctl, const struct topo *topo)
{
	char *value = NULL, *notes = NULL;
	size_t n_value, n_notes;
	struct import import = {.topo = topo, .value = open_memstream(&value, &n_value), .notes = open_memstream(&notes, &n_notes)};
	const char *key = "";
	int r = import.value && import.notes ? translate(&import, &key) : ctl_fail("out of memory");

	if (import.value && fclose(import.value) && !r)
		r = ctl_fail("out of memory");
	if (!r)
		r = check(&import, key, value);
	if (import.notes && fclose(import.notes) && !r)
		r = ctl_fail("out of memory");
	if (!r)
		fprintf(ctl->out, "%s%s = %s\n", notes, key, value);
	free(value);
	free(notes);
	return r;
}

int ctl_config(struct ctl *ctl)
{
	struct topo *topo = NULL;
	int r;

	if (ctl->is_json)
		return ctl_fail("config import-env writes lines of shmemd.conf, and takes no --json");
	r = topology_load(ctl->args, &topo);
	if (!r)
		r = import(ctl, topo);
	topo_free(topo);
	return r;
}
