/* SPDX-License-Identifier: Apache-2.0 */
/* What files of NCCL and of hwloc say in ways of their own. */
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

/* Who numbers GUIDs begins with 0, whatever the fabric. */
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
		ASSERT_EQ(topo->nics[i].port, ports[i]);
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
	ASSERT_STREQ(topo->nics[0].name, "mlx5_0");
	ASSERT_STREQ(topo->nics[1].name, "mlx5_1");
	topo_free(topo);
	/* That a function is there twice is another thing. */
	refuse_twice("<system><cpu>" NET_OF("18", "020000", "<net port=\"1\"/>")
		     NET_OF("18", "020000", "<net port=\"1\"/>") "</cpu></system>");
}

TEST(what_nccl_calls_a_gpu_is_one_whatever_its_class)
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
