/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the policy of an administrator from text: "mlx5_0:1, 0000:3b:00.0" for NICs, "0:mlx5_0:1, GPU-...:mlx5_1:1:2" for the map.
 *
 * PCI addresses have colons too, so they are known by their form; a domain has four digits or more, and no index has. Refuses what
 * is neither, and says what was meant to stand there; of a file also lines that are too long, whose ends would be lines of their own.
 * Any thread.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "daemon/topo/topo-private.h"
#include "proto/base/parse.h"

#define HEX "0123456789abcdefABCDEF"
#define BETWEEN ", \t"
#define MAX_PORT 255
#define MAX_LINE_BYTES 8192

/* One GPU:NIC:PORT:WEIGHT with all that it may have. */
#define ENTRY_BYTES (2 * TOPO_NAME_BYTES + 24)

/* ---- pieces of an entry -------------------------------------------------------------------------------------------- */

/* Bytes of the PCI address that a text begins with; 0: it begins with none. */
static size_t pci_bytes(const char *text)
{
	size_t domain = strspn(text, HEX), n, slot;

	n = domain >= 4 && domain <= 8 && text[domain] == ':' ? domain + 1 : 0;
	if (strspn(text + n, HEX) != 2 || text[n + 2] != ':')
		return 0;
	n += 3;
	slot = strspn(text + n, HEX);
	if (slot < 1 || slot > 2 || text[n + slot] != '.' || strspn(text + n + slot + 1, HEX) != 1)
		return 0;
	return n + slot + 2;
}

/* A name, which ends at a colon, at '=' or with the text. Moves *text behind it. */
static bool take_name(const char **text, char name[TOPO_NAME_BYTES])
{
	size_t n = pci_bytes(*text);

	if (n == 0)
		n = strcspn(*text, ":=");
	if (n == 0 || n >= TOPO_NAME_BYTES)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isgraph((unsigned char)(*text)[i]))
			return false;
	memcpy(name, *text, n);
	name[n] = 0;
	*text += n;
	return true;
}

/* ":7", or nothing, which leaves 0. False for anything else that begins with a colon. */
static bool take_number(const char **text, unsigned int max, unsigned int *ret)
{
	unsigned int number = 0;

	*ret = 0;
	if (**text != ':')
		return true;
	for ((*text)++; isdigit((unsigned char)**text); (*text)++) {
		number = number * 10 + (unsigned int)(**text - '0');
		if (number > max)
			return false;
	}
	*ret = number;
	return number > 0;
}

static bool take_role(const char **text, enum topo_role *ret_role)
{
	*ret_role = TOPO_ROLE_NONE;
	if (**text != '=')
		return true;
	if (strcmp(*text, "=management") == 0)
		*ret_role = TOPO_ROLE_MANAGEMENT;
	else if (strcmp(*text, "=storage") == 0)
		*ret_role = TOPO_ROLE_STORAGE;
	*text += strlen(*text);
	return *ret_role != TOPO_ROLE_NONE;
}

static bool parse_nic(const char *entry, bool may_have_role, struct topo_named *ret)
{
	if (!take_name(&entry, ret->name) || !take_number(&entry, MAX_PORT, &ret->port))
		return false;
	ret->role = TOPO_ROLE_NONE;
	if (may_have_role && !take_role(&entry, &ret->role))
		return false;
	return *entry == 0;
}

static bool parse_given(const char *entry, struct topo_given *ret)
{
	ret->nic.role = TOPO_ROLE_NONE;
	return take_name(&entry, ret->gpu) && *entry++ == ':' && take_name(&entry, ret->nic.name) &&
	       take_number(&entry, MAX_PORT, &ret->nic.port) && take_number(&entry, TOPO_MAX_WEIGHT, &ret->weight) && *entry == 0;
}

/* ---- lists --------------------------------------------------------------------------------------------------------- */

static bool add_included(struct topo_policy *policy, const char *entry)
{
	return parse_nic(entry, false, &policy->included[policy->n_included++]);
}

static bool add_excluded(struct topo_policy *policy, const char *entry)
{
	return parse_nic(entry, true, &policy->excluded[policy->n_excluded++]);
}

static bool add_given(struct topo_policy *policy, const char *entry)
{
	return parse_given(entry, &policy->given[policy->n_given++]);
}

static const struct {
	const char *key;
	const char *form; /* for people */
	unsigned int max;
	size_t count; /* where the policy has its number */
	bool (*add)(struct topo_policy *policy, const char *entry);
} lists[] = {
	{"nics-include", "NIC[:PORT]", TOPO_MAX_NICS, offsetof(struct topo_policy, n_included), add_included},
	{"nics-exclude", "NIC[:PORT][=management|=storage]", TOPO_MAX_NICS, offsetof(struct topo_policy, n_excluded), add_excluded},
	{"gpu-nic-map", "GPU:NIC[:PORT[:WEIGHT]]", TOPO_MAX_GIVEN, offsetof(struct topo_policy, n_given), add_given},
};

/* The next entry, at most ENTRY_BYTES - 1 of it. Its length; 0: there is none. */
static size_t next_entry(const char **text, char entry[ENTRY_BYTES])
{
	size_t n;

	*text += strspn(*text, BETWEEN);
	n = strcspn(*text, BETWEEN);
	snprintf(entry, ENTRY_BYTES, "%.*s", n < ENTRY_BYTES ? (int)n : ENTRY_BYTES - 1, *text);
	*text += n;
	return n;
}

/* Shown on terminals. */
static int refuse_entry(char *entry, const char *form, char why[TOPO_POLICY_WHY_BYTES])
{
	for (char *at = entry; *at; at++)
		*at = isgraph((unsigned char)*at) ? *at : '?';
	snprintf(why, TOPO_POLICY_WHY_BYTES, "\"%s\" is not of the form %s", entry, form);
	return -EINVAL;
}

static int set_list(struct topo_policy *policy, size_t list, const char *value, char why[TOPO_POLICY_WHY_BYTES])
{
	unsigned int *count = (unsigned int *)((char *)policy + lists[list].count);
	char entry[ENTRY_BYTES];
	size_t n;

	/* Refuses also what the daemon has no room for, so that shmemctl and the daemon agree. */
	if (strlen(value) >= TOPO_POLICY_TEXT_BYTES) {
		snprintf(why, TOPO_POLICY_WHY_BYTES, "it has more than %d bytes",
			 TOPO_POLICY_TEXT_BYTES - 1);
		return -EINVAL;
	}
	for (*count = 0, n = next_entry(&value, entry); n; n = next_entry(&value, entry)) {
		if (*count == lists[list].max) {
			snprintf(why, TOPO_POLICY_WHY_BYTES, "it has more than %u entries", lists[list].max);
			return -EINVAL;
		}
		if (n >= ENTRY_BYTES || !lists[list].add(policy, entry))
			return refuse_entry(entry, lists[list].form, why);
	}
	return 0;
}

int topo_policy_set(struct topo_policy *policy, const char *key, const char *value, char why[TOPO_POLICY_WHY_BYTES])
{
	*why = 0;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (strcmp(lists[i].key, key) == 0)
			return set_list(policy, i, value, why);
	return -ENOENT;
}

/* ---- file ---------------------------------------------------------------------------------------------------------- */

/* As the daemon reads its lines; all but ours are for the daemon to judge. */
static int read_line(struct topo_policy *policy, char *line, char why[TOPO_POLICY_WHY_BYTES])
{
	char *equals;
	int r;

	line = parse_strip(line);
	equals = strchr(line, '=');
	if (*line == '#' || !equals)
		return 0;
	*equals = 0;
	line = parse_strip(line);
	r = topo_policy_set(policy, line, parse_strip(equals + 1), why);
	return r == -ENOENT ? 0 : r;
}

/* fgets() read less than the line. */
static bool has_zero(const char *line, size_t size, FILE *file)
{
	size_t n = strlen(line);

	return n == 0 || (line[n - 1] != '\n' && n < size - 1 && !feof(file));
}

static int read_lines(struct topo_policy *policy, const char *path, FILE *file, char why[TOPO_POLICY_WHY_BYTES])
{
	char line[MAX_LINE_BYTES], reason[TOPO_POLICY_WHY_BYTES];
	unsigned int number = 0;

	while (fgets(line, sizeof(line), file)) {
		number++;
		if (has_zero(line, sizeof(line), file))
			snprintf(reason, sizeof(reason), "this is not a text file");
		else if (strlen(line) == sizeof(line) - 1 && line[sizeof(line) - 2] != '\n')
			snprintf(reason, sizeof(reason), "the line has more than %d bytes", MAX_LINE_BYTES - 2);
		else if (read_line(policy, line, reason) == 0)
			continue;
		snprintf(why, TOPO_POLICY_WHY_BYTES, "%.128s:%u: %.800s", path, number, reason);
		return -EINVAL;
	}
	if (!ferror(file))
		return 0;
	snprintf(why, TOPO_POLICY_WHY_BYTES, "cannot read %.256s: %s", path, strerror(errno));
	return -EIO;
}

int topo_policy_read(struct topo_policy *policy, const char *path, char why[TOPO_POLICY_WHY_BYTES])
{
	FILE *file = fopen(path, "re");
	int r = file ? 0 : -errno;

	if (r < 0) {
		snprintf(why, TOPO_POLICY_WHY_BYTES, "cannot read %.256s: %s", path, strerror(-r));
		return r;
	}
	r = read_lines(policy, path, file, why);
	fclose(file);
	return r;
}
