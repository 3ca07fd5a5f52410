/* SPDX-License-Identifier: Apache-2.0 */
/* When one NIC carries what several should: samples with known bytes. Time is in seconds here, load in MB. */
#include <string.h>

#include "daemon/session/hot-spot.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define MB 1000000ull

static const struct hot_spot_rule rule = {.share_percent = 80, .time_nsec = 10 * NSEC_PER_SEC, .rate_mbps = 80};

struct lab {
	struct hot_spot spot;
	struct hot_spot_sample sample;
};

/* NICs 0 to n - 1, and a first sample to count from. */
static void begin(struct lab *lab, unsigned int n)
{
	hot_spot_init(&lab->spot);
	memset(&lab->sample, 0, sizeof(lab->sample));
	lab->sample.at_nsec = 1000 * NSEC_PER_SEC;
	lab->sample.assigned = (1ull << n) - 1;
	for (unsigned int i = 0; i < HOT_SPOT_MAX_NICS; i++)
		lab->sample.groups[i] = UINT64_MAX;
	ASSERT_EQ(hot_spot_take(&lab->spot, &rule, &lab->sample), HOT_SPOT_NOTHING);
}

/* An interval in which the first NICs moved so much. */
static enum hot_spot_news pass(struct lab *lab, unsigned int seconds, uint64_t a, uint64_t b, uint64_t c)
{
	lab->sample.at_nsec += seconds * NSEC_PER_SEC;
	lab->sample.bytes[0] += a * MB;
	lab->sample.bytes[1] += b * MB;
	lab->sample.bytes[2] += c * MB;
	return hot_spot_take(&lab->spot, &rule, &lab->sample);
}

/* As many as it takes, of five seconds each; what the last one says. */
static enum hot_spot_news pass_hot(struct lab *lab, uint64_t a, uint64_t b, uint64_t c)
{
	for (unsigned int i = 1; i < HOT_SPOT_MIN_INTERVALS; i++)
		ASSERT_EQ(pass(lab, 5, a, b, c), HOT_SPOT_NOTHING);
	return pass(lab, 5, a, b, c);
}

TEST(one_that_carries_most_is_told_of_once)
{
	struct lab lab;

	begin(&lab, 3);
	ASSERT_EQ(pass(&lab, 4, 1000, 100, 100), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass(&lab, 5, 1000, 100, 100), HOT_SPOT_NOTHING);
	ASSERT(!lab.spot.is_told);
	ASSERT_EQ(pass(&lab, 1, 900, 100, 0), HOT_SPOT_BEGUN);
	ASSERT_EQ(lab.spot.nic, 0);
	ASSERT_EQ(lab.spot.share_percent, 90);
	ASSERT_EQ(lab.spot.among, 7);
	ASSERT_EQ(lab.spot.since_nsec, 1000 * NSEC_PER_SEC);
	for (int i = 0; i < 20; i++)
		ASSERT_EQ(pass(&lab, 5, 1000, 0, 0), HOT_SPOT_NOTHING);
	ASSERT(lab.spot.is_told);
	ASSERT_EQ(lab.spot.share_percent, 100);
}

/* NICs 0 and 1 should share one load, 2 and 3 another. */
static void begin_two_groups(struct lab *lab)
{
	begin(lab, 4);
	for (unsigned int i = 0; i < 4; i++)
		lab->sample.groups[i] = i < 2 ? 3 : 12;
}

TEST(two_processes_that_each_use_the_first_of_two_nics_are_told_of)
{
	struct lab lab;

	begin_two_groups(&lab);
	ASSERT_EQ(pass_hot(&lab, 1000, 0, 1100), HOT_SPOT_BEGUN);
	ASSERT_EQ(lab.spot.nic, 2);
	ASSERT_EQ(lab.spot.among, 12);
	ASSERT_EQ(lab.spot.others, 1);
	ASSERT_EQ(lab.spot.share_percent, 100);
}

/* It stays the reported one, also when another becomes busier; the other has its turn when it ends. */
TEST(a_second_spot_does_not_end_the_first)
{
	struct lab lab;

	begin_two_groups(&lab);
	ASSERT_EQ(pass_hot(&lab, 1000, 0, 0), HOT_SPOT_BEGUN);
	ASSERT_EQ(lab.spot.others, 0);
	for (int i = 0; i < 5; i++)
		ASSERT_EQ(pass(&lab, 5, 1000, 0, 5000), HOT_SPOT_NOTHING);
	ASSERT_EQ(lab.spot.nic, 0);
	ASSERT(lab.spot.is_told);
	ASSERT_EQ(lab.spot.others, 4);
	ASSERT_EQ(pass(&lab, 5, 500, 500, 5000), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass(&lab, 5, 500, 500, 5000), HOT_SPOT_ENDED);
	ASSERT_EQ(pass_hot(&lab, 500, 500, 5000), HOT_SPOT_BEGUN);
	ASSERT_EQ(lab.spot.nic, 2);
}

/* A job that computes beside one that communicates. */
TEST(what_another_process_does_not_carry_is_nobodys_fault)
{
	struct lab lab;

	begin(&lab, 2);
	lab.sample.groups[0] = 1;
	lab.sample.groups[1] = 2;
	for (int i = 0; i < 10; i++)
		ASSERT_EQ(pass(&lab, 5, 1000, 0, 0), HOT_SPOT_NOTHING);
	ASSERT(!lab.spot.is_told);
}

TEST(a_break_begins_the_time_anew)
{
	struct lab lab;

	begin(&lab, 2);
	ASSERT_EQ(pass(&lab, 4, 1000, 100, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass(&lab, 5, 1000, 100, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass(&lab, 1, 500, 500, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass(&lab, 4, 1000, 100, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass(&lab, 5, 1000, 100, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass(&lab, 1, 1000, 100, 0), HOT_SPOT_BEGUN);
}

/* NICs that are read one after the other, with a long pause between. */
TEST(one_late_look_is_no_verdict)
{
	struct lab lab;

	begin(&lab, 2);
	for (int i = 0; i < 20; i++) {
		ASSERT_EQ(pass(&lab, 60, 1000, 0, 0), HOT_SPOT_NOTHING);
		ASSERT_EQ(pass(&lab, 60, 1000, 0, 0), HOT_SPOT_NOTHING);
		ASSERT_EQ(pass(&lab, 60, 1000, 3000, 0), HOT_SPOT_NOTHING);
	}
}

TEST(what_is_spread_is_no_hot_spot)
{
	struct lab lab;

	begin(&lab, 3);
	for (int i = 0; i < 50; i++) {
		ASSERT_EQ(pass(&lab, 5, 1000, 1000, 1000), HOT_SPOT_NOTHING);
		ASSERT_EQ(pass(&lab, 5, 780, 120, 100), HOT_SPOT_NOTHING);
	}
	ASSERT_EQ(lab.spot.nic, -1);
}

TEST(the_share_is_exact)
{
	struct lab lab;

	begin(&lab, 2);
	ASSERT_EQ(pass(&lab, 10, 799, 201, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass_hot(&lab, 800, 200, 0), HOT_SPOT_BEGUN);
	ASSERT_EQ(lab.spot.share_percent, 80);
}

TEST(a_single_nic_is_no_hot_spot)
{
	struct lab lab;

	begin(&lab, 1);
	for (int i = 0; i < 10; i++)
		ASSERT_EQ(pass(&lab, 5, 1000, 0, 0), HOT_SPOT_NOTHING);
	begin(&lab, 0);
	ASSERT_EQ(pass(&lab, 50, 1000, 0, 0), HOT_SPOT_NOTHING);
}

/* 10 MB a second are 80 Mb/s. */
TEST(little_traffic_slows_nobody)
{
	struct lab lab;

	begin(&lab, 2);
	for (int i = 0; i < 10; i++)
		ASSERT_EQ(pass(&lab, 5, 49, 0, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass(&lab, 5, 0, 0, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass_hot(&lab, 50, 0, 0), HOT_SPOT_BEGUN);
}

TEST(load_is_over_the_rate)
{
	struct lab lab;

	begin(&lab, 2);
	lab.sample.rate_mbps[0] = 400000;
	lab.sample.rate_mbps[1] = 25000;
	for (int i = 0; i < 5; i++)
		ASSERT_EQ(pass(&lab, 20, 1600, 100, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass_hot(&lab, 1600, 1600, 0), HOT_SPOT_BEGUN);
	ASSERT_EQ(lab.spot.nic, 1);
	begin(&lab, 2);
	lab.sample.rate_mbps[0] = 400000;
	lab.sample.rate_mbps[1] = 0;
	ASSERT_EQ(pass_hot(&lab, 1600, 100, 0), HOT_SPOT_BEGUN);
	ASSERT_EQ(lab.spot.nic, 0);
}

TEST(it_ends_when_it_was_not_hot_for_as_long_and_is_told_again_then)
{
	struct lab lab;

	begin(&lab, 2);
	ASSERT_EQ(pass_hot(&lab, 1000, 0, 0), HOT_SPOT_BEGUN);
	ASSERT_EQ(pass(&lab, 5, 500, 500, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass(&lab, 5, 1000, 0, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass(&lab, 9, 0, 0, 0), HOT_SPOT_NOTHING);
	ASSERT(lab.spot.is_told);
	ASSERT_EQ(pass(&lab, 1, 500, 500, 0), HOT_SPOT_ENDED);
	ASSERT_EQ(lab.spot.nic, -1);
	ASSERT_EQ(pass_hot(&lab, 1000, 0, 0), HOT_SPOT_BEGUN);
}

TEST(another_one_has_a_time_of_its_own)
{
	struct lab lab;

	begin(&lab, 2);
	ASSERT_EQ(pass(&lab, 6, 1000, 0, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass(&lab, 6, 1000, 0, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass_hot(&lab, 0, 1000, 0), HOT_SPOT_BEGUN);
	ASSERT_EQ(lab.spot.nic, 1);
	/* The first one is reported until it ends, then the other one. */
	ASSERT_EQ(pass(&lab, 6, 1000, 0, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(lab.spot.nic, 1);
	ASSERT_EQ(pass(&lab, 6, 1000, 0, 0), HOT_SPOT_ENDED);
	ASSERT_EQ(pass_hot(&lab, 1000, 0, 0), HOT_SPOT_BEGUN);
	ASSERT_EQ(lab.spot.nic, 0);
}

TEST(counters_that_were_reset_say_nothing)
{
	struct lab lab;

	begin(&lab, 2);
	ASSERT_EQ(pass(&lab, 5, 1000, 100, 0), HOT_SPOT_NOTHING);
	lab.sample.bytes[0] = 0;
	ASSERT_EQ(pass(&lab, 1, 0, 100, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(lab.spot.nic, 0);
	ASSERT_EQ(pass(&lab, 3, 1000, 0, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass(&lab, 1, 1000, 0, 0), HOT_SPOT_BEGUN);
	/* A counter that wraps counts on. */
	begin(&lab, 2);
	lab.sample.bytes[0] = UINT64_MAX - 10;
	ASSERT_EQ(hot_spot_take(&lab.spot, &rule, &lab.sample), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass_hot(&lab, 1000, 0, 0), HOT_SPOT_BEGUN);
}

/* Only what was assigned at both ends of an interval is compared. */
TEST(nics_come_and_go)
{
	struct lab lab;

	begin(&lab, 2);
	lab.sample.assigned = 1;
	ASSERT_EQ(pass(&lab, 20, 1000, 0, 0), HOT_SPOT_NOTHING);
	lab.sample.assigned = 3;
	ASSERT_EQ(pass(&lab, 20, 1000, 0, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(pass_hot(&lab, 1000, 0, 0), HOT_SPOT_BEGUN);
	lab.sample.assigned = 1ull << 63 | 1;
	lab.sample.bytes[63] = 1000 * MB;
	ASSERT_EQ(pass(&lab, 20, 1000, 0, 0), HOT_SPOT_ENDED);
	for (int i = 0; i < 2; i++) {
		lab.sample.bytes[63] += 1000 * MB;
		ASSERT_EQ(pass(&lab, 20, 0, 0, 0), HOT_SPOT_NOTHING);
	}
	lab.sample.bytes[63] += 1000 * MB;
	ASSERT_EQ(pass(&lab, 20, 0, 0, 0), HOT_SPOT_BEGUN);
	ASSERT_EQ(lab.spot.nic, 63);
}

TEST(a_sample_without_time_says_nothing)
{
	struct lab lab;

	begin(&lab, 2);
	ASSERT_EQ(pass(&lab, 0, 1000, 0, 0), HOT_SPOT_NOTHING);
	ASSERT_EQ(lab.spot.nic, -1);
	ASSERT_EQ(pass_hot(&lab, 1000, 0, 0), HOT_SPOT_BEGUN);
}
