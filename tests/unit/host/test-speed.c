/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities of ports: link modes of the kernel's numbers, the two questions, ports that do not answer; masks of InfiniBand. */
#include <errno.h>
#include <string.h>

#include "daemon/host/speed.h"
#include "tests/lib/test.h"

#define N_WORDS 4

static struct host_speed speed_of(unsigned int mode)
{
	uint32_t modes[N_WORDS] = {0};

	modes[mode / 32] = 1u << mode % 32;
	return host_speed_of(modes, N_WORDS);
}

#define ASSERT_SPEED(speed, rate, lanes)                                                           \
	do {                                                                                       \
		struct host_speed speed_ = speed;                                                  \
		ASSERT_EQ(speed_.mbps, rate);                                                      \
		ASSERT_EQ(speed_.n_lanes, lanes);                                                  \
	} while (0)
#define ASSERT_MODE(name, rate, lanes)                                                             \
	ASSERT_SPEED(speed_of(ETHTOOL_LINK_MODE_##name##_BIT), rate, lanes)

TEST(numbers_of_link_modes_are_those_of_the_kernels_header)
{
	ASSERT_MODE(1000baseT_Full, 1000, 1);
	ASSERT_MODE(1000baseX_Full, 1000, 1);
	ASSERT_MODE(2500baseX_Full, 2500, 1);
	ASSERT_MODE(5000baseT_Full, 5000, 1);
	ASSERT_MODE(10000baseT_Full, 10000, 1);
	ASSERT_MODE(10000baseKX4_Full, 10000, 4);
	ASSERT_MODE(10000baseCR_Full, 10000, 1);
	ASSERT_MODE(20000baseKR2_Full, 20000, 2);
	ASSERT_MODE(25000baseCR_Full, 25000, 1);
	ASSERT_MODE(25000baseSR_Full, 25000, 1);
	ASSERT_MODE(40000baseKR4_Full, 40000, 4);
	ASSERT_MODE(40000baseLR4_Full, 40000, 4);
	ASSERT_MODE(50000baseKR2_Full, 50000, 2);
	ASSERT_MODE(50000baseSR2_Full, 50000, 2);
	ASSERT_MODE(50000baseKR_Full, 50000, 1);
	ASSERT_MODE(50000baseDR_Full, 50000, 1);
	ASSERT_MODE(56000baseLR4_Full, 56000, 4);
	ASSERT_MODE(100000baseKR4_Full, 100000, 4);
	ASSERT_MODE(100000baseLR4_ER4_Full, 100000, 4);
	ASSERT_MODE(100000baseDR2_Full, 100000, 2);
	ASSERT_MODE(200000baseKR4_Full, 200000, 4);
	ASSERT_MODE(200000baseCR4_Full, 200000, 4);
	ASSERT_MODE(400000baseKR8_Full, 400000, 8);
	ASSERT_MODE(400000baseCR8_Full, 400000, 8);
}

/* FEC, pause, connectors, and what is too slow. */
TEST(values_that_are_no_speed_are_ignored)
{
	ASSERT_MODE(10baseT_Full, 0, 0);
	ASSERT_MODE(100baseT_Full, 0, 0);
	ASSERT_MODE(100baseT1_Full, 0, 0);
	ASSERT_MODE(Autoneg, 0, 0);
	ASSERT_MODE(TP, 0, 0);
	ASSERT_MODE(FIBRE, 0, 0);
	ASSERT_MODE(Pause, 0, 0);
	ASSERT_MODE(Asym_Pause, 0, 0);
	ASSERT_MODE(Backplane, 0, 0);
	ASSERT_MODE(FEC_NONE, 0, 0);
	ASSERT_MODE(FEC_RS, 0, 0);
	ASSERT_MODE(FEC_BASER, 0, 0);
	ASSERT_SPEED(speed_of(74), 0, 0); /* FEC_LLRS */
	ASSERT_SPEED(speed_of(99), 0, 0); /* 10baseT1S_Full */
	ASSERT_SPEED(speed_of(102), 0, 0); /* 10baseT1BRR_Full */
	ASSERT_SPEED(speed_of(127), 0, 0); /* no speed yet */
}

/* Numbers of Linux 5.8 to 6.17: not in every header. */
TEST(modes_that_are_newer_than_the_header_are_known)
{
	ASSERT_SPEED(speed_of(75), 100000, 1);	 /* 100000baseKR_Full */
	ASSERT_SPEED(speed_of(79), 100000, 1);	 /* 100000baseDR_Full */
	ASSERT_SPEED(speed_of(84), 200000, 2);	 /* 200000baseCR2_Full */
	ASSERT_SPEED(speed_of(85), 400000, 4);	 /* 400000baseKR4_Full */
	ASSERT_SPEED(speed_of(89), 400000, 4);	 /* 400000baseCR4_Full */
	ASSERT_SPEED(speed_of(90), 0, 0);	 /* 100baseFX_Half */
	ASSERT_SPEED(speed_of(93), 800000, 8);	 /* 800000baseCR8_Full */
	ASSERT_SPEED(speed_of(98), 800000, 8);	 /* 800000baseVR8_Full */
	ASSERT_SPEED(speed_of(103), 200000, 1);	 /* 200000baseCR_Full */
	ASSERT_SPEED(speed_of(114), 400000, 2);	 /* 400000baseVR2_Full */
	ASSERT_SPEED(speed_of(120), 800000, 4);	 /* 800000baseVR4_Full */
	ASSERT_SPEED(speed_of(124), 1600000, 8); /* 1600000baseDR8_2_Full */
}

TEST(the_fastest_mode_counts_over_the_most_lanes_and_within_the_bitmap)
{
	/* FEC_RS; 50G of 1 lane; 200G of 4 lanes; 200G of 2, 400G of 4. */
	const uint32_t modes[N_WORDS] = {0, 1u << (50 - 32) | 1u << (52 - 32),
					 1u << (66 - 64) | 1u << (80 - 64) | 1u << (85 - 64)};

	ASSERT_SPEED(host_speed_of(modes, 0), 0, 0);
	ASSERT_SPEED(host_speed_of(modes, 1), 0, 0);
	ASSERT_SPEED(host_speed_of(modes, 2), 50000, 1);
	ASSERT_SPEED(host_speed_of(modes, 3), 400000, 4);
	ASSERT_SPEED(host_speed_of((const uint32_t[]){0, 0, 1u << (66 - 64) | 1u << (80 - 64)}, 3),
		     200000, 4);
}

/* ---- the two questions */

/* A driver of our own: of the interface "fast". */
struct driver {
	int n_words;
	int n_words_then; /* of the second answer, where it is another */
	uint32_t mode;
	uint32_t now_mbps;
	unsigned int n_asked;
};

static int answer(void *arg, const char *netdev, struct ethtool_link_settings *settings)
{
	struct driver *driver = arg;
	int8_t asked = settings->link_mode_masks_nwords;

	driver->n_asked++;
	ASSERT_EQ(settings->cmd, (uint32_t)ETHTOOL_GLINKSETTINGS);
	if (strcmp(netdev, "fast"))
		return -ENODEV;
	if (asked != driver->n_words) {
		ASSERT_EQ(asked, 0);
		memset(settings, 0, sizeof(*settings));
		settings->link_mode_masks_nwords = (int8_t)-driver->n_words;
		return 0;
	}
	settings->speed = driver->now_mbps;
	if (driver->n_words_then)
		settings->link_mode_masks_nwords = (int8_t)driver->n_words_then;
	for (int i = 0; i < 3 * driver->n_words; i++) /* what is advertised is all modes */
		settings->link_mode_masks[i] = i < driver->n_words ? 0 : UINT32_MAX;
	if ((int)driver->mode / 32 < driver->n_words)
		settings->link_mode_masks[driver->mode / 32] = 1u << driver->mode % 32;
	return 0;
}

static struct host_nic ask(struct driver *driver, const char *netdev, uint64_t rate_mbps)
{
	struct host_nic nic = {
		.fabric = HOST_FABRIC_ETHERNET, .rate_mbps = rate_mbps, .n_lanes = 4};

	driver->n_asked = 0;
	strcpy(nic.netdev, netdev);
	host_ask_speed(answer, driver, &nic);
	ASSERT_EQ(nic.rate_mbps, rate_mbps);
	ASSERT_EQ(nic.n_lanes, 4);
	return nic;
}

static void assert_unknown(struct driver *driver, const char *netdev, uint64_t rate_mbps)
{
	struct host_nic nic = ask(driver, netdev, rate_mbps);

	ASSERT_EQ(nic.max_rate_mbps, 0);
	ASSERT_EQ(nic.max_lanes, 0);
}

TEST(a_port_below_its_best_tells_what_it_supports)
{
	for (int n_words = 3; n_words <= INT8_MAX; n_words += 31) {
		struct driver driver = {.n_words = n_words, .mode = 89, .now_mbps = 100000};
		struct host_nic nic = ask(&driver, "fast", 100000);

		ASSERT_EQ(driver.n_asked, 2);
		ASSERT_EQ(nic.max_rate_mbps, 400000);
		ASSERT_EQ(nic.max_lanes, 4);
	}
}

TEST(speed_of_a_port_that_does_not_answer_is_unknown)
{
	assert_unknown(&(struct driver){.n_words = 3, .mode = 89}, "slow", 100000);
	assert_unknown(&(struct driver){.n_words = 3, .mode = 89}, "", 100000);
	assert_unknown(&(struct driver){.n_words = 0, .mode = 89}, "fast", 100000);
	assert_unknown(&(struct driver){.n_words = 3, .n_words_then = -3, .mode = 89}, "fast",
		       100000);
	assert_unknown(&(struct driver){.n_words = 3, .n_words_then = 2, .mode = 89}, "fast",
		       100000);
	/* Only FEC. */
	assert_unknown(&(struct driver){.n_words = 3, .mode = 50}, "fast", 100000);
}

/* A rate that an older kernel rounded down, and a mode that is newer than we are. */
TEST(contradictory_answers_are_unknown)
{
	struct driver driver = {.n_words = 3, .mode = 66, .now_mbps = 200000};

	assert_unknown(&driver, "fast", 100000);
	ASSERT_EQ(ask(&driver, "fast", 200000).max_rate_mbps, 200000);
	driver.now_mbps = 3200000;
	assert_unknown(&driver, "fast", 100000);
	/* No link, no speed. */
	driver.now_mbps = (uint32_t)SPEED_UNKNOWN;
	ASSERT_EQ(ask(&driver, "fast", 10000).max_rate_mbps, 200000);
}

/* ---- InfiniBand */

#define EXTENDED (1u << 14)
#define MASKS (EXTENDED | 1u << 15) /* there is a second mask */
#define WIDTH_2X (1u << 4)
#define HDR (1u << 5)
#define NDR (1u << 10 | HDR)
#define XDR (1u << 12 | NDR)

TEST(a_port_of_infiniband_below_its_class_is_capable_of_more)
{
	ASSERT_EQ(host_ib_max_mbps(MASKS, HDR, 100000, 4), 200000);
	ASSERT_EQ(host_ib_max_mbps(MASKS, NDR, 200000, 4), 400000);
	ASSERT_EQ(host_ib_max_mbps(MASKS, XDR, 400000, 4), 800000);
	ASSERT_EQ(host_ib_max_mbps(MASKS, XDR, 50000, 1), 200000);
	/* FDR or EDR: the slower of them is sure. */
	ASSERT_EQ(host_ib_max_mbps(EXTENDED, 0, 40000, 4), 56000);
	ASSERT_EQ(host_ib_max_mbps(MASKS, 0, 40000, 4), 56000);
}

TEST(a_port_of_infiniband_at_its_best_is_known_by_all_lanes)
{
	ASSERT_EQ(host_ib_max_mbps(MASKS, HDR, 200000, 4), 200000);
	ASSERT_EQ(host_ib_max_mbps(MASKS, NDR | WIDTH_2X, 400000, 4), 400000);
	ASSERT_EQ(host_ib_max_mbps(MASKS, XDR | WIDTH_2X, 800000, 4), 800000);
	/* Over less lanes of its class: their number is unknown. */
	ASSERT_EQ(host_ib_max_mbps(MASKS, NDR | WIDTH_2X, 200000, 2), 0);
	ASSERT_EQ(host_ib_max_mbps(MASKS, HDR, 50000, 1), 0);
	/* Which may be EDR that runs as FDR. */
	ASSERT_EQ(host_ib_max_mbps(EXTENDED, 0, 56000, 4), 0);
	ASSERT_EQ(host_ib_max_mbps(EXTENDED, 0, 100000, 4), 0);
}

/* A card of NDR over two lanes that runs as HDR over four, one of HDR100 as EDR: they are as fast as ever. */
TEST(a_port_that_may_have_its_best_over_two_lanes_is_not_called_slow)
{
	ASSERT_EQ(host_ib_max_mbps(MASKS, NDR | WIDTH_2X, 200000, 4), 0);
	ASSERT_EQ(host_ib_max_mbps(MASKS, HDR | WIDTH_2X, 100000, 4), 0);
	/* Less than that it is not meant to run. */
	ASSERT_EQ(host_ib_max_mbps(MASKS, NDR | WIDTH_2X, 100000, 4), 200000);
	ASSERT_EQ(host_ib_max_mbps(MASKS, HDR | WIDTH_2X, 56000, 4), 100000);
	ASSERT_EQ(host_ib_max_mbps(MASKS, NDR | WIDTH_2X, 100000, 2), 200000);
}

TEST(masks_that_tell_no_class_leave_it_unknown)
{
	ASSERT_EQ(host_ib_max_mbps(0, 0, 40000, 4), 0);
	ASSERT_EQ(host_ib_max_mbps(0, XDR, 40000, 4), 0); /* the second mask is not there */
	ASSERT_EQ(host_ib_max_mbps(EXTENDED, XDR, 100000, 4), 0);
	ASSERT_EQ(host_ib_max_mbps(MASKS, XDR, 0, 0), 0);
}
