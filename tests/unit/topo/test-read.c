/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are damaged, hostile or of something else. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/topo/topo-private.h"
#include "daemon/topo/topo.h"
#include "daemon/topo/xml.h"
#include "tests/lib/test.h"
#include "tests/unit/topo/capture.h"

static int try_bytes(const char *text, size_t n_bytes, char why[TOPO_WHY_BYTES])
{
	struct topo *topo = NULL;
	char *copy = malloc(n_bytes + 1);
	int r;

	ASSERT(copy);
	memcpy(copy, text, n_bytes);
	r = topo_parse(copy, n_bytes, &topo, why);
	ASSERT_EQ(r == 0, topo != NULL);
	/* Whatever was accepted can be used. */
	if (topo) {
		struct topo_map *map = calloc(1, sizeof(*map));
		FILE *out = fopen("/dev/null", "we");

		topo_assign(topo, NULL, map);
		topo_dump(topo, out);
		fclose(out);
		free(map);
	}
	topo_free(topo);
	free(copy);
	return r;
}

static void refuse(const char *text, int err, const char *says)
{
	char why[TOPO_WHY_BYTES];

	ASSERT_ERR(try_bytes(text, strlen(text), why), err);
	if (!strstr(why, says))
		printf("%s\n", why);
	ASSERT(strstr(why, says));
}

#define GID "fe80:0000:0000:0000:0000:0000:0000:0001"

TEST(text_that_is_no_topology_is_refused_with_its_line)
{
	refuse("", EBADMSG, "not well-formed XML");
	refuse("hello", EBADMSG, "line 1: this is not well-formed XML; write the file with \"lstopo --of xml\", ");
	refuse("<a/>", EBADMSG, "not a topology of hwloc (lstopo --of xml), NCCL (NCCL_TOPO_DUMP_FILE) or shmemctl (topology dump)");
	refuse("<system>\n<cpu>\n</system>", EBADMSG, "line 3");
	refuse("<system><cpu a=b/></system>", EBADMSG, "well-formed");
	refuse("<system><cpu a=\"b\"", EBADMSG, "well-formed");
	refuse("<system><cpu a=\"&nonsense;\"/></system>", EBADMSG, "well-formed");
	refuse("<system/><system/>", EBADMSG, "well-formed");
	refuse("<system><!-- ", EBADMSG, "well-formed");
	refuse("<system><pci busid=\"nowhere\"/></system>", EBADMSG, "line 1: \"nowhere\" is no PCI address");
	refuse("<system><pci busid=\"\033[2J\n\"/></system>", EBADMSG, "\"?[2J?\" is no PCI address");
	refuse("<system><pci/></system>", EBADMSG, "\"\" is no PCI address");
	refuse("<topology version=\"2.0\"><object/></topology>", EBADMSG, "without a type");
	refuse("<topology><object type=\"PCIDev\" pci_busid=\"0:0:0.0\"/></topology>", EBADMSG, "without a class");
	refuse("<topology><object type=\"Bridge\" bridge_type=\"1-1\"/></topology>", EBADMSG, "without an address");
	refuse("<shmemd-topology version=\"2\"/>", EBADMSG, "another version");
	refuse("<shmemd-topology version=\"1\"><x/></shmemd-topology>", EBADMSG, "not known");
	refuse("<shmemd-topology version=\"1\"><host><gpu/></host></shmemd-topology>", EBADMSG, "in what is no function");
	refuse("<shmemd-topology version=\"1\"><nic state=\"odd\"/></shmemd-topology>", EBADMSG, "state is none of the words");
	refuse("<shmemd-topology version=\"1\"><gid address=\"" GID "\"/></shmemd-topology>", EBADMSG, "a GID of no NIC");
	refuse("<shmemd-topology version=\"1\"><function><nic/><gid address=\"" GID "\"/></function></shmemd-topology>", EBADMSG,
	       "a GID of no NIC");
	refuse("<shmemd-topology version=\"1\"><nic><cpu/><gid address=\"" GID "\"/></nic></shmemd-topology>", EBADMSG,
	       "a GID of no NIC");
	refuse("<shmemd-topology version=\"1\"><nic><gid/></nic></shmemd-topology>", EBADMSG, "without an address");
	refuse("<shmemd-topology version=\"1\"><nic><gid address=\"fe80::1\"/></nic></shmemd-topology>", EBADMSG, "without an address");
	refuse("<shmemd-topology version=\"1\"><nic><gid address=\"" GID "0\"/></nic></shmemd-topology>", EBADMSG, "without an address");
	refuse("<shmemd-topology version=\"1\"><function pci=\"1:00.0\" class=\"0302\"/><function pci=\"1:00.0\" class=\"0302\"/>"
	       "</shmemd-topology>", EBADMSG, "the GPU 0000:01:00.0 is there twice");
	refuse("<shmemd-topology version=\"1\"><function pci=\"1:00.0\"><nic port=\"1\"/><nic port=\"1\"/></function>"
	       "</shmemd-topology>", EBADMSG, "the NIC 0000:01:00.0 is there twice");
}

static char *repeat(const char *before, const char *fmt, unsigned int n, const char *after)
{
	char *text = NULL;
	size_t n_bytes;
	FILE *out = open_memstream(&text, &n_bytes);

	ASSERT(out);
	fputs(before, out);
	for (unsigned int i = 0; i < n; i++)
		fprintf(out, fmt, i >> 8, i & 0xff);
	fputs(after, out);
	fclose(out);
	return text;
}

static void refuse_many(const char *fmt, unsigned int n, const char *says)
{
	char *text = repeat("<shmemd-topology version=\"1\">", fmt, n, "</shmemd-topology>");

	refuse(text, E2BIG, says);
	free(text);
}

TEST(more_than_any_machine_has_is_refused)
{
	char *text;

	refuse_many("<function pci=\"%x:%02x:00.0\" class=\"0302\"/>", 65, "more than 64 GPUs");
	refuse_many("<function pci=\"%x:%02x:00.0\" class=\"0207\"/>", 1025, "more than 1024 ports");
	refuse_many("<bridge pci=\"%x:%02x:00.0\"/>", 8192, "more than 8192 bridges and functions");
	text = repeat("<shmemd-topology version=\"1\">", "<bridge>", 70, "");
	refuse(text, E2BIG, "more than 62 bridges above each other");
	free(text);
	text = repeat("<system><cpu", " a%x=\"%x\"", 60, "/></system>");
	refuse(text, E2BIG, "larger than any machine");
	free(text);
	text = repeat("<system>", "<x a%x=\"%x\"/>", 200001, "</system>");
	refuse(text, E2BIG, "larger than any machine");
	free(text);
}

static const char *const seeds[] = {
	"<?xml version=\"1.0\"?>\n<topology version=\"2.0\"><object type=\"Machine\" nodeset=\"0x1,0x3\"><object type=\"Bridge\""
	" bridge_type=\"0-1\"><object type=\"PCIDev\" pci_busid=\"0000:03:00.0\" pci_type=\"0302 [10de:2330] [10de:16c1] a1\"/>"
	"<object type=\"PCIDev\" pci_busid=\"0000:04:00.0\" pci_type=\"0207 [15b3:1021] [15b3:0003] 00\"><object type=\"OSDev\""
	" name=\"mlx5&#95;1\" osdev_type=\"3\"><info name=\"Port2State\" value=\"4\"/><info name=\"NodeGUID\" value=\"1:2:3:4\"/>"
	"</object></object></object></object></topology>",
	"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"ffff:ff:01.0\" class=\"0x060400\"><pci busid=\"0000:03:00.0\""
	" class=\"0x030200\"><gpu><nvlink target=\"0000:04:00.0\" count=\"4\" tclass=\"0x068000\"/></gpu></pci>"
	"<pci busid=\"0000:04:00.0\" class=\"0x020000\"><nic><net name=\"a&amp;b\" guid=\"0x1\"/></nic></pci></pci></cpu></system>",
	"<shmemd-topology version=\"1\" numa_nodes=\"2\"><host numa=\"1\"><bridge hops=\"2\" pci=\"0000:01:00.0\"><function"
	" pci=\"0000:02:00.0\" class=\"0302\" vendor=\"10de\"><gpu uuid=\"GPU-1\" switch_links=\"18\"><links to=\"0000:03:00.0\""
	" count=\"2\"/></gpu></function><function pci=\"0000:04:00.0\" class=\"0207\"><nic name=\"mlx5_0\" port=\"1\" state=\"active\""
	" rate_mbps=\"400000\"><gid index=\"3\" address=\"fe80:0000:0000:0000:0000:0000:0000:0001\" roce_v2=\"1\"/></nic></function>"
	"</bridge></host></shmemd-topology>",
};

/* Cut anywhere, and with bytes changed: refused or read, never more than that. */
TEST(damaged_files_do_no_harm)
{
	char why[TOPO_WHY_BYTES], copy[2048];
	unsigned int random = 1, n_read = 0;

	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		size_t n_bytes = strlen(seeds[i]);

		ASSERT_LT(n_bytes, sizeof(copy));
		ASSERT_OK(try_bytes(seeds[i], n_bytes, why));
		for (size_t cut = 0; cut < n_bytes; cut++)
			ASSERT_LT(try_bytes(seeds[i], cut, why), 0);
		for (unsigned int round = 0; round < 3000; round++) {
			memcpy(copy, seeds[i], n_bytes + 1);
			for (unsigned int change = 0; change < 1 + round % 4; change++)
				copy[capture_random(&random, (unsigned int)n_bytes)] = "<>/\"= &0f\n#;,"[capture_random(&random, 14)];
			n_read += try_bytes(copy, n_bytes, why) == 0;
		}
	}
	ASSERT_GT(n_read, 100);
}

static struct topo *parse(const char *text)
{
	char *copy = strdup(text), why[TOPO_WHY_BYTES];
	struct topo *topo = NULL;

	ASSERT_OK(topo_parse(copy, strlen(copy), &topo, why));
	free(copy);
	return topo;
}

TEST(two_ports_of_a_device_are_two_nics)
{
	struct topo *topo = parse(seeds[0]);

	ASSERT_EQ(topo->n_nics, 2);
	ASSERT_EQ(topo->nics[0].seen.port, 1);
	ASSERT_EQ(topo->nics[1].seen.port, 2);
	ASSERT_EQ(topo->nics[1].seen.state, HOST_STATE_ACTIVE);
	ASSERT_STREQ(topo->nics[1].seen.name, "mlx5_1");
	ASSERT_EQ(topo->nics[0].guid, 0x0001000200030004);
	topo_free(topo);
}

TEST(names_that_could_confuse_a_terminal_are_changed)
{
	struct topo *topo = parse("<shmemd-topology version=\"1\"><function pci=\"1:00.0\"><nic name=\"a\x1b[2J\xc3\xa4'&lt;&quot;\""
				  " port=\"1\"/></function></shmemd-topology>");
	char *text = NULL;
	size_t n_bytes;
	struct topo *again;
	FILE *out = open_memstream(&text, &n_bytes);

	ASSERT_STREQ(topo->nics[0].seen.name, "a?[2J?" "?'<\"");
	topo_dump(topo, out);
	fclose(out);
	again = parse(text);
	ASSERT_STREQ(again->nics[0].seen.name, topo->nics[0].seen.name);
	topo_free(again);
	topo_free(topo);
	free(text);
}

static void name_is(const char *written, const char *read)
{
	char text[256];
	struct topo *topo;

	snprintf(text, sizeof(text), "<shmemd-topology version=\"1\"><function pci=\"1:00.0\"><nic name=\"%s\" port=\"1\"/></function>"
		 "</shmemd-topology>", written);
	topo = parse(text);
	ASSERT_STREQ(topo->nics[0].seen.name, read);
	topo_free(topo);
}

TEST(characters_by_their_numbers_are_what_they_stand_for)
{
	struct topo *topo = parse("<system><cpu><pci busid=\"&#48;000:02:00.0\" class=\"0x020700\"/></cpu></system>");
	char pci[HOST_PCI_BYTES];

	ASSERT_STREQ(host_pci_text(topo->nodes[topo->nics[0].node].pci, pci), "0000:02:00.0");
	topo_free(topo);
	name_is("mlx5&#95;0", "mlx5_0");
	name_is("mlx5&#x5f;0&#x5F;&#x000000000000005f;", "mlx5_0__");
	name_is("&#38;lt;&#60;&#x7e;", "&lt;<~");
	/* Only printable ASCII is, and only of a number. */
	name_is("a&#10;b&#127;c&#228;d&#x20ac;e&#4294967391;f&#0;g", "a?b?c?d?e?f?g");
	name_is("a&#;b&#x;c&#5f;d&#X5f;e&# 95;f&#-95;g&#0x5f;h", "a?b?c?d?e?f?g?h");
	refuse("<system><cpu a=\"&#95\"/></system>", EBADMSG, "well-formed");
	refuse("<system><cpu a=\"&#\"/></system>", EBADMSG, "well-formed");
}

static enum topo_distance between(const char *inside)
{
	char text[1024];
	enum topo_distance distance;
	struct topo *topo;

	snprintf(text, sizeof(text), "<shmemd-topology version=\"1\" numa_nodes=\"2\">%s</shmemd-topology>", inside);
	topo = parse(text);
	ASSERT_EQ(topo->n_gpus, 1);
	ASSERT_EQ(topo->n_nics, 1);
	distance = topo_distance(topo, topo->gpus[0].node, topo->nics[0].node);
	ASSERT_EQ(distance, topo_distance(topo, topo->nics[0].node, topo->gpus[0].node));
	topo_free(topo);
	return distance;
}

#define GPU "<function pci=\"0:10:00.0\" class=\"0302\"/>"
#define NIC "<function pci=\"0:20:00.0\" class=\"0207\"/>"
#define PORT(inside) "<bridge hops=\"1\">" inside "</bridge>"

TEST(every_distance_has_its_word)
{
	ASSERT_EQ(between("<host>" PORT(GPU NIC) "</host>"), TOPO_PIX);
	ASSERT_EQ(between("<host>" PORT(PORT(PORT(GPU) PORT(NIC))) "</host>"), TOPO_PIX);
	ASSERT_EQ(between("<host>" PORT(PORT(PORT(PORT(PORT(GPU))) PORT(NIC))) "</host>"), TOPO_PXB);
	ASSERT_EQ(between("<cpu numa=\"0\"><bridge hops=\"2\"><bridge hops=\"2\">" GPU "</bridge>" NIC "</bridge></cpu>"), TOPO_PXB);
	ASSERT_EQ(between("<host>" PORT(GPU) PORT(NIC) "</host>"), TOPO_PHB);
	ASSERT_EQ(between("<cpu numa=\"0\">" GPU NIC "</cpu>"), TOPO_PHB);
	/* The only host bridge with GPUs tells nothing by what hangs straight below it. */
	ASSERT_EQ(between("<host>" GPU NIC "</host>"), TOPO_PHB);
	ASSERT_EQ(between("<host numa=\"1\">" GPU "</host><host numa=\"1\">" NIC "</host>"), TOPO_NODE);
	ASSERT_EQ(between("<host numa=\"1\">" GPU "</host><host numa=\"0\">" NIC "</host>"), TOPO_SYS);
	ASSERT_EQ(between("<host>" GPU "</host><host numa=\"0\">" NIC "</host>"), TOPO_SYS);
}

#define GPU_ON(numa) "<function numa=\"" #numa "\" pci=\"0:10:00.0\" class=\"0302\"/>"
#define NIC_ON(numa) "<function numa=\"" #numa "\" pci=\"0:20:00.0\" class=\"0207\"/>"
#define OTHER_HOST "<host><function pci=\"0:30:00.0\" class=\"0302\"/></host>"

/* Below one host bridge; a common switch is one wherever its devices say they are, and who says nothing is where the others are. */
TEST(numa_nodes_decide_if_pci_is_flat)
{
	ASSERT_EQ(between("<host>" GPU_ON(0) NIC_ON(1) "</host>"), TOPO_SYS);
	ASSERT_EQ(between("<host>" GPU_ON(1) NIC_ON(1) "</host>"), TOPO_PHB);
	ASSERT_EQ(between("<host>" PORT(GPU_ON(0)) PORT(NIC_ON(1)) "</host>"), TOPO_SYS);
	ASSERT_EQ(between("<host numa=\"0\">" GPU PORT(NIC_ON(1)) "</host>"), TOPO_SYS);
	ASSERT_EQ(between("<cpu>" GPU_ON(0) NIC_ON(1) "</cpu>"), TOPO_SYS);
	ASSERT_EQ(between("<host>" GPU_ON(0) NIC "</host>"), TOPO_PHB);
	ASSERT_EQ(between("<host>" PORT(GPU_ON(0) NIC_ON(1)) "</host>"), TOPO_PIX);
	ASSERT_EQ(between("<host>" PORT(PORT(PORT(PORT(PORT(GPU_ON(0)))) PORT(NIC_ON(1)))) "</host>"), TOPO_PXB);
}

/* Something like a flat switch beside others is not a switch across NUMA nodes. */
TEST(a_flat_switch_is_of_one_numa_node)
{
	struct topo *topo = parse("<shmemd-topology version=\"1\" numa_nodes=\"2\"><host>" GPU_ON(0) NIC_ON(1)
				  "<function pci=\"0:21:00.0\" numa=\"0\" class=\"0207\"/></host>" OTHER_HOST "</shmemd-topology>");

	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[0].node), TOPO_SYS);
	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[1].node), TOPO_PIX);
	topo_free(topo);
}

/* A switch that a hypervisor shows as a host bridge, beside others. */
TEST(a_flat_switch_is_one_switch_even_beside_others)
{
	struct topo *topo = parse("<shmemd-topology version=\"1\" numa_nodes=\"2\"><host numa=\"0\">" GPU NIC "</host><host numa=\"0\">"
				  "<function pci=\"0:30:00.0\" class=\"0207\"/><function pci=\"0:31:00.0\" class=\"0302\"/></host></shmemd-topology>");

	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[0].node), TOPO_PIX);
	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[1].node), TOPO_NODE);
	ASSERT_LT(topo_rank(topo, topo->gpus[0].node, topo->nics[0].node), topo_rank(topo, topo->gpus[0].node, topo->nics[1].node));
	topo_free(topo);
}

/* ---- pipes ---------------------------------------------------------------------------------------------------------- */

static void expect_refusal(const char *path, int err, const char *says)
{
	char why[TOPO_WHY_BYTES];
	struct topo *topo;

	ASSERT_ERR(topo_read_file(path, &topo, why), err);
	if (!strstr(why, says))
		test_fail(TEST_WHERE, "%s", why);
}

/* The attack: opening it would wait for ever. */
TEST(fifo_without_a_writer_is_refused_at_once)
{
	char folder[] = "/tmp/shmd-read-XXXXXX", path[64];

	ASSERT(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/fifo", folder);
	ASSERT_OK(mkfifo(path, 0600));
	expect_refusal(path, ENODATA, "nobody writes to this pipe");
	unlink(path);
	rmdir(folder);
}

/* The attack: it is held open, and nothing comes. */
TEST(pipe_that_is_silent_is_given_up)
{
	char why[TOPO_WHY_BYTES] = "";
	struct topo_text text = {0};
	int fds[2];

	ASSERT_OK(pipe2(fds, O_NONBLOCK | O_CLOEXEC));
	ASSERT_ERR(topo_read_text(fds[0], 1000, &text, why), ETIMEDOUT);
	ASSERT_STREQ(why, "nothing came out of this pipe for 1 s");
	close(fds[0]);
	close(fds[1]);
}

struct writer {
	pthread_t thread;
	int fd;
};

static void *write_slowly(void *arg)
{
	static const char text[] = "<system version=\"1\"><cpu numaid=\"0\"></cpu></system>";
	const struct timespec pause = {.tv_nsec = 1000000};
	struct writer *writer = arg;

	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		ASSERT_EQ(write(writer->fd, text + i, 1), 1);
		nanosleep(&pause, NULL);
	}
	close(writer->fd);
	return NULL;
}

/* As <(lstopo --of xml) is one to a shell's program. */
TEST(pipe_of_a_slow_program_is_read_to_its_end)
{
	struct topo *topo = NULL;
	char path[32], why[TOPO_WHY_BYTES];
	struct writer writer;
	int fds[2];

	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	writer.fd = fds[1];
	ASSERT_OK(pthread_create(&writer.thread, NULL, write_slowly, &writer));
	snprintf(path, sizeof(path), "/dev/fd/%d", fds[0]);
	ASSERT_OK(topo_read_file(path, &topo, why));
	ASSERT_STREQ(why, "it contains no PCI device; lstopo --whole-io writes all of them");
	pthread_join(writer.thread, NULL);
	topo_free(topo);
	close(fds[0]);
}

TEST(devices_and_folders_are_no_topologies)
{
	expect_refusal("/dev/zero", EINVAL, "neither a file nor a pipe");
	expect_refusal("/tmp", EISDIR, "directory");
}
