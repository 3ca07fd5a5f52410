/* SPDX-License-Identifier: Apache-2.0 */
/* Links, hosts and functions without a name in files of NCCL: missing facts stay unknown. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/topo/topo.h"
#include "tests/lib/test.h"

static struct topo *parse_why(const char *text, char why[TOPO_WHY_BYTES])
{
	struct topo *topo = NULL;
	char *copy = strdup(text);
	int r = topo_parse(copy, strlen(copy), &topo, why);

	free(copy);
	ASSERT_OK(r);
	return topo;
}

static struct topo *parse(const char *text)
{
	char why[TOPO_WHY_BYTES];
	struct topo *topo = parse_why(text, why);

	ASSERT_STREQ(why, "");
	return topo;
}

#define CPU(attrs, inside) "<cpu " attrs ">" inside "</cpu>"
#define GPU(pci, inside) "<pci busid=\"" pci "\" class=\"0x030200\"><gpu>" inside "</gpu></pci>"
#define LINK(target, count, tclass) "<nvlink target=\"" target "\" count=\"" count "\" tclass=\"" tclass "\"/>"
#define FUNCTION(pci, attrs) "<pci busid=\"" pci "\" " attrs "/>"
#define PORT "class=\"0x020000\""

/* ---- links ---------------------------------------------------------------------------------------------------------- */

/* A GPU that hangs off its CPU by NVLink reaches no other GPU that way. */
TEST(a_link_to_a_cpu_is_no_link_between_gpus)
{
	struct topo *topo = parse("<system>"
		CPU("numaid=\"0\"", GPU("0004:04:00.0", LINK("0004:05:00.0", "3", "0x030200") LINK("0006:00:00.0", "3", "0x068001"))
				    GPU("0004:05:00.0", LINK("0004:04:00.0", "3", "0x030200") LINK("0006:00:00.1", "3", "0x068001")))
		CPU("numaid=\"8\"", GPU("0035:03:00.0", LINK("0007:00:00.0", "3", "0x068001"))) "</system>");

	ASSERT_EQ(topo->n_gpus, 3);
	ASSERT_EQ(topo_gpu_links(topo, 0, 1), 3);
	ASSERT_EQ(topo_gpu_links(topo, 0, 2), 0);
	ASSERT_EQ(topo_gpu_links(topo, 1, 2), 0);
	topo_free(topo);
}

/* A job that was shown some GPUs writes of the others that there are links to them. */
TEST(a_link_to_a_gpu_that_is_not_there_is_no_switch)
{
	struct topo *topo = parse("<system>" CPU("numaid=\"0\"", GPU("0000:06:00.0", LINK("0000:07:00.0", "2", "0x030200")))
				  CPU("numaid=\"1\"", GPU("0000:85:00.0", LINK("0000:86:00.0", "2", "0x030200"))) "</system>");
	struct topo *own = parse("<shmemd-topology version=\"1\"><function pci=\"0000:06:00.0\" class=\"0302\"><gpu>"
				 "<links to=\"0000:07:00.0\" count=\"2\"/></gpu></function><function pci=\"0000:85:00.0\" class=\"0302\">"
				 "<gpu><links to=\"0000:86:00.0\" count=\"2\"/></gpu></function></shmemd-topology>");

	ASSERT_EQ(topo_gpu_links(topo, 0, 1), 0);
	ASSERT_EQ(topo_gpu_links(own, 0, 1), 0);
	topo_free(topo);
	topo_free(own);
}

TEST(links_to_switches_reach_every_gpu_that_has_some)
{
	struct topo *topo = parse("<system>" CPU("numaid=\"0\"", GPU("0000:06:00.0", LINK("fffffff:ffff:ff", "18", "0x068000")))
				  CPU("numaid=\"1\"", GPU("0000:85:00.0", LINK("0000:c3:00.0", "18", "0x068000"))
						      GPU("0000:86:00.0", "")) "</system>");

	ASSERT_EQ(topo_gpu_links(topo, 0, 1), 18);
	ASSERT_EQ(topo_gpu_links(topo, 0, 2), 0);
	topo_free(topo);
}

/* ---- hosts ---------------------------------------------------------------------------------------------------------- */

/* NCCL joins the hosts of one NVLink domain before it writes its file; their addresses are the same. */
TEST(the_first_of_several_hosts_in_one_file_is_read)
{
	static const char text[] = "<system>" CPU("host_hash=\"0xab\" numaid=\"0\"", GPU("0008:01:00.0", ""))
		CPU("host_hash=\"0xab\" numaid=\"1\"", GPU("0009:01:00.0", ""))
		CPU("host_hash=\"0xcd\" numaid=\"0\"", GPU("0008:01:00.0", ""))
		CPU("host_hash=\"0xcd\" numaid=\"1\"", GPU("0009:01:00.0", "") GPU("0009:02:00.0", ""))
		CPU("host_hash=\"0xef\" numaid=\"0\"", GPU("0008:01:00.0", "")) "</system>";
	char why[TOPO_WHY_BYTES];
	struct topo *topo = parse_why(text, why);

	ASSERT_STREQ(why, "the file has 3 hosts: only the first one is read");
	ASSERT_EQ(topo->n_gpus, 2);
	ASSERT_EQ(topo->n_numa, 2);
	topo_free(topo);
}

TEST(a_file_without_devices_is_reported)
{
	static const char *const texts[] = {"<topology/>", "<system/>", "<shmemd-topology version=\"1\"/>", "<system><cpu/></system>"};
	char why[TOPO_WHY_BYTES];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		topo_free(parse_why(texts[i], why));
		ASSERT(strstr(why, "it contains no PCI device"));
	}
}

/* ---- functions ------------------------------------------------------------------------------------------------------ */

/* Files written by hand have invented addresses of switches. */
TEST(a_bridge_needs_no_real_address)
{
	struct topo *topo = parse("<system>" CPU("", "<pci busid=\"ffff:ff:28.0\" class=\"0x060400\">" GPU("0000:06:00.0", "")
						     FUNCTION("0000:07:00.0", PORT) "</pci>") "</system>");

	ASSERT_EQ(topo->n_nics, 1);
	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[0].node), TOPO_PIX);
	topo_free(topo);
}

static void guess(const char *text, unsigned int n_nics, enum topo_distance distance)
{
	struct topo *topo = parse(text);

	ASSERT_EQ(topo->n_gpus, 1);
	ASSERT_EQ(topo->n_nics, n_nics);
	if (n_nics)
		ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[0].node), distance);
	topo_free(topo);
}

TEST(an_ethernet_function_beside_a_gpu_is_a_nic_if_none_has_a_name)
{
	/* A virtual machine without bridges. */
	guess("<system>" CPU("", GPU("0000:06:00.0", "") FUNCTION("0000:07:00.0", PORT)) "</system>", 1, TOPO_PHB);
	/* A bridge that lost its class. */
	guess("<system>" CPU("", "<pci busid=\"0000:05:00.0\">" GPU("0000:06:00.0", "") FUNCTION("0000:07:00.0", PORT) "</pci>") "</system>",
	      1, TOPO_PIX);
	/* Behind a switch of its own, below the GPU's. */
	guess("<system>" CPU("", "<pci busid=\"0000:05:00.0\" class=\"0x060400\">" GPU("0000:06:00.0", "")
				 "<pci busid=\"0000:08:00.0\" class=\"0x060400\">" FUNCTION("0000:09:00.0", PORT) "</pci></pci>") "</system>",
	      1, TOPO_PXB);
	/* The management port: behind another bridge, or at another CPU. */
	guess("<system>" CPU("", "<pci busid=\"0000:05:00.0\" class=\"0x060400\">" GPU("0000:06:00.0", "") "</pci>"
				 "<pci busid=\"0000:08:00.0\" class=\"0x060400\">" FUNCTION("0000:09:00.0", PORT) "</pci>") "</system>", 0, 0);
	guess("<system>" CPU("numaid=\"0\"", GPU("0000:06:00.0", "")) CPU("numaid=\"1\"", FUNCTION("0000:09:00.0", PORT)) "</system>", 0, 0);
	guess("<system>" CPU("", "<pci busid=\"0000:05:00.0\" class=\"0x060400\">" GPU("0000:06:00.0", "") "</pci>"
				 FUNCTION("0000:09:00.0", PORT)) "</system>", 0, 0);
}
