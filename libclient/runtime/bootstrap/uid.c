/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/uid.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "libclient/runtime/bootstrap/keyed-hash.h"

#define MAGIC "shu1"
#define TEXT_HEAD "shmd-"
#define AT_ADDRESSES 25

_Static_assert(AT_ADDRESSES + UID_MOST_ADDRESSES * UID_ADDRESS_BYTES <= SHMD_UID_BYTES, "the addresses fit");
_Static_assert(sizeof(TEXT_HEAD) + 2 * SHMD_UID_BYTES <= BOOTSTRAP_UID_TEXT_BYTES, "the text fits");

socklen_t address_bytes(const union address *address)
{
	return address->any.sa_family == AF_INET6 ? sizeof(address->in6) : sizeof(address->in);
}

uint16_t address_port(const union address *address)
{
	return ntohs(address->any.sa_family == AF_INET6 ? address->in6.sin6_port : address->in.sin_port);
}

void uid_pack_address(const union address *address, uint8_t *bytes)
{
	memset(bytes, 0, UID_ADDRESS_BYTES);
	if (address->any.sa_family == AF_INET6) {
		bytes[0] = 6;
		memcpy(bytes + 1, &address->in6.sin6_addr, 16);
	} else {
		bytes[0] = 4;
		memcpy(bytes + 1, &address->in.sin_addr, 4);
	}
}

int uid_unpack_address(const uint8_t *bytes, uint16_t port, union address *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (bytes[0] == 6) {
		ret->in6.sin6_family = AF_INET6;
		ret->in6.sin6_port = htons(port);
		memcpy(&ret->in6.sin6_addr, bytes + 1, 16);
		return 0;
	}
	if (bytes[0] != 4)
		return -EINVAL;
	ret->in.sin_family = AF_INET;
	ret->in.sin_port = htons(port);
	memcpy(&ret->in.sin_addr, bytes + 1, 4);
	return 0;
}

void uid_pack(const struct uid_parts *parts, struct shmd_uid *ret)
{
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->data, MAGIC, 4);
	memcpy(ret->data + 4, parts->secret, UID_SECRET_BYTES);
	ret->data[21] = (uint8_t)parts->n_addresses;
	ret->data[22] = (uint8_t)(parts->port >> 8);
	ret->data[23] = (uint8_t)parts->port;
	ret->data[24] = (uint8_t)parts->n_ports;
	for (unsigned int i = 0; i < parts->n_addresses; i++)
		uid_pack_address(&parts->addresses[i], ret->data + AT_ADDRESSES + (size_t)i * UID_ADDRESS_BYTES);
}

int uid_unpack(const struct shmd_uid *uid, struct uid_parts *ret)
{
	struct uid_parts parts = {.port = (uint16_t)(uid->data[22] << 8 | uid->data[23]),
				  .n_ports = uid->data[24],
				  .n_addresses = uid->data[21]};

	if (memcmp(uid->data, MAGIC, 4))
		return shmd_error_set(-EINVAL, "this is not a unique id of this library");
	if (!parts.n_addresses || parts.n_addresses > UID_MOST_ADDRESSES || !parts.port || !parts.n_ports ||
	    parts.n_ports > UID_MOST_PORTS || parts.port > UINT16_MAX - (parts.n_ports - 1))
		return shmd_error_set(-EINVAL, "the unique id has wrong numbers in it; was all of it carried here?");
	memcpy(parts.secret, uid->data + 4, UID_SECRET_BYTES);
	for (unsigned int i = 0; i < parts.n_addresses; i++)
		if (uid_unpack_address(uid->data + AT_ADDRESSES + (size_t)i * UID_ADDRESS_BYTES, parts.port, &parts.addresses[i]))
			return shmd_error_set(-EINVAL, "the unique id has an address of an unknown family");
	*ret = parts;
	return 0;
}

void uid_world_secret(const uint8_t secret[UID_SECRET_BYTES], uint32_t number, uint8_t ret[UID_SECRET_BYTES])
{
	uint8_t text[16];
	int n = snprintf((char *)text, sizeof(text), "w%u", number);

	keyed_hash(secret, text, (size_t)n, ret);
}

void bootstrap_uid_text(const struct shmd_uid *uid, char text[BOOTSTRAP_UID_TEXT_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	size_t n = SHMD_UID_BYTES, at = strlen(TEXT_HEAD);

	while (n && !uid->data[n - 1])
		n--;
	memcpy(text, TEXT_HEAD, at);
	for (size_t i = 0; i < n; i++) {
		text[at++] = digits[uid->data[i] >> 4];
		text[at++] = digits[uid->data[i] & 15];
	}
	text[at] = 0;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int bootstrap_uid_from_text(const char *text, struct shmd_uid *ret)
{
	size_t head = strlen(TEXT_HEAD), n = strnlen(text, BOOTSTRAP_UID_TEXT_BYTES);
	struct shmd_uid uid = {{0}};
	struct uid_parts parts;

	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	if (n < head || n - head > 2 * SHMD_UID_BYTES || (n - head) % 2 || memcmp(text, TEXT_HEAD, head))
		return shmd_error_set(-EINVAL, "this text is not a unique id, which begins with %s", TEXT_HEAD);
	for (size_t i = head; i < n; i++) {
		int value = digit(text[i]);

		if (value < 0)
			return shmd_error_set(-EINVAL, "the text of the unique id has another character than 0-9 and a-f");
		uid.data[(i - head) / 2] |= (uint8_t)((i - head) % 2 ? value : value << 4);
	}
	if (uid_unpack(&uid, &parts))
		return -EINVAL;
	*ret = uid;
	return 0;
}
