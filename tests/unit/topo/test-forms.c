/* SPDX-License-Identifier: Apache-2.0 */
/* Facts that files of NCCL and of hwloc express in ways of their own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/topo/topo.h"
#include "tests/lib/test.h"

static int try_text(const char *text, struct topo **ret_topo, char why[TOPO_WHY_BYTES])
{
	char *copy = strdup(text);
	int r = topo_parse(copy, strlen(copy), ret_topo, why);

	free(copy);
	return r;
}

static struct topo *parse(const char *text)
{
	struct topo *topo = NULL;
	char why[TOPO_WHY_BYTES];

	ASSERT_OK(try_text(text, &topo, why));
	return topo;
}

static void refuse_twice(const char *text)
{
	struct topo *topo = NULL;
	char why[TOPO_WHY_BYTES];

	ASSERT_ERR(try_text(text, &topo, why), EBADMSG);
	ASSERT(strstr(why, " is there twice"));
}

static struct topo *replay(const struct topo *topo)
{
	char *text = NULL;
	size_t n_bytes;
	struct topo *again;
	FILE *out = open_memstream(&text, &n_bytes);

	ASSERT(out);
	topo_dump(topo, out);
	fclose(out);
	again = parse(text);
	free(text);
	return again;
}

/* ---- NCCL ------------------------------------------------------------------------------------------------------------ */

static struct topo *parse_nccl(const char *inside)
{
	char text[2048];

	ASSERT_LT(snprintf(text, sizeof(text), "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:17:00.0\" class=\"0x060400\">"
			   "%s</pci></cpu></system>", inside), (int)sizeof(text));
	return parse(text);
}

#define NET_OF(bus, class_code, nets) "<pci busid=\"0000:" bus ":00.0\" class=\"0x" class_code "\"><nic>" nets "</nic></pci>"

/* GUID numbers begin with 0, whatever the fabric. */
TEST(a_net_of_nccl_is_a_nic_unless_it_is_a_socket)
{
	struct topo *topo = parse_nccl(NET_OF("18", "020000", "<net name=\"fabric0\" port=\"1\" guid=\"0x0\" gdr=\"1\"/>")
				       NET_OF("19", "020000", "<net name=\"fabric1\" port=\"1\" guid=\"0x1\" gdr=\"0\"/>")
				       NET_OF("1a", "020000", "<net name=\"fabric2\" port=\"0\" guid=\"0x2\" gdr=\"1\"/>")
				       NET_OF("1b", "020000", "<net name=\"fabric3\" guid=\"0x3\"/>")
				       NET_OF("1c", "020000", "<net name=\"eth0\" port=\"0\" guid=\"0x4\" gdr=\"0\"/>")
				       NET_OF("1d", "020000", "<net name=\"eth1\" port=\"0\" guid=\"0x5\"/>")
				       NET_OF("1e", "020700", "<net name=\"ib0\" port=\"0\" guid=\"0x6\" gdr=\"0\"/>"));
	static const char *const names[] = {"fabric0", "fabric1", "fabric2", "fabric3", "0000:1e:00.0"};
	static const unsigned int ports[] = {1, 1, 0, 1, 1};
	char name[TOPO_NAME_BYTES];

	ASSERT_EQ(topo->n_nics, 5);
	for (unsigned int i = 0; i < 5; i++) {
		ASSERT_STREQ(topo_nic_text(topo, i, name), names[i]);
		ASSERT_EQ(topo->nics[i].seen.port, ports[i]);
	}
	topo_free(topo);
}

/* An Ethernet function beside a GPU is a guess for files that name no nets, and sockets are nets as well. */
TEST(a_file_with_sockets_alone_has_no_nic)
{
	struct topo *topo = parse_nccl("<pci busid=\"0000:18:00.0\" class=\"0x030200\"/>"
				       NET_OF("19", "020000", "<net name=\"eth0\" port=\"0\" guid=\"0x1\" gdr=\"0\"/>"));

	ASSERT_EQ(topo->n_gpus, 1);
	ASSERT_EQ(topo->n_nics, 0);
	topo_free(topo);
}

TEST(several_nets_with_one_port_of_a_function_are_one_nic)
{
	struct topo *topo = parse_nccl(NET_OF("18", "020000",
					      "<net name=\"mlx5_0\" port=\"1\" guid=\"0x1\"/><net name=\"mlx5_1\" port=\"2\" guid=\"0x1\"/>"
					      "<net name=\"mlx5_2\" port=\"1\" guid=\"0x2\"/>"));

	ASSERT_EQ(topo->n_nics, 2);
	ASSERT_STREQ(topo->nics[0].seen.name, "mlx5_0");
	ASSERT_STREQ(topo->nics[1].seen.name, "mlx5_1");
	topo_free(topo);
	/* That a function is there twice is another thing. */
	refuse_twice("<system><cpu>" NET_OF("18", "020000", "<net port=\"1\"/>")
		     NET_OF("18", "020000", "<net port=\"1\"/>") "</cpu></system>");
}

/* RCCL over a plug-in of Slingshot writes it in other units. */
TEST(a_rate_that_no_port_has_counts_as_unknown)
{
	char text[] = "<system><cpu>" NET_OF("18", "020000", "<net name=\"cxi0\" port=\"1\" speed=\"200000000\"/>")
		      NET_OF("19", "020000", "<net name=\"cxi1\" port=\"1\" speed=\"100\"/>")
		      NET_OF("1a", "020000", "<net name=\"cxi2\" port=\"1\" speed=\"800000\"/>") "</cpu></system>";
	struct topo *topo = NULL;
	char why[TOPO_WHY_BYTES];

	ASSERT_OK(try_text(text, &topo, why));
	ASSERT_STREQ(why, "no port runs at 200000000 Mb/s (cxi0): the rate of 2 NICs counts as unknown");
	ASSERT_EQ(topo->nics[0].seen.rate_mbps, 0);
	ASSERT_EQ(topo->nics[1].seen.rate_mbps, 0);
	ASSERT_EQ(topo->nics[2].seen.rate_mbps, 800000);
	topo_free(topo);
}

TEST(device_that_nccl_calls_a_gpu_is_one_whatever_its_class)
{
	struct topo *topos[2] = {parse_nccl("<pci busid=\"0000:18:00.0\"><gpu dev=\"0\"/></pci>"
					    "<pci busid=\"0000:19:00.0\" class=\"0x030000\"><gpu dev=\"1\"/></pci>"
					    "<pci busid=\"0000:1a:00.0\" class=\"0x030000\"/>"
					    "<pci busid=\"0000:1b:00.0\" class=\"0x030200\"><gpu dev=\"2\"/></pci>"
					    "<pci busid=\"0000:1c:00.0\" class=\"0x120000\"><gpu dev=\"3\"/></pci><gpu dev=\"4\"/>")};
	static const uint64_t buses[] = {0x18, 0x19, 0x1b, 0x1c};

	topos[1] = replay(topos[0]);
	for (unsigned int i = 0; i < 2; i++) {
		ASSERT_EQ(topos[i]->n_gpus, 4);
		for (unsigned int gpu = 0; gpu < 4; gpu++)
			ASSERT_EQ(topos[i]->nodes[topos[i]->gpus[gpu].node].pci, buses[gpu] << 8);
		topo_free(topos[i]);
	}
}

/* ---- hwloc ----------------------------------------------------------------------------------------------------------- */

static struct topo *parse_hwloc(const char *nodeset, const char *inside)
{
	char text[8192];

	ASSERT_LT(snprintf(text, sizeof(text), "<topology version=\"2.0\"><object type=\"Machine\" nodeset=\"%s\">%s</object></topology>",
			   nodeset, inside), (int)sizeof(text));
	return parse(text);
}

static enum topo_exclusion excluded(const struct topo *topo, unsigned int nic, const char *why)
{
	struct topo_map *map = calloc(1, sizeof(*map));
	enum topo_exclusion is;
	char text[TOPO_WHY_BYTES];

	ASSERT(map);
	topo_assign(topo, NULL, map);
	is = map->excluded[nic];
	if (!strstr(topo_reason_excluded(topo, map, nic, text), why))
		test_fail("\"%s\" has no \"%s\"", text, why);
	free(map);
	return is;
}

#define WITH_LINK(bus, type, gbytes) \
	"<object type=\"PCIDev\" pci_busid=\"0000:" bus ":00.0\" pci_type=\"" type " [0:0] 00\" pci_link_speed=\"" gbytes "\">" \
	"<object type=\"OSDev\" name=\"n" bus "\" osdev_type=\"3\"/></object>"
#define DATA(bus) WITH_LINK(bus, "0200 [1d0f:efa3]", "63.015385")

/* As lstopo shows a B200 of AWS, which has no product data. */
TEST(nic_with_one_lane_beside_sixteen_seems_to_manage_switches)
{
	struct topo *topo = parse_hwloc("0x1", "<object type=\"Bridge\" bridge_type=\"0-1\">" DATA("01") DATA("02") DATA("03")
					WITH_LINK("04", "0207 [15b3:1021]", "3.938462") WITH_LINK("05", "0207 [15b3:1021]", "3.938462")
					"</object>");
	struct topo *again = replay(topo);

	for (unsigned int nic = 0; nic < 5; nic++) {
		ASSERT_EQ(excluded(topo, nic, nic < 3 ? "" : "its PCIe link carries 32 Gb/s, that of n01 504; nics-include overrules"),
			  nic < 3 ? TOPO_USED : TOPO_SEEMS_BRIDGE);
		ASSERT_EQ(excluded(again, nic, ""), nic < 3 ? TOPO_USED : TOPO_SEEMS_BRIDGE);
	}
	topo_free(again);
	topo_free(topo);
}

/* The file knows no links, and of the third NIC only that it is of another generation than the others. */
TEST(silent_nic_of_another_kind_seems_to_manage_switches)
{
	struct topo *topo = parse_hwloc("0x1", "<object type=\"Bridge\" bridge_type=\"0-1\">"
					WITH_LINK("01", "0207 [15b3:1023]", "0") WITH_LINK("02", "0207 [15b3:1023]", "0")
					WITH_LINK("03", "0207 [15b3:1021]", "0") "</object>");

	ASSERT_EQ(excluded(topo, 0, ""), TOPO_USED);
	ASSERT_EQ(excluded(topo, 1, ""), TOPO_USED);
	ASSERT_EQ(excluded(topo, 2, "is of another kind"), TOPO_SEEMS_BRIDGE);
	topo->nics[2].seen.state = HOST_STATE_ACTIVE;
	ASSERT_EQ(excluded(topo, 2, ""), TOPO_USED);
	topo_free(topo);
}

/* Virtual machines report any link; one of Ethernet among many does not make them doubtful. */
TEST(links_that_most_nics_have_are_no_hint)
{
	struct topo *topo = parse_hwloc("0x1", "<object type=\"Bridge\" bridge_type=\"0-1\">" DATA("01")
					WITH_LINK("02", "0207 [15b3:1021]", "0.25") WITH_LINK("03", "0207 [15b3:1021]", "0.25")
					"</object>");

	for (unsigned int nic = 0; nic < 3; nic++)
		ASSERT_EQ(excluded(topo, nic, ""), TOPO_USED);
	topo_free(topo);
}

TEST(an_old_chip_of_amd_is_no_gpu_and_its_accelerator_is)
{
	struct topo *topo = parse_hwloc("0x1", "<object type=\"Bridge\" bridge_type=\"0-1\">"
					WITH_LINK("01", "0300 [1002:515e]", "0.2") WITH_LINK("02", "0300 [1002:66a1]", "31.5")
					WITH_LINK("03", "1200 [1002:74a1]", "63") WITH_LINK("04", "1200 [8086:0d5d]", "63")
					"</object>");

	ASSERT_EQ(topo->n_gpus, 2);
	ASSERT_EQ(topo->nodes[topo->gpus[0].node].device, 0x66a1);
	ASSERT_EQ(topo->nodes[topo->gpus[1].node].device, 0x74a1);
	topo_free(topo);
}

#define OBJECT(type, nodeset, inside) "<object type=\"" type "\" nodeset=\"" nodeset "\">" inside "</object>"
#define NUMA_NODE(nodeset) OBJECT("NUMANode", nodeset, "")
#define HOST(inside) "<object type=\"Bridge\" bridge_type=\"0-1\">" inside "</object>"
#define GPU(bus) "<object type=\"PCIDev\" pci_busid=\"0000:" bus ":00.0\" pci_type=\"0302 [10de:2330] [0:0] a1\"/>"
#define NIC(bus, inside) \
	"<object type=\"PCIDev\" pci_busid=\"0000:" bus ":00.0\" pci_type=\"0207 [15b3:1021] [0:0] 00\">" inside "</object>"
#define RDMA(name, state) \
	"<object type=\"OSDev\" name=\"" name "\" osdev_type=\"3\"><info name=\"Port1State\" value=\"" state "\"/></object>"
#define TWO_PORTS(name) \
	"<object type=\"OSDev\" name=\"" name "\" osdev_type=\"3\"><info name=\"Port2State\" value=\"4\"/></object>"

static enum topo_distance distance(const struct topo *topo, unsigned int gpu, unsigned int nic)
{
	return topo_distance(topo, topo->gpus[gpu].node, topo->nics[nic].node);
}

static void assert_without_pci(const struct topo *topo)
{
	static const char *const names[] = {"mlx5_0", "hns_7", "hns_7", "hns_3", "hns_5"};
	static const unsigned int ports[] = {1, 1, 2, 1, 1};

	ASSERT_EQ(topo->n_gpus, 2);
	ASSERT_EQ(topo->n_nics, 5);
	for (unsigned int i = 0; i < 5; i++) {
		ASSERT_STREQ(topo->nics[i].seen.name, names[i]);
		ASSERT_EQ(topo->nics[i].seen.port, ports[i]);
		ASSERT_EQ(topo->nodes[topo->nics[i].node].pci == HOST_NO_PCI, i > 0);
		ASSERT_EQ(distance(topo, 0, i), i < 4 ? TOPO_NODE : TOPO_SYS);
		ASSERT_EQ(distance(topo, 1, i), i < 4 ? TOPO_SYS : TOPO_NODE);
	}
	ASSERT_EQ(topo->nics[3].seen.state, HOST_STATE_DOWN);
}

/* hwloc hangs it on the object that has its NUMA node. Devices without an address keep the order of the file. */
TEST(rdma_devices_without_pci_are_near_their_numa_node)
{
	struct topo *topo = parse_hwloc("0x3", OBJECT("Package", "0x1", NUMA_NODE("0x1") HOST(GPU("01")) HOST(NIC("02", RDMA("mlx5_0", "4")))
						      TWO_PORTS("hns_7") RDMA("hns_3", "1"))
					OBJECT("Package", "0x2", NUMA_NODE("0x2") HOST(GPU("81")) RDMA("hns_5", "4")));
	struct topo *again = replay(topo);

	assert_without_pci(topo);
	assert_without_pci(again);
	topo_free(again);
	topo_free(topo);
}

/* Software, as on the running machine: it is near nothing. */
TEST(rdma_devices_straight_below_the_machine_are_no_nics)
{
	struct topo *topo = parse_hwloc("0x1", OBJECT("Package", "0x1", NUMA_NODE("0x1") HOST(GPU("01") NIC("02", RDMA("mlx5_0", "4"))))
					RDMA("rxe0", "4") TWO_PORTS("siw0"));

	ASSERT_EQ(topo->n_nics, 1);
	ASSERT_STREQ(topo->nics[0].seen.name, "mlx5_0");
	ASSERT_EQ(topo->nics[0].seen.state, HOST_STATE_ACTIVE);
	topo_free(topo);
}

TEST(subfunctions_are_not_their_function_once_more)
{
	struct topo *topo = parse_hwloc("0x1", HOST(NIC("02", TWO_PORTS("mlx5_0") RDMA("mlx5_4", "1") TWO_PORTS("mlx5_5"))));

	ASSERT_EQ(topo->n_nics, 2);
	for (unsigned int i = 0; i < 2; i++) {
		ASSERT_STREQ(topo->nics[i].seen.name, "mlx5_0");
		ASSERT_EQ(topo->nics[i].seen.port, i + 1);
		ASSERT_EQ(topo->nics[i].seen.state, i ? HOST_STATE_ACTIVE : HOST_STATE_UNKNOWN);
	}
	topo_free(topo);
	refuse_twice("<topology><object type=\"Machine\">" NIC("02", RDMA("mlx5_0", "4")) NIC("02", RDMA("mlx5_0", "4"))
		     "</object></topology>");
}

static void numa_is(const struct topo *topo, const int *gpus, const int *nics)
{
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		ASSERT_EQ(topo->nodes[topo->gpus[i].node].numa, gpus[i]);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		ASSERT_EQ(topo->nodes[topo->nics[i].node].numa, nics[i]);
}

#define DEVICES(nodeset, gpu, nic) OBJECT("Package", nodeset, HOST(GPU(gpu)) HOST(NIC(nic, RDMA("mlx5_" nic, "4"))))

TEST(a_package_with_several_memories_is_one_place)
{
	struct topo *topo = parse_hwloc("0x0000000f", NUMA_NODE("0x1") NUMA_NODE("0x2") NUMA_NODE("0x4") NUMA_NODE("0x8")
					DEVICES("0x5", "10", "c0") DEVICES("0x0000000a", "90", "a0"));

	ASSERT_EQ(topo->n_nics, 2);
	numa_is(topo, (const int[]){0, 1}, (const int[]){1, 0});
	ASSERT_EQ(distance(topo, 0, 1), TOPO_NODE);
	ASSERT_EQ(distance(topo, 1, 0), TOPO_NODE);
	ASSERT_EQ(distance(topo, 0, 0), TOPO_SYS);
	topo_free(topo);
}

/* GPU memory beside DRAM: what is anywhere on the package is near. Between two packages nothing is. */
TEST(a_machine_of_one_package_is_one_place)
{
	struct topo *topo = parse_hwloc("0x3", NUMA_NODE("0x1") NUMA_NODE("0x2") DEVICES("0x3", "10", "c0"));

	ASSERT_EQ(topo->n_nics, 1);
	ASSERT_EQ(distance(topo, 0, 0), TOPO_NODE);
	topo_free(topo);
	topo = parse_hwloc("0x3", NUMA_NODE("0x1") NUMA_NODE("0x2") OBJECT("Package", "0x1", "") DEVICES("0x3", "10", "c0"));
	ASSERT_EQ(distance(topo, 0, 0), TOPO_SYS);
	topo_free(topo);
}

TEST(gpus_of_either_maker_have_their_uuid)
{
	struct topo *topo = parse_hwloc("0x1", HOST("<object type=\"PCIDev\" pci_busid=\"0000:11:00.0\" pci_type=\"0380 [1002:74a1] [1002:74a1] 00\">"
						    "<object type=\"OSDev\" name=\"rsmi0\" osdev_type=\"5\">"
						    "<info name=\"AMDUUID\" value=\"f2b1\"/></object></object>"));

	ASSERT_EQ(topo->n_gpus, 1);
	ASSERT_STREQ(topo->gpus[0].uuid, "f2b1");
	topo_free(topo);
}

/* Two that overlap, and a device in both: the first in the file gets it. */
TEST(places_are_numbered_whatever_the_order_of_the_file)
{
	struct topo *topo = parse_hwloc("0x0000000f", NUMA_NODE("0x1") NUMA_NODE("0x2") NUMA_NODE("0x4") NUMA_NODE("0x8")
					DEVICES("0x3", "10", "11") DEVICES("0x6", "20", "21") DEVICES("0x7", "30", "31"));
	struct topo *other = parse_hwloc("0x0000000f", NUMA_NODE("0x1") NUMA_NODE("0x2") NUMA_NODE("0x4") NUMA_NODE("0x8")
					 DEVICES("0x7", "30", "31") DEVICES("0x6", "20", "21") DEVICES("0x3", "10", "11"));

	for (unsigned int gpu = 0; gpu < 3; gpu++)
		ASSERT_EQ(topo->nodes[topo->gpus[gpu].node].numa, other->nodes[other->gpus[gpu].node].numa);
	topo_free(topo);
	topo_free(other);
}

/* Nodes keep their numbers, and a place of several takes the number of one that has none, if any. */
TEST(places_are_numbered_by_their_nodes)
{
	struct topo *topo = parse_hwloc("0x1,0x0000000f", NUMA_NODE("0x1") NUMA_NODE("0x2") NUMA_NODE("0x4") NUMA_NODE("0x8") NUMA_NODE("0x1,0x0")
					DEVICES("0x3", "10", "11") DEVICES("0x1", "20", "21") DEVICES("0xc", "30", "31")
					DEVICES("0x8", "40", "41") DEVICES("0x4", "50", "51") DEVICES("0x1,,0x0", "60", "61")
					DEVICES("0x1,0x0", "70", "71") DEVICES("0x1,0x0000000f", "80", "81") DEVICES("0x0", "90", "91"));
	const int *numa = (const int[]){1, 0, topo->nodes[topo->gpus[2].node].numa, 3, 2, 64, 32, TOPO_NO_NUMA, TOPO_NO_NUMA};

	ASSERT_GE(numa[2], 1024);
	numa_is(topo, numa, numa);
	for (unsigned int gpu = 0; gpu < 9; gpu++)
		for (unsigned int nic = 0; nic < 9; nic++)
			ASSERT_EQ(distance(topo, gpu, nic), gpu == nic && gpu < 7 ? TOPO_NODE : TOPO_SYS);
	topo_free(topo);
}

/* ---- what no machine has, and a file may say -------------------------------------------------------------------------- */

/* The text n times, `inside`, and the other text n times. NULL: such a machine is refused. */
static struct topo *parse_nested(const char *before, const char *open, const char *inside, const char *close, const char *after, unsigned int n)
{
	char text[4096], why[TOPO_WHY_BYTES];
	struct topo *topo = NULL;
	size_t at = (size_t)snprintf(text, sizeof(text), "%s", before);

	for (unsigned int i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", open);
	at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", inside);
	for (unsigned int i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", close);
	at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", after);
	ASSERT_LT(at, sizeof(text));
	if (try_text(text, &topo, why) < 0)
		ASSERT(strstr(why, "than any machine") || strstr(why, "above each other"));
	return topo;
}

/* The elements of a dump nest deeper than those of other forms. */
static void replay_all_depths(const char *before, const char *open, const char *inside, const char *close, const char *after)
{
	bool was_refused = false;

	for (unsigned int n = 1; n < 70; n++) {
		struct topo *topo = parse_nested(before, open, inside, close, after, n), *again;

		was_refused |= !topo;
		ASSERT_EQ(was_refused, !topo);
		if (!topo)
			continue;
		again = replay(topo);
		ASSERT_EQ(again->n_gpus + again->n_nics, 1);
		ASSERT_EQ(again->n_gpus, topo->n_gpus);
		topo_free(again);
		topo_free(topo);
	}
	ASSERT(was_refused);
}

TEST(however_deep_something_hangs_its_dump_is_read)
{
	replay_all_depths("<system>", "<pci busid=\"1:00.0\" class=\"0x060400\">", "<pci busid=\"2:00.0\" class=\"0x030200\"/>", "</pci>",
			  "</system>");
	replay_all_depths("<topology>", "<object type=\"Bridge\" bridge_type=\"0\">",
			  "<object type=\"PCIDev\" pci_busid=\"2:00.0\" pci_type=\"0207 [1:1] [1:1]\"/>", "</object>", "</topology>");
	replay_all_depths("<shmemd-topology version=\"1\">", "<bridge>", "<function pci=\"2:00.0\" class=\"0207\"/>", "</bridge>",
			  "</shmemd-topology>");
}

#define STATE_OF(port) "<info name=\"Port" port "State\" value=\"4\"/>"

/* 255 is the highest port of a device, and of a dump. */
TEST(ports_that_no_device_has_are_left_out)
{
	struct topo *topo = parse("<topology version=\"2.0\"><object type=\"Machine\"><object type=\"PCIDev\" pci_busid=\"2:00.0\""
				  " pci_type=\"0207 [1:1] [1:1]\"><object type=\"OSDev\" osdev_type=\"3\" name=\"a\">" STATE_OF("0") STATE_OF("255")
				  STATE_OF("256") STATE_OF("300") STATE_OF("999") STATE_OF("-1") "</object></object></object></topology>");
	struct topo *again = replay(topo);

	ASSERT_EQ(topo->n_nics, 2);
	ASSERT_EQ(topo->nics[1].seen.port, 255);
	ASSERT_EQ(again->n_nics, 2);
	ASSERT_EQ(again->nics[1].seen.port, 255);
	topo_free(again);
	topo_free(topo);
}

/* More ports than there is room for at first: the first one is copied while the room grows. */
TEST(ports_of_a_large_device_are_all_copies_of_its_first)
{
	char text[4096], info[64];
	size_t at = (size_t)snprintf(text, sizeof(text), "<topology version=\"2.0\"><object type=\"Machine\"><object type=\"PCIDev\""
				     " pci_busid=\"2:00.0\" pci_type=\"0207 [1:1] [1:1]\"><object type=\"OSDev\" osdev_type=\"3\" name=\"a\">"
				     "<info name=\"NodeGUID\" value=\"1:2:3:4\"/>");
	struct topo *topo;

	for (unsigned int port = 2; port <= 40; port++) {
		snprintf(info, sizeof(info), "<info name=\"Port%uState\" value=\"4\"/>", port);
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", info);
	}
	snprintf(text + at, sizeof(text) - at, "</object></object></object></topology>");
	topo = parse(text);
	ASSERT_EQ(topo->n_nics, 40);
	for (unsigned int i = 0; i < topo->n_nics; i++) {
		ASSERT_EQ(topo->nics[i].seen.port, i + 1);
		ASSERT_STREQ(topo->nics[i].seen.name, "a");
		ASSERT_EQ(topo->nics[i].guid, 0x1000200030004);
		ASSERT_EQ(topo->nics[i].seen.node_guid, 0x1000200030004);
	}
	topo_free(topo);
}

TEST(links_of_a_gpu_without_address_are_dumped_at_the_other_end)
{
	struct topo *topo = parse("<shmemd-topology version=\"1\"><function pci=\"2:00.0\"><gpu/></function><function><gpu>"
				  "<links to=\"2:00.0\" count=\"3\"/></gpu></function></shmemd-topology>");
	struct topo *again = replay(topo);

	ASSERT_EQ(topo_gpu_links(topo, 0, 1), 3);
	ASSERT_EQ(topo_gpu_links(again, 0, 1), 3);
	ASSERT_EQ(topo_gpu_links(again, 1, 0), 3);
	topo_free(again);
	topo_free(topo);
}

TEST(as_many_numa_nodes_as_a_file_has_are_counted_in_its_dump)
{
	static const char node[] = "<object type=\"NUMANode\"/>";
	unsigned int n = 40000;
	char *text = malloc(n * strlen(node) + 64);
	struct topo *topo, *again;
	size_t at;

	ASSERT(text);
	at = (size_t)sprintf(text, "<topology>");
	for (unsigned int i = 0; i < n; i++)
		at += (size_t)sprintf(text + at, "%s", node);
	strcpy(text + at, "</topology>");
	topo = parse(text);
	again = replay(topo);
	ASSERT_EQ(topo->n_numa, n);
	ASSERT_EQ(again->n_numa, n);
	topo_free(again);
	topo_free(topo);
	free(text);
}
