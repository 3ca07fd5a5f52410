/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as the kernel writes them into its files. Pure; any thread. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/host.h"
#include "daemon/host/sysfs.h"

void host_copy_text(char *to, size_t size, const char *text)
{
	size_t n;

	for (n = 0; text[n] && n + 1 < size; n++)
		to[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
	while (n > 0 && to[n - 1] == ' ')
		n--;
	to[n] = 0;
}

bool host_is_name(const char *text, size_t size)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("_-.", text[i]))
			return false;
	return n > 0 && n < size && text[0] != '.';
}

uint64_t host_number(const char *text, int base, uint64_t max)
{
	unsigned long long value;

	if (!text || !isxdigit((unsigned char)*text))
		return 0;
	errno = 0;
	value = strtoull(text, NULL, base);
	return errno || value > max ? max : value;
}

uint32_t host_mtps(const char *text)
{
	unsigned int gtps, tenths;
	char last;

	if (text && sscanf(text, "%4u.%1u GT/%c", &gtps, &tenths, &last) == 3)
		return gtps * 1000 + tenths * 100;
	return text && sscanf(text, "%4u GT/%c", &gtps, &last) == 2 ? gtps * 1000 : 0;
}

uint32_t host_link_mbps(uint32_t mtps, uint32_t width)
{
	uint64_t raw = (uint64_t)mtps * width, mbps = mtps < 8000 ? raw * 8 / 10 : raw * 128 / 130;

	return mbps < UINT32_MAX ? (uint32_t)mbps : UINT32_MAX;
}

uint64_t host_parse_rate(const char *text, uint32_t *ret_lanes)
{
	const char *lanes = strchr(text, '(');
	unsigned int gbps, tenths;
	char last;

	if (ret_lanes)
		*ret_lanes = lanes ? (uint32_t)host_number(lanes + 1, 10, UINT8_MAX) : 0;
	if (sscanf(text, "%7u.%1u Gb/se%c", &gbps, &tenths, &last) == 3)
		return (uint64_t)gbps * 1000 + tenths * 100;
	return sscanf(text, "%7u Gb/se%c", &gbps, &last) == 2 ? (uint64_t)gbps * 1000 : 0;
}

/* Up to max_digits hex digits, then `end`. Moves *text behind it. */
static bool take_hex(const char **text, unsigned int max_digits, char end, unsigned int *ret)
{
	unsigned int value = 0, n = 0;

	for (; isxdigit((unsigned char)**text) && n < max_digits; (*text)++, n++) {
		int c = tolower((unsigned char)**text);

		value = value << 4 | (unsigned int)(isdigit(c) ? c - '0' : c - 'a' + 10);
	}
	if (n == 0 || **text != end)
		return false;
	*text += end != 0;
	*ret = value;
	return true;
}

bool host_parse_groups(const char *text, unsigned int n_groups, uint8_t *ret_bytes)
{
	uint8_t bytes[2 * SYSFS_MAX_GROUPS];
	unsigned int group;

	if (n_groups > SYSFS_MAX_GROUPS)
		return false;
	for (unsigned int i = 0; i < n_groups; i++) {
		const char *begin = text;
		bool is_last = i + 1 == n_groups;

		if (!take_hex(&text, 4, is_last ? 0 : ':', &group) || text - begin != 4 + !is_last)
			return false;
		bytes[2 * i] = (uint8_t)(group >> 8);
		bytes[2 * i + 1] = (uint8_t)group;
	}
	memcpy(ret_bytes, bytes, 2 * n_groups);
	return true;
}

/* ---- PCI addresses --------------------------------------------------------------------------------------------------- */

const char *host_pci_text(uint64_t pci, char buf[HOST_PCI_BYTES])
{
	if (pci == HOST_NO_PCI)
		snprintf(buf, HOST_PCI_BYTES, "-");
	else
		snprintf(buf, HOST_PCI_BYTES, "%04x:%02x:%02x.%x", (unsigned int)(pci >> 16), (unsigned int)(pci >> 8 & 0xff),
			 (unsigned int)(pci >> 3 & 0x1f), (unsigned int)(pci & 7));
	return buf;
}

bool host_pci_parse(const char *text, uint64_t *ret_pci)
{
	unsigned int domain = 0, bus, slot, function;
	const char *first = strchr(text, ':');

	if (first && strchr(first + 1, ':') && !take_hex(&text, 8, ':', &domain))
		return false;
	if (!take_hex(&text, 2, ':', &bus) || !take_hex(&text, 2, '.', &slot) || !take_hex(&text, 1, 0, &function) ||
	    slot > 31 || function > 7)
		return false;
	*ret_pci = (uint64_t)domain << 16 | bus << 8 | slot << 3 | function;
	return true;
}
