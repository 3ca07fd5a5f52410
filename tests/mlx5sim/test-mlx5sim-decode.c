/* SPDX-License-Identifier: Apache-2.0 */
/* The ioctl decoder: what is not known is refused. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include <rdma/ib_user_ioctl_verbs.h>

#include "tests/mlx5sim/sim/decode.h"

static const struct attr_spec specs[] = {
	{10, ATTR_NEW_OBJECT, true, 0, 0},
	{11, ATTR_IN, true, 4, 8},
	{12, ATTR_OUT, false, 16, 0},
	{13, ATTR_FD, false, 0, 0},
};

static const struct method_spec table[] = {
	{5, 0, "make", specs, 4, NULL},
	{5, 1, "unmake", specs, 1, NULL},
};

static struct ib_uverbs_attr attr(uint16_t id, uint16_t len, uint16_t flags)
{
	return (struct ib_uverbs_attr){.attr_id = id, .len = len, .flags = flags};
}

static int decode(const struct ib_uverbs_attr *attrs, size_t n, struct decoded *ret_decoded)
{
	const char *reason = NULL;
	int r = decode_attrs(&table[0], attrs, n, ret_decoded, &reason);

	ASSERT(r == 0 || (reason && reason[0]));
	return r;
}

static struct ib_uverbs_ioctl_hdr header(uint16_t n)
{
	return (struct ib_uverbs_ioctl_hdr){.length =
						    (uint16_t)(sizeof(struct ib_uverbs_ioctl_hdr) +
							       n * sizeof(struct ib_uverbs_attr)),
					    .object_id = 5,
					    .num_attrs = n,
					    .driver_id = RDMA_DRIVER_MLX5};
}

#define HEADER_REFUSED(change, error)                                                              \
	do {                                                                                       \
		struct ib_uverbs_ioctl_hdr bad = header(3);                                        \
		const char *why = NULL;                                                            \
		bad.change;                                                                        \
		ASSERT_ERR(decode_header(&bad, &why), error);                                      \
		ASSERT(why &&why[0]);                                                              \
	} while (0)

TEST(header_that_is_not_ours_is_refused)
{
	struct ib_uverbs_ioctl_hdr hdr = header(3);
	const char *reason;

	ASSERT_OK(decode_header(&hdr, &reason));
	HEADER_REFUSED(reserved1 = 1, EPROTONOSUPPORT);
	HEADER_REFUSED(reserved2 = 1, EPROTONOSUPPORT);
	HEADER_REFUSED(length += 1, EINVAL);
	HEADER_REFUSED(num_attrs = 4, EINVAL);
	HEADER_REFUSED(num_attrs = 2, EINVAL);
	HEADER_REFUSED(num_attrs = 0xffff, EINVAL);
	HEADER_REFUSED(driver_id = RDMA_DRIVER_MLX4, EINVAL);
}

TEST(unknown_method_is_not_found)
{
	ASSERT(decode_method(table, 2, 5, 1) == &table[1]);
	ASSERT(!decode_method(table, 2, 5, 2));
	ASSERT(!decode_method(table, 2, 6, 0));
	ASSERT(!decode_method(table, 2, 5, 0x1000));
}

TEST(attributes_are_placed_in_any_order)
{
	struct ib_uverbs_attr attrs[] = {attr(13, 0, 0), attr(11, 4, UVERBS_ATTR_F_MANDATORY),
					 attr(10, 0, UVERBS_ATTR_F_MANDATORY)};
	struct decoded decoded;

	ASSERT_OK(decode(attrs, 3, &decoded));
	ASSERT_EQ(decoded.place[0], 2);
	ASSERT_EQ(decoded.place[1], 1);
	ASSERT_EQ(decoded.place[2], -1);
	ASSERT_EQ(decoded.place[3], 0);
	ASSERT_EQ(decoded.n_ignored, 0);
}

TEST(unknown_attribute_is_refused_unless_its_sender_calls_it_optional)
{
	struct ib_uverbs_attr attrs[] = {attr(10, 0, 0), attr(11, 4, 0),
					 attr(99, 4, UVERBS_ATTR_F_MANDATORY)};
	struct decoded decoded;

	ASSERT_ERR(decode(attrs, 3, &decoded), EPROTONOSUPPORT);
	attrs[2].flags = 0;
	ASSERT_OK(decode(attrs, 3, &decoded));
	ASSERT_EQ(decoded.n_ignored, 1);
}

TEST(missing_or_double_attribute_is_refused)
{
	struct ib_uverbs_attr attrs[] = {attr(10, 0, 0), attr(11, 4, 0), attr(11, 4, 0)};
	struct decoded decoded;

	ASSERT_OK(decode(attrs, 2, &decoded));
	ASSERT_ERR(decode(attrs, 1, &decoded), EINVAL);
	ASSERT_ERR(decode(attrs + 1, 1, &decoded), EINVAL);
	ASSERT_ERR(decode(attrs, 3, &decoded), EINVAL);
}

TEST(sizes_and_reserved_bits_of_attributes_are_checked)
{
	struct ib_uverbs_attr good[] = {attr(10, 0, 0), attr(11, 4, 0), attr(12, 16, 0)}, attrs[3];
	struct decoded decoded;

	ASSERT_OK(decode(good, 3, &decoded));
	memcpy(attrs, good, sizeof(attrs));
	attrs[1].len = 3;
	ASSERT_ERR(decode(attrs, 3, &decoded), EINVAL);
	memcpy(attrs, good, sizeof(attrs));
	attrs[2].len = 15;
	ASSERT_ERR(decode(attrs, 3, &decoded), ENOSPC);
	memcpy(attrs, good, sizeof(attrs));
	attrs[0].len = 4;
	ASSERT_ERR(decode(attrs, 3, &decoded), EINVAL);
	memcpy(attrs, good, sizeof(attrs));
	attrs[1].attr_data.reserved = 1;
	ASSERT_ERR(decode(attrs, 3, &decoded), EINVAL);
	memcpy(attrs, good, sizeof(attrs));
	attrs[1].flags = 0x8000;
	ASSERT_ERR(decode(attrs, 3, &decoded), EINVAL);
}

TEST(input_beyond_what_is_known_must_be_zero)
{
	uint8_t bytes[16] = {1, 2, 3, 4};

	ASSERT(decode_tail_is_zero(bytes, 16, 4));
	ASSERT(!decode_tail_is_zero(bytes, 16, 3));
	ASSERT(decode_tail_is_zero(bytes, 2, 8));
	bytes[15] = 0x80;
	ASSERT(!decode_tail_is_zero(bytes, 16, 4));
	ASSERT(decode_tail_is_zero(bytes, 15, 4));
}
