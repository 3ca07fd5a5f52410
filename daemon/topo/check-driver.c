/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of NVIDIA's GPUs and its settings: may a GPU ring a NIC, and may a NIC reach a GPU's memory? GPUs of others have
 * nothing of it to be judged. Keeps nothing; see check.h.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/topo/check-private.h"

#define VENDOR_NVIDIA 0x10de
#define VERSION_FILE "proc/driver/nvidia/version"
#define PARAMS_FILE "proc/driver/nvidia/params"
#define FIRST_WITH_DMABUF 515
#define FIRST_WITH_STREAM_MEMORY 525 /* on without being asked for */
#define MODPROBE_FILE "/etc/modprobe.d/shmemd-nvidia.conf"
/* The module is loaded from the first file system, with a copy of its options. */
#define APPLY_FIX "; update-initramfs -u or dracut -f; reboot"
#define OVERRIDE "PeerMappingOverride="
#define DWORDS_BYTES 160 /* of a string that is put into a fix */
/* Characters that need no escape between quotes of a shell and of a modprobe file. */
#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_=.,:+- "

struct driver {
	int error; /* of reading VERSION_FILE */
	bool is_open;
	bool is_x86;
	unsigned int major;
	char version[32];
};

static bool has_nvidia(const struct check_host *host)
{
	for (unsigned int i = 0; i < host->topo->n_gpus; i++)
		if (host->topo->nodes[host->topo->gpus[i].node].vendor == VENDOR_NVIDIA)
			return true;
	return false;
}

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build", "... UNIX x86_64 Kernel Module  535.104.05 ..." */
static void parse_driver(char *text, struct driver *driver)
{
	char *rest = NULL;

	text[strcspn(text, "\n")] = 0;
	driver->is_open = strstr(text, "Open Kernel Module") != NULL;
	driver->is_x86 = strstr(text, "x86_64") != NULL;
	for (char *word = strtok_r(text, " \t", &rest); word && !driver->major; word = strtok_r(NULL, " \t", &rest)) {
		if (!isdigit((unsigned char)word[0]) || !strchr(word, '.'))
			continue;
		driver->major = (unsigned int)strtoul(word, NULL, 10);
		snprintf(driver->version, sizeof(driver->version), "%.31s", word);
	}
}

static struct driver read_driver(const struct check_host *host)
{
	struct driver driver = {0};
	char text[CHECK_FILE_BYTES];
	int r = check_text(host, VERSION_FILE, text);

	if (r >= 0)
		parse_driver(text, &driver);
	driver.error = r < 0 ? r : driver.major ? 0 : -EBADMSG;
	return driver;
}

/* Ends the check where there is nothing to judge, or no way to. */
static bool is_judged(const struct check_host *host, struct check_teller *to, struct driver *ret_driver)
{
	if (!has_nvidia(host)) {
		check_say(to, CHECK_OK, "", "", "no GPU of NVIDIA is here");
		return false;
	}
	*ret_driver = read_driver(host);
	if (ret_driver->error && ret_driver->error != -ENOENT)
		check_say_unread(to, "", VERSION_FILE, ret_driver->error);
	else if (ret_driver->error)
		check_say(to, CHECK_FAIL, "", "modprobe nvidia; without such a module install the driver with open kernel modules",
			  "the driver of NVIDIA's GPUs is not loaded");
	return !ret_driver->error;
}

void check_driver(const struct check_host *host, struct check_teller *to)
{
	struct driver driver;

	if (!is_judged(host, to, &driver))
		return;
	if (driver.is_open)
		check_say(to, CHECK_OK, "", "", "%s, with open kernel modules", driver.version);
	else
		check_say(to, CHECK_WARN, "", "install the driver's open kernel modules (nvidia-open, or nvidia-installer -M open), then reboot; for GPUs before Turing there "
			  "are none, modprobe nvidia_peermem",
			  "%s has closed kernel modules, which export no memory of GPUs as dmabufs", driver.version);
}

/* ---- doorbells */

/* In quotes, items separated by semicolons. Among several with different values the effective one is unknown. */
static bool has_override(const char *dwords)
{
	unsigned int n = 0, n_set = 0;

	while (*dwords && *dwords != '\n') {
		dwords += strspn(dwords, " \t\";");
		if (strncmp(dwords, OVERRIDE, strlen(OVERRIDE)) == 0) {
			n++;
			n_set += strtoul(dwords + strlen(OVERRIDE), NULL, 0) == 1;
		}
		dwords += strcspn(dwords, "\";\n");
	}
	return n && n_set == n;
}

/* Appends an item, unless it is empty or the override with another value; false: it is not plain, or has no room. */
static bool append_item(char to[DWORDS_BYTES], const char *item, size_t n)
{
	size_t used = strlen(to);

	if (strspn(item, " ") >= n ||
	    strncmp(item + strspn(item, " "), OVERRIDE, strlen(OVERRIDE)) == 0)
		return true;
	if (strspn(item, PLAIN) < n || used + n + 2 > DWORDS_BYTES)
		return false;
	snprintf(to + used, DWORDS_BYTES - used, "%.*s;", (int)n, item);
	return true;
}

/* A string of modprobe replaces those before it, so what is set already has to be in this one. */
static bool copy_others(const char *dwords, char to[DWORDS_BYTES])
{
	const char *at = dwords + strspn(dwords, " \t\"");
	bool has_all = true;

	for (*to = 0; *at && *at != '"' && *at != '\n' && has_all; at += *at == ';') {
		size_t n = strcspn(at, ";\"\n");

		has_all = append_item(to, at, n);
		at += n;
	}
	return has_all;
}

static const char *fix_override(const char *dwords, char fix[CHECK_TEXT_BYTES])
{
	char others[DWORDS_BYTES];

	if (copy_others(dwords, others))
		snprintf(fix, CHECK_TEXT_BYTES,
			 "echo 'options nvidia NVreg_RegistryDwords=\"%s" OVERRIDE
			 "1;\"' >> " MODPROBE_FILE APPLY_FIX,
			 others);
	else
		snprintf(fix, CHECK_TEXT_BYTES,
			 "add " OVERRIDE "1; to what NVreg_RegistryDwords has (grep -r "
					 "NVreg_RegistryDwords /etc/modprobe.d)" APPLY_FIX);
	return fix;
}

void check_peer_mapping(const struct check_host *host, struct check_teller *to)
{
	char text[CHECK_FILE_BYTES], fix[CHECK_TEXT_BYTES];
	struct driver driver;
	const char *dwords;
	int r;

	if (!is_judged(host, to, &driver))
		return;
	r = check_text(host, PARAMS_FILE, text);
	dwords = r < 0 ? NULL : check_line(text, "RegistryDwords:");
	if (!driver.is_x86)
		check_say(to, CHECK_OK, "", "", "not needed on this processor");
	else if (!dwords)
		check_say_unread(to, "", PARAMS_FILE, r < 0 ? r : -EBADMSG);
	else if (has_override(dwords))
		check_say(to, CHECK_OK, "", "", "PeerMappingOverride=1: every user's kernels may ring NICs");
	else
		check_say(to, CHECK_WARN, "", fix_override(dwords, fix),
			  "PeerMappingOverride is not set: kernels of users other than root cannot "
			  "ring NICs, so their sessions take doorbell mode cpu");
}

void check_stream_memory(const struct check_host *host, struct check_teller *to)
{
	char text[CHECK_FILE_BYTES];
	struct driver driver;
	const char *value;
	int r;

	if (!is_judged(host, to, &driver))
		return;
	if (driver.major >= FIRST_WITH_STREAM_MEMORY) {
		check_say(to, CHECK_OK, "", "", "%s has them without being asked", driver.version);
		return;
	}
	r = check_text(host, PARAMS_FILE, text);
	value = r < 0 ? NULL : check_line(text, "EnableStreamMemOPs:");
	if (!value)
		check_say_unread(to, "", PARAMS_FILE, r < 0 ? r : -EBADMSG);
	else if (strtoul(value, NULL, 10))
		check_say(to, CHECK_OK, "", "", "EnableStreamMemOPs is set");
	else
		check_say(to, CHECK_WARN, "",
			  "echo 'options nvidia NVreg_EnableStreamMemOPs=1' >> " MODPROBE_FILE
				  APPLY_FIX,
			  "%s has them only where it is told to: waits of streams for memory fail",
			  driver.version);
}

/* ---- memory */

static int find_peer_module(const struct check_host *host, const char **ret_module)
{
	static const char *const modules[] = {"nvidia_peermem", "nv_peer_mem"};
	char path[CHECK_PATH_BYTES];
	int r = 0;

	for (unsigned int i = 0; i < 2 && !r; i++) {
		snprintf(path, sizeof(path), "sys/module/%s", modules[i]);
		r = check_exists(host, path);
		*ret_module = r > 0 ? modules[i] : NULL;
	}
	return r;
}

/* Why memory of GPUs is not exported as dmabufs; NULL: it is. */
static const char *why_no_dmabuf(const struct driver *driver, enum host_known known, const unsigned int kernel[2])
{
	if (!driver->is_open)
		return "the driver's modules are closed ones";
	if (driver->major < FIRST_WITH_DMABUF)
		return "the driver is older than 515";
	if (known != HOST_NOT_KNOWN)
		return known == HOST_YES ? NULL : "the driver of a NIC registers none";
	return kernel[0] > 5 || (kernel[0] == 5 && kernel[1] >= 12) ? NULL : "the kernel is older than 5.12";
}

void check_gpu_memory(const struct check_host *host, struct check_teller *to)
{
	enum host_known known = check_dmabuf(host);
	const char *module = NULL, *why;
	unsigned int kernel[2] = {0};
	struct driver driver;
	int r, peer;

	if (!is_judged(host, to, &driver))
		return;
	peer = find_peer_module(host, &module);
	/* A version is a guess where no driver has answered. */
	r = known == HOST_NOT_KNOWN ? check_kernel(host, kernel) : 0;
	why = why_no_dmabuf(&driver, known, kernel);
	if (!r && !why)
		check_say(to, CHECK_OK, "", "", "dmabufs%s%s", module ? ", and " : "", module ? module : "");
	else if (module)
		check_say(to, CHECK_OK, "", "", "%s", module);
	else if (peer < 0)
		check_say_unread(to, "", "sys/module/nvidia_peermem", peer);
	else if (r)
		check_say_unread(to, "", CHECK_KERNEL, r);
	else if (driver.is_open && known == HOST_NOT_KNOWN && check_has_backports(host))
		check_say_backports(to, kernel);
	else
		check_say(to, CHECK_FAIL, "", "modprobe nvidia_peermem, or see driver and kernel for dmabufs",
			  "NICs reach no memory of GPUs: no peer memory module is loaded, and there are no dmabufs, since %s", why);
}

/* Doorbells of mode cpu are in host memory, so nothing of ours needs it; but a half of it makes libraries fail that look for it. */
void check_gdrcopy(const struct check_host *host, struct check_teller *to)
{
	int module = check_exists(host, "sys/module/gdrdrv"), node = check_exists(host, "dev/gdrdrv");

	if (module < 0)
		check_say_unread(to, "", "sys/module/gdrdrv", module);
	else if (!module && check_exists(host, "sys/module") != 1)
		check_say_unread(to, "", "sys/module", -ENOENT);
	else if (!module)
		check_say(to, CHECK_OK, "", "", "not there, and not needed: doorbells of mode cpu are in host memory");
	else if (node < 0)
		check_say_unread(to, "", "dev/gdrdrv", node);
	else if (node)
		check_say(to, CHECK_OK, "", "", "there; shmemd does not need it");
	else
		check_say(to, CHECK_WARN, "",
			  "modprobe -r gdrdrv, since shmemd does not need it; else mknod -m 666 /dev/gdrdrv c $(awk '$2==\"gdrdrv\"{print $1}' /proc/devices) 0",
			  "its module is loaded and its node /dev/gdrdrv is not there: libraries that try it fail");
}
