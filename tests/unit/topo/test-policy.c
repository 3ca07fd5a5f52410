/* SPDX-License-Identifier: Apache-2.0 */
/* The policy of an administrator: its texts, refusals and their words, and the resulting map. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/unit/topo/capture.h"

/* Two sockets, on each two GPUs and two NICs below a switch; one more NIC is down, one slow, one a VF, one has two ports. */
static const char machine[] =
	"<shmemd-topology version=\"1\" numa_nodes=\"2\">"
	"<host numa=\"0\"><bridge hops=\"1\"><bridge hops=\"1\"><function pci=\"10:00.0\" class=\"0302\"><gpu uuid=\"GPU-a\"/></function></bridge>"
	"<bridge hops=\"1\"><function pci=\"11:00.0\" class=\"0302\"><gpu uuid=\"GPU-b\"/></function></bridge>"
	"<bridge hops=\"1\"><function pci=\"12:00.0\" class=\"0207\"><nic name=\"mlx5_0\" port=\"1\" state=\"active\" rate_mbps=\"400000\"/></function></bridge>"
	"<bridge hops=\"1\"><function pci=\"13:00.0\" class=\"0207\"><nic name=\"mlx5_1\" port=\"1\" state=\"active\" rate_mbps=\"400000\"/></function></bridge>"
	"</bridge></host>"
	"<host numa=\"1\"><bridge hops=\"1\"><bridge hops=\"1\"><function pci=\"20:00.0\" class=\"0302\"/></bridge>"
	"<bridge hops=\"1\"><function pci=\"21:00.0\" class=\"0302\"/></bridge>"
	"<bridge hops=\"1\"><function pci=\"22:00.0\" class=\"0207\"><nic name=\"mlx5_2\" port=\"1\" state=\"active\" rate_mbps=\"400000\"/></function></bridge>"
	"<bridge hops=\"1\"><function pci=\"23:00.0\" class=\"0207\"><nic name=\"mlx5_3\" port=\"1\" state=\"active\" rate_mbps=\"400000\"/></function></bridge>"
	"</bridge>"
	"<bridge hops=\"1\"><function pci=\"30:00.0\" class=\"0207\"><nic name=\"down\" port=\"1\" state=\"down\"/></function></bridge>"
	"<bridge hops=\"1\"><function pci=\"31:00.0\" class=\"0207\"><nic name=\"slow\" port=\"1\" state=\"active\" rate_mbps=\"25000\"/></function></bridge>"
	"<bridge hops=\"1\"><function pci=\"32:00.0\" class=\"0207\"><nic name=\"disk\" port=\"1\" state=\"active\" role=\"storage\"/></function></bridge>"
	"<bridge hops=\"1\"><function pci=\"33:00.0\" class=\"0207\"><nic name=\"two\" port=\"1\" state=\"active\" rate_mbps=\"400000\"/>"
	"<nic name=\"two\" port=\"2\" state=\"active\" rate_mbps=\"400000\"/></function></bridge>"
	"</host></shmemd-topology>";

enum {
	MLX5_0,
	MLX5_1,
	MLX5_2,
	MLX5_3,
	IS_DOWN,
	IS_SLOW,
	DISK,
	TWO_1,
	TWO_2,
	N_NICS,
};

struct lab {
	struct topo *topo;
	struct topo_policy *policy;
	struct topo_map *map;
	char why[TOPO_POLICY_WHY_BYTES];
	char reason[TOPO_WHY_BYTES];
};

static struct topo *parse_machine(const char *text)
{
	char *copy = strdup(text), why[TOPO_WHY_BYTES];
	struct topo *topo = NULL;

	if (topo_parse(copy, strlen(copy), &topo, why) < 0)
		printf("%s\n", why);
	ASSERT(topo);
	free(copy);
	return topo;
}

static void lab_init(struct lab *lab)
{
	*lab = (struct lab){.topo = parse_machine(machine)};
	lab->policy = calloc(1, sizeof(*lab->policy));
	lab->map = calloc(1, sizeof(*lab->map));
	ASSERT(lab->policy && lab->map);
	ASSERT_EQ(lab->topo->n_nics, N_NICS);
	ASSERT_EQ(lab->topo->n_gpus, 4);
}

static void lab_deinit(struct lab *lab)
{
	topo_free(lab->topo);
	free(lab->policy);
	free(lab->map);
}

static void set(struct lab *lab, const char *key, const char *value)
{
	if (topo_policy_set(lab->policy, key, value, lab->why) < 0)
		test_fail(TEST_WHERE, "%s: %s", value, lab->why);
}

static void assign(struct lab *lab)
{
	if (topo_policy_check(lab->policy, lab->topo, lab->why) < 0)
		test_fail(TEST_WHERE, "%s", lab->why);
	topo_assign(lab->topo, lab->policy, lab->map);
}

static const char *reason(struct lab *lab, unsigned int gpu, unsigned int nic)
{
	return topo_reason(lab->topo, lab->map, gpu, nic, lab->reason);
}

static void assert_has(const struct lab *lab, unsigned int gpu, unsigned int n, const unsigned int *nics)
{
	ASSERT_EQ(lab->map->gpus[gpu].n_nics, n);
	for (unsigned int i = 0; i < n; i++)
		ASSERT_EQ(lab->map->gpus[gpu].nics[i], nics[i]);
}

#define ASSERT_HAS(lab, gpu, ...)                                                                   \
	assert_has(lab, gpu, sizeof((unsigned int[]){__VA_ARGS__}) / sizeof(unsigned int), (unsigned int[]){__VA_ARGS__})

static void assert_refused(struct lab *lab, const char *why)
{
	ASSERT_EQ(topo_policy_check(lab->policy, lab->topo, lab->why), -EINVAL);
	ASSERT_STREQ(lab->why, why);
}

static void assert_down(struct lab *lab, const char *why)
{
	ASSERT_EQ(topo_policy_check(lab->policy, lab->topo, lab->why), -ENETDOWN);
	ASSERT_STREQ(lab->why, why);
}

/* ---- texts --------------------------------------------------------------------------------------------------------- */

TEST(names_and_addresses_are_distinguished)
{
	struct lab lab;
	const struct topo_given *given;

	lab_init(&lab);
	given = lab.policy->given;
	set(&lab, "gpu-nic-map",
	    "0:mlx5_0:1, 1:12:00.0:1:3\t0000:10:00.0:mlx5_1,00000000:11:00.0:0000:13:00.0:2:1 GPU-a:13:00.0:1,10:12:00.0");
	ASSERT_EQ(lab.policy->n_given, 6);
	ASSERT_STREQ(given[0].gpu, "0");
	ASSERT_STREQ(given[0].nic.name, "mlx5_0");
	ASSERT_EQ(given[0].nic.port, 1);
	ASSERT_EQ(given[0].weight, 0);
	ASSERT_STREQ(given[1].gpu, "1");
	ASSERT_STREQ(given[1].nic.name, "12:00.0");
	ASSERT_EQ(given[1].weight, 3);
	ASSERT_STREQ(given[2].gpu, "0000:10:00.0");
	ASSERT_STREQ(given[2].nic.name, "mlx5_1");
	ASSERT_EQ(given[2].nic.port, 0);
	ASSERT_STREQ(given[3].gpu, "00000000:11:00.0");
	ASSERT_STREQ(given[3].nic.name, "0000:13:00.0");
	ASSERT_EQ(given[3].nic.port, 2);
	ASSERT_EQ(given[3].weight, 1);
	ASSERT_STREQ(given[4].gpu, "GPU-a");
	ASSERT_STREQ(given[4].nic.name, "13:00.0");
	/* A GPU by two digits of index, and then an address. */
	ASSERT_STREQ(given[5].gpu, "10");
	ASSERT_STREQ(given[5].nic.name, "12:00.0");
	/* Setting replaces. */
	set(&lab, "gpu-nic-map", "");
	ASSERT_EQ(lab.policy->n_given, 0);
	set(&lab, "nics-exclude", "disk=storage,0000:12:00.0:1=management, mlx5_3");
	ASSERT_EQ(lab.policy->n_excluded, 3);
	ASSERT_EQ(lab.policy->excluded[0].role, TOPO_ROLE_STORAGE);
	ASSERT_EQ(lab.policy->excluded[1].role, TOPO_ROLE_MANAGEMENT);
	ASSERT_STREQ(lab.policy->excluded[1].name, "0000:12:00.0");
	ASSERT_EQ(lab.policy->excluded[1].port, 1);
	ASSERT_EQ(lab.policy->excluded[2].role, TOPO_ROLE_NONE);
	lab_deinit(&lab);
}

TEST(text_that_is_no_entry_is_refused)
{
	static const char *const wrong[][3] = {
		{"gpu-nic-map", "0", "\"0\" is not of the form GPU:NIC[:PORT[:WEIGHT]]"},
		{"gpu-nic-map", "0:", "\"0:\" is not of the form GPU:NIC[:PORT[:WEIGHT]]"},
		{"gpu-nic-map", "0:a:x", "\"0:a:x\" is not of the form GPU:NIC[:PORT[:WEIGHT]]"},
		{"gpu-nic-map", "0:a:0", "\"0:a:0\" is not of the form GPU:NIC[:PORT[:WEIGHT]]"},
		{"gpu-nic-map", "0:a:256", "\"0:a:256\" is not of the form GPU:NIC[:PORT[:WEIGHT]]"},
		{"gpu-nic-map", "0:a:1:1001", "\"0:a:1:1001\" is not of the form GPU:NIC[:PORT[:WEIGHT]]"},
		{"gpu-nic-map", "0:a:1:1:1", "\"0:a:1:1:1\" is not of the form GPU:NIC[:PORT[:WEIGHT]]"},
		{"gpu-nic-map", "0:a:1=storage", "\"0:a:1=storage\" is not of the form GPU:NIC[:PORT[:WEIGHT]]"},
		{"gpu-nic-map", "0:a:99999999999", "\"0:a:99999999999\" is not of the form GPU:NIC[:PORT[:WEIGHT]]"},
		{"nics-include", "a, b=storage", "\"b=storage\" is not of the form NIC[:PORT]"},
		{"nics-include", "a:1:2", "\"a:1:2\" is not of the form NIC[:PORT]"},
		{"nics-exclude", "^a:", "\"^a:\" is not of the form NIC[:PORT][=management|=storage]"},
		{"nics-exclude", "a=backup", "\"a=backup\" is not of the form NIC[:PORT][=management|=storage]"},
		{"nics-exclude", "\x1b[2J:1:", "\"?[2J:1:\" is not of the form NIC[:PORT][=management|=storage]"},
	};
	struct lab lab;

	lab_init(&lab);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ASSERT_EQ(topo_policy_set(lab.policy, wrong[i][0], wrong[i][1], lab.why), -EINVAL);
		ASSERT_STREQ(lab.why, wrong[i][2]);
	}
	ASSERT_EQ(topo_policy_set(lab.policy, "nics", "a", lab.why), -ENOENT);
	lab_deinit(&lab);
}

/* A map cannot have more entries than there is room for: each has three letters and a comma. */
TEST(lists_and_names_are_bounded)
{
	char text[4 * TOPO_MAX_GIVEN] = "", long_name[2 * TOPO_NAME_BYTES] = "";
	struct lab lab;

	lab_init(&lab);
	for (unsigned int i = 0; i < TOPO_MAX_GIVEN; i++)
		memcpy(text + 4 * i, "0:a,", 4);
	text[sizeof(text) - 1] = 0;
	set(&lab, "gpu-nic-map", text);
	ASSERT_EQ(lab.policy->n_given, TOPO_MAX_GIVEN);
	for (unsigned int i = 0; i <= TOPO_MAX_NICS; i++)
		memcpy(text + 2 * i, "a,", 3);
	ASSERT_EQ(topo_policy_set(lab.policy, "nics-include", text, lab.why), -EINVAL);
	ASSERT_STREQ(lab.why, "it has more than 1024 entries");
	text[2 * TOPO_MAX_NICS] = 0;
	set(&lab, "nics-include", text);
	ASSERT_EQ(lab.policy->n_included, TOPO_MAX_NICS);
	memset(long_name, 'n', TOPO_NAME_BYTES - 1);
	set(&lab, "nics-include", long_name);
	memset(long_name, 'n', sizeof(long_name) - 1);
	ASSERT_EQ(topo_policy_set(lab.policy, "nics-include", long_name, lab.why), -EINVAL);
	lab_deinit(&lab);
}

static void write_file(char path[64], const char *text)
{
	int fd;

	snprintf(path, 64, "%.30s/shmemd-policy-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	fd = mkstemp(path);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

TEST(a_file_is_read_for_its_three_keys)
{
	struct lab lab;
	char path[64], wanted[160];

	lab_init(&lab);
	write_file(path, "# nics-include = x\n\nlog-level = debug\n  nics-exclude =  a=storage , b \nnonsense\ngpu-nic-map=0:c:1\n");
	ASSERT_OK(topo_policy_read(lab.policy, path, lab.why));
	ASSERT_EQ(lab.policy->n_included, 0);
	ASSERT_EQ(lab.policy->n_excluded, 2);
	ASSERT_EQ(lab.policy->n_given, 1);
	ASSERT_STREQ(lab.policy->given[0].nic.name, "c");
	unlink(path);
	write_file(path, "\nnics-include = a:b\n");
	ASSERT_EQ(topo_policy_read(lab.policy, path, lab.why), -EINVAL);
	snprintf(wanted, sizeof(wanted), "%s:2: \"a:b\" is not of the form NIC[:PORT]", path);
	ASSERT_STREQ(lab.why, wanted);
	unlink(path);
	ASSERT_EQ(topo_policy_read(lab.policy, path, lab.why), -ENOENT);
	lab_deinit(&lab);
}

/* Else its end would be read as a line of its own. */
TEST(a_file_that_is_no_text_is_refused)
{
	static const char zero[] = "nics-include = a\0b\n", ends[] = "\0";
	char path[] = "/tmp/shmemd-policy-XXXXXX", expected[128];
	struct lab lab;
	int fd = mkstemp(path);

	ASSERT_GE(fd, 0);
	lab_init(&lab);
	snprintf(expected, sizeof(expected), "%s:1: this is not a text file", path);
	ASSERT_EQ(pwrite(fd, zero, sizeof(zero) - 1, 0), (ssize_t)sizeof(zero) - 1);
	ASSERT_ERR(topo_policy_read(lab.policy, path, lab.why), EINVAL);
	ASSERT_STREQ(lab.why, expected);
	ASSERT_OK(ftruncate(fd, 0));
	ASSERT_EQ(pwrite(fd, ends, 1, 0), 1);
	ASSERT_ERR(topo_policy_read(lab.policy, path, lab.why), EINVAL);
	ASSERT_STREQ(lab.why, expected);
	/* The last line needs no end, and an empty file is one. */
	ASSERT_OK(ftruncate(fd, 0));
	ASSERT_OK(topo_policy_read(lab.policy, path, lab.why));
	ASSERT_EQ(pwrite(fd, "nics-include = a", 16, 0), 16);
	ASSERT_OK(topo_policy_read(lab.policy, path, lab.why));
	ASSERT_ERR(topo_policy_read(lab.policy, "/tmp", lab.why), EIO);
	ASSERT_STREQ(lab.why, "cannot read /tmp: Is a directory");
	close(fd);
	unlink(path);
	lab_deinit(&lab);
}

TEST(a_line_that_is_too_long_is_refused)
{
	static const char end[] = "nics-exclude = a\n";
	char text[2 + 8191 + sizeof(end)] = "\n", path[64], wanted[160];
	struct lab lab;

	lab_init(&lab);
	memset(text + 1, '#', 8191);
	memcpy(text + 1 + 8191, end, sizeof(end));
	write_file(path, text);
	ASSERT_EQ(topo_policy_read(lab.policy, path, lab.why), -EINVAL);
	snprintf(wanted, sizeof(wanted), "%s:2: the line has more than 8190 bytes", path);
	ASSERT_STREQ(lab.why, wanted);
	ASSERT_EQ(lab.policy->n_excluded, 0);
	unlink(path);
	/* As long as may be. */
	text[1 + 8190] = '\n';
	write_file(path, text);
	ASSERT_OK(topo_policy_read(lab.policy, path, lab.why));
	ASSERT_EQ(lab.policy->n_excluded, 1);
	unlink(path);
	lab_deinit(&lab);
}

/* A daemon accepts every file that shmemctl accepts. */
TEST(a_value_that_the_daemon_has_no_room_for_is_refused)
{
	static const char *const keys[] = {"nics-include", "nics-exclude", "gpu-nic-map"};
	char value[TOPO_POLICY_TEXT_BYTES + 1] = "0:a", text[sizeof(value) + 32];
	char path[64], wanted[160];
	struct lab lab;

	lab_init(&lab);
	memset(value + 3, ',', sizeof(value) - 4);
	for (unsigned int i = 0; i < 3; i++) {
		ASSERT_EQ(topo_policy_set(lab.policy, keys[i], value, lab.why), -EINVAL);
		ASSERT_STREQ(lab.why, "it has more than 4095 bytes");
		snprintf(text, sizeof(text), "%s = %s\n", keys[i], value);
		write_file(path, text);
		ASSERT_EQ(topo_policy_read(lab.policy, path, lab.why), -EINVAL);
		snprintf(wanted, sizeof(wanted), "%s:1: it has more than 4095 bytes", path);
		ASSERT_STREQ(lab.why, wanted);
		unlink(path);
	}
	/* As long as may be. */
	value[TOPO_POLICY_TEXT_BYTES - 1] = 0;
	set(&lab, "gpu-nic-map", value);
	ASSERT_EQ(lab.policy->n_given, 1);
	lab_deinit(&lab);
}

/* ---- refused by the machine ---------------------------------------------------------------------------------------- */

#define VALID "valid NICs: mlx5_0:1, mlx5_1:1, mlx5_2:1, mlx5_3:1, slow:1, disk:1, two:1, two:2"

TEST(a_map_of_what_is_not_there_is_refused_with_what_is)
{
	struct lab lab;

	lab_init(&lab);
	set(&lab, "gpu-nic-map", "0:mlx5_0:1,1:mlx5_9:1");
	assert_refused(&lab, "gpu-nic-map: this machine has no NIC mlx5_9:1; " VALID);
	set(&lab, "gpu-nic-map", "0:mlx5_0:2");
	assert_refused(&lab, "gpu-nic-map: this machine has no NIC mlx5_0:2; " VALID);
	set(&lab, "gpu-nic-map", "0:44:00.0");
	assert_refused(&lab, "gpu-nic-map: this machine has no NIC 44:00.0; " VALID);
	set(&lab, "gpu-nic-map", "0:30:00.0:1");
	assert_down(&lab, "gpu-nic-map: 30:00.0:1 cannot be used: its port is down; " VALID);
	/* Problems that do not mend by themselves come first. */
	set(&lab, "gpu-nic-map", "0:30:00.0:1,1:mlx5_9:1");
	assert_refused(&lab, "gpu-nic-map: this machine has no NIC mlx5_9:1; " VALID);
	set(&lab, "gpu-nic-map", "4:mlx5_0:1");
	assert_refused(&lab, "gpu-nic-map: this machine has no GPU 4; valid GPUs: 0 to 3, their PCI addresses and, where they are "
			     "known, their UUIDs");
	set(&lab, "gpu-nic-map", "GPU-c:mlx5_0:1");
	ASSERT_EQ(topo_policy_check(lab.policy, lab.topo, lab.why), -EINVAL);
	lab_deinit(&lab);
}

TEST(contradictory_policies_are_refused)
{
	struct lab lab;

	lab_init(&lab);
	set(&lab, "nics-include", "mlx5_7, mlx5_8");
	assert_refused(&lab, "nics-include: this machine has none of these NICs; valid NICs: mlx5_0:1, mlx5_1:1, mlx5_2:1, mlx5_3:1, "
			     "down:1, slow:1, disk:1, two:1, two:2");
	set(&lab, "nics-include", "mlx5_0,mlx5_1");
	set(&lab, "gpu-nic-map", "0:mlx5_2:1");
	assert_refused(&lab, "gpu-nic-map: mlx5_2:1 cannot be used: nics-include does not name it; valid NICs: mlx5_0:1, mlx5_1:1");
	set(&lab, "nics-include", "");
	set(&lab, "nics-exclude", "mlx5_2,two,slow,disk,absent");
	assert_refused(&lab, "gpu-nic-map: mlx5_2:1 cannot be used: nics-exclude names it; valid NICs: mlx5_0:1, mlx5_1:1, mlx5_3:1");
	/* Absent ones may be excluded. */
	set(&lab, "gpu-nic-map", "");
	ASSERT_OK(topo_policy_check(lab.policy, lab.topo, lab.why));
	lab_deinit(&lab);
}

/* As the largest machines of clouds have them. */
TEST(the_valid_ones_of_32_are_all_named)
{
	char *text = NULL, why[TOPO_POLICY_WHY_BYTES], name[32];
	size_t n_bytes;
	FILE *out = open_memstream(&text, &n_bytes);
	struct lab lab;

	lab_init(&lab);
	topo_free(lab.topo);
	fprintf(out, "<shmemd-topology version=\"1\"><host><function pci=\"1:00.0\" class=\"0302\"/>");
	for (unsigned int i = 0; i < 32; i++)
		fprintf(out, "<function pci=\"1:%02x:00.0\" class=\"0207\"><nic name=\"rdmap1%02us0-rdma\" port=\"1\"/></function>", i, i);
	fprintf(out, "</host></shmemd-topology>");
	fclose(out);
	lab.topo = parse_machine(text);
	set(&lab, "gpu-nic-map", "0:none");
	ASSERT_EQ(topo_policy_check(lab.policy, lab.topo, why), -EINVAL);
	for (unsigned int i = 0; i < 32; i++) {
		snprintf(name, sizeof(name), "rdmap1%02us0-rdma:1", i);
		ASSERT(strstr(why, name));
	}
	ASSERT(!strstr(why, " more"));
	free(text);
	lab_deinit(&lab);
}

TEST(a_long_list_of_valid_ones_is_cut_and_says_so)
{
	char *text = NULL, why[TOPO_POLICY_WHY_BYTES];
	size_t n_bytes;
	FILE *out = open_memstream(&text, &n_bytes);
	struct lab lab;

	lab_init(&lab);
	topo_free(lab.topo);
	fprintf(out, "<shmemd-topology version=\"1\"><host><function pci=\"1:00.0\" class=\"0302\"/>");
	for (unsigned int i = 0; i < 200; i++)
		fprintf(out, "<function pci=\"1:%02x:00.0\" class=\"0207\"><nic name=\"a-rather-long-name-%03u\" port=\"1\"/></function>", i, i);
	fprintf(out, "</host></shmemd-topology>");
	fclose(out);
	lab.topo = parse_machine(text);
	set(&lab, "gpu-nic-map", "0:none");
	ASSERT_EQ(topo_policy_check(lab.policy, lab.topo, why), -EINVAL);
	ASSERT(strstr(why, "this machine has no NIC none; valid NICs: a-rather-long-name-000:1, a-"));
	ASSERT(strstr(why, " more"));
	ASSERT_EQ(strcspn(strstr(why, " and ") + 5, "0123456789"), 0);
	free(text);
	lab_deinit(&lab);
}

/* ---- what comes of it ---------------------------------------------------------------------------------------------- */

TEST(only_what_is_included_is_used_and_nothing_of_what_is_excluded)
{
	struct lab lab;

	lab_init(&lab);
	set(&lab, "nics-include", "mlx5_1, 0000:22:00.0, mlx5_3, slow, disk, down");
	set(&lab, "nics-exclude", "mlx5_3=management");
	assign(&lab);
	ASSERT_HAS(&lab, 0, MLX5_1);
	ASSERT_HAS(&lab, 1, MLX5_1);
	ASSERT_HAS(&lab, 2, MLX5_2);
	ASSERT_STREQ(reason(&lab, 0, MLX5_0), "by policy: nics-include does not name it");
	ASSERT_STREQ(reason(&lab, 0, MLX5_3), "it is for management, by policy");
	/* By name a slow one and one for storage may be had; a port that is down stays so. */
	ASSERT_EQ(lab.map->excluded[IS_SLOW], TOPO_USED);
	ASSERT_EQ(lab.map->excluded[DISK], TOPO_USED);
	ASSERT_EQ(lab.map->excluded[IS_DOWN], TOPO_DOWN);
	ASSERT_EQ(lab.map->excluded[TWO_2], TOPO_NOT_INCLUDED);
	set(&lab, "nics-include", "");
	set(&lab, "nics-exclude", "mlx5_0, two:2, mlx5_2=storage");
	assign(&lab);
	ASSERT_STREQ(reason(&lab, 0, MLX5_0), "by policy: nics-exclude names it");
	ASSERT_STREQ(reason(&lab, 0, MLX5_2), "it is for storage, by policy");
	ASSERT_STREQ(reason(&lab, 0, DISK), "it is for storage, by policy");
	ASSERT_EQ(lab.map->excluded[TWO_1], TOPO_USED);
	ASSERT_EQ(lab.map->excluded[TWO_2], TOPO_BY_POLICY);
	ASSERT_EQ(lab.map->excluded[IS_SLOW], TOPO_SLOW);
	lab_deinit(&lab);
}

static bool allows(const struct lab *lab, const char *name, unsigned int port)
{
	return topo_policy_allows_apart(lab->policy, &(struct topo_apart){.name = name, .pci = "", .port = port});
}

/* The daemon calls the ports of a device that has two "name:1" and "name:2". */
TEST(names_of_the_daemon_fit_also_with_a_port_in_them)
{
	struct lab lab;

	lab_init(&lab);
	set(&lab, "nics-exclude", "two:2, one");
	ASSERT(allows(&lab, "two:1", 1));
	ASSERT(!allows(&lab, "two:2", 2));
	ASSERT(!allows(&lab, "one", 1));
	ASSERT(allows(&lab, "one2", 1));
	ASSERT(allows(&lab, "on", 1));
	set(&lab, "nics-exclude", "two");
	ASSERT(!allows(&lab, "two:1", 1) && !allows(&lab, "two:2", 2));
	set(&lab, "nics-exclude", "");
	set(&lab, "nics-include", "two:1");
	ASSERT(allows(&lab, "two:1", 1));
	ASSERT(!allows(&lab, "two:2", 2));
	lab_deinit(&lab);
}

TEST(a_nic_that_is_none_of_the_machine_goes_by_its_address_too)
{
	const struct topo_apart apart = {.name = "mlx5_7", .pci = "0000:3b:00.1", .port = 1};
	struct lab lab;

	lab_init(&lab);
	set(&lab, "nics-exclude", "3B:00.1:2");
	ASSERT(topo_policy_allows_apart(lab.policy, &apart));
	set(&lab, "nics-exclude", "3B:00.1=storage");
	ASSERT(!topo_policy_allows_apart(lab.policy, &apart));
	ASSERT(allows(&lab, "mlx5_7", 1));
	set(&lab, "nics-exclude", "");
	set(&lab, "nics-include", "00000000:3b:00.1");
	ASSERT(topo_policy_allows_apart(lab.policy, &apart));
	ASSERT(!allows(&lab, "mlx5_7", 1));
	lab_deinit(&lab);
}

static void doubted(const struct lab *lab, const struct topo_apart *apart, unsigned int n, const char *words)
{
	char text[TOPO_DOUBTS_BYTES];
	unsigned int n_doubts = topo_policy_doubts(lab->policy, lab->topo, apart, n, text);

	ASSERT_EQ(n_doubts > 0, *words != 0);
	ASSERT_STREQ(text, words);
}

TEST(an_unknown_name_is_reported_with_a_suggestion)
{
	struct lab lab;

	lab_init(&lab);
	set(&lab, "nics-include", "mlx5_O, mlx5_1");
	doubted(&lab, NULL, 0, "nics-include names mlx5_O, a NIC that this machine does not have (did you mean mlx5_0?)");
	set(&lab, "nics-include", "mlx5_1 mlx5_9 ib0 22:00.0 two:3");
	doubted(&lab, NULL, 0, "nics-include names mlx5_9 and 2 more NICs that this machine does not have "
		"(it has mlx5_0, mlx5_1, mlx5_2, mlx5_3 and 4 more)");
	set(&lab, "nics-include", "");
	set(&lab, "nics-exclude", "donw, slow=management");
	doubted(&lab, NULL, 0, "nics-exclude names donw, a NIC that this machine does not have (did you mean down?)");
	set(&lab, "nics-exclude", "two:3");
	doubted(&lab, NULL, 0, "nics-exclude names two:3, a NIC that this machine does not have "
		"(it has mlx5_0, mlx5_1, mlx5_2, mlx5_3 and 4 more)");
	set(&lab, "nics-exclude", "slow, 20:00.0");
	set(&lab, "gpu-nic-map", "0:mlx5_0, 9:mlx5_1");
	ASSERT(topo_policy_doubts(lab.policy, lab.topo, NULL, 0, lab.why) == 2);
	ASSERT(strstr(lab.why, "; gpu-nic-map names GPU 9, which this machine does not have"));
	lab_deinit(&lab);
}

TEST(nics_of_the_daemons_own_are_known_by_their_names)
{
	const struct topo_apart own[] = {{"soft0", "", 1}, {"soft1", "", 1}};
	struct lab lab;

	lab_init(&lab);
	set(&lab, "nics-include", "soft0 mlx5_0");
	doubted(&lab, own, 2, "");
	set(&lab, "nics-include", "sotf1");
	doubted(&lab, own, 2, "nics-include names sotf1, a NIC that this machine does not have (did you mean soft1?)");
	lab_deinit(&lab);
}

TEST(longest_names_are_reported_within_bounds)
{
	char list[TOPO_POLICY_TEXT_BYTES] = "", text[TOPO_DOUBTS_BYTES + 1];
	struct lab lab;

	lab_init(&lab);
	for (unsigned int i = 0; i < 60; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%060u ", i);
	set(&lab, "nics-include", list);
	set(&lab, "nics-exclude", list);
	text[TOPO_DOUBTS_BYTES] = 'x';
	ASSERT_EQ(topo_policy_doubts(lab.policy, lab.topo, NULL, 0, text), 120);
	ASSERT_EQ(text[TOPO_DOUBTS_BYTES], 'x');
	ASSERT_EQ(strlen(text), TOPO_DOUBTS_BYTES - 1);
	ASSERT_EQ(topo_policy_doubts(NULL, lab.topo, NULL, 0, text), 0);
	ASSERT_STREQ(text, "");
	lab_deinit(&lab);
}

TEST(a_gpu_has_what_the_map_gives_and_the_others_share_the_rest)
{
	struct lab lab;

	lab_init(&lab);
	set(&lab, "gpu-nic-map", "GPU-A:mlx5_3:1, 20:00.0:mlx5_0:1");
	assign(&lab);
	ASSERT_HAS(&lab, 0, MLX5_3);
	ASSERT_HAS(&lab, 2, MLX5_0);
	/* The nearest, and of these the one that no GPU was given. */
	ASSERT_HAS(&lab, 1, MLX5_1);
	ASSERT_HAS(&lab, 3, MLX5_2);
	ASSERT_STREQ(reason(&lab, 0, MLX5_3), "SYS: gpu-nic-map gives it");
	ASSERT_STREQ(reason(&lab, 0, MLX5_0), "PIX: gpu-nic-map gives this GPU others");
	ASSERT_STREQ(reason(&lab, 1, MLX5_0), "PIX: as near, and GPU2 has it");
	ASSERT_STREQ(reason(&lab, 1, MLX5_1), "PIX: one of the 2 nearest NICs, and no other GPU has it");
	lab_deinit(&lab);
}

TEST(a_reason_names_the_gpus_that_share_a_given_nic)
{
	struct lab lab;

	lab_init(&lab);
	set(&lab, "gpu-nic-map", "0:mlx5_2:1,0:mlx5_3:1");
	assign(&lab);
	ASSERT_HAS(&lab, 2, MLX5_2);
	ASSERT_STREQ(reason(&lab, 2, MLX5_2), "PIX: one of the 2 nearest NICs, shared with GPU0, to which gpu-nic-map gives it");
	lab_deinit(&lab);
}

TEST(weights_order_a_gpus_nics)
{
	struct lab lab;

	lab_init(&lab);
	set(&lab, "gpu-nic-map", "0:mlx5_0:1,0:mlx5_1:1:3,0:two,0:mlx5_1:1:9,1:two:1,1:mlx5_0");
	assign(&lab);
	ASSERT_HAS(&lab, 0, MLX5_1, MLX5_0, TWO_1, TWO_2);
	ASSERT(lab.map->gpus[0].is_weighted && !lab.map->gpus[1].is_weighted);
	ASSERT_EQ(lab.map->gpus[0].weights[0], 3);
	ASSERT_EQ(lab.map->gpus[0].weights[1], 1);
	/* As they were written. */
	ASSERT_HAS(&lab, 1, TWO_1, MLX5_0);
	ASSERT_EQ(lab.map->n_gpus[TWO_1], 2);
	ASSERT_STREQ(reason(&lab, 0, MLX5_1), "PIX: gpu-nic-map gives it, with weight 3");
	ASSERT_STREQ(reason(&lab, 0, TWO_1), "SYS: gpu-nic-map gives it, with weight 1, shared by 2 GPUs");
	ASSERT_STREQ(reason(&lab, 1, TWO_1), "SYS: gpu-nic-map gives it, shared by 2 GPUs");
	lab_deinit(&lab);
}

TEST(gpu_that_is_given_a_nic_set_aside_by_rules_has_it_alone)
{
	struct lab lab;

	lab_init(&lab);
	set(&lab, "gpu-nic-map", "0:slow:1,0:disk:1");
	assign(&lab);
	ASSERT_HAS(&lab, 0, IS_SLOW, DISK);
	ASSERT_EQ(lab.map->n_gpus[IS_SLOW], 1);
	ASSERT_EQ(lab.map->n_gpus[DISK], 1);
	ASSERT_STREQ(reason(&lab, 3, IS_SLOW), "PHB: only for GPU0, by gpu-nic-map");
	lab_deinit(&lab);
}

/* A VF whose own port is active, below a PF whose port is down. */
static void make_vf(struct lab *lab, unsigned int nic, unsigned int pf)
{
	lab->topo->nics[nic].seen.pf = lab->topo->nodes[lab->topo->nics[pf].node].pci;
}

TEST(a_vf_below_a_pf_that_is_down_is_only_for_gpus_that_the_policy_gives_it)
{
	struct lab lab;

	lab_init(&lab);
	make_vf(&lab, MLX5_1, IS_DOWN);
	/* To include it is not enough. */
	set(&lab, "nics-include", "mlx5_0, mlx5_1, down");
	assign(&lab);
	ASSERT_EQ(lab.map->excluded[MLX5_1], TOPO_PF_DOWN);
	ASSERT_HAS(&lab, 1, MLX5_0);
	set(&lab, "gpu-nic-map", "0:mlx5_1:1");
	assign(&lab);
	ASSERT_HAS(&lab, 0, MLX5_1);
	ASSERT(lab.map->gpus[0].is_given && !lab.map->gpus[0].lost_given);
	ASSERT_EQ(lab.map->n_gpus[MLX5_1], 1);
	ASSERT_STREQ(reason(&lab, 1, MLX5_1), "PIX: only for GPU0, by gpu-nic-map");
	/* Its own port goes the same way. */
	lab.topo->nics[MLX5_1].seen.state = HOST_STATE_DOWN;
	topo_assign(lab.topo, lab.policy, lab.map);
	ASSERT(lab.map->gpus[0].lost_given);
	ASSERT_HAS(&lab, 0, MLX5_0);
	lab_deinit(&lab);
}

/* One lane, beside others with sixteen. */
static void seem_to_manage(struct lab *lab, unsigned int nic)
{
	for (unsigned int i = 0; i < N_NICS; i++) {
		lab->topo->nodes[lab->topo->nics[i].node].vendor = 0x15b3;
		lab->topo->nodes[lab->topo->nics[i].node].link_mbps = i == nic ? 31507 : 504123;
	}
}

/* Each rule that guesses is lifted, and no other. */
TEST(a_given_nic_overrides_every_rule_that_guesses)
{
	struct lab lab;

	lab_init(&lab);
	make_vf(&lab, MLX5_1, MLX5_0);
	snprintf(lab.topo->nics[MLX5_2].seen.bond, TOPO_NAME_BYTES, "bond0");
	snprintf(lab.topo->nics[MLX5_3].seen.bond, TOPO_NAME_BYTES, "bond0");
	lab.topo->nics[TWO_1].role = TOPO_ROLE_MANAGEMENT;
	lab.topo->nics[TWO_2].role = TOPO_ROLE_BRIDGE;
	seem_to_manage(&lab, MLX5_0);
	assign(&lab);
	ASSERT_EQ(lab.map->excluded[MLX5_0], TOPO_SEEMS_BRIDGE);
	set(&lab, "nics-include", "mlx5_0,mlx5_1,mlx5_2,mlx5_3,slow,disk,two,down");
	assign(&lab);
	ASSERT_EQ(lab.map->excluded[MLX5_0], TOPO_USED);
	set(&lab, "nics-include", "");
	set(&lab, "gpu-nic-map", "0:mlx5_0");
	assign(&lab);
	ASSERT_HAS(&lab, 0, MLX5_0);
	set(&lab, "gpu-nic-map", "");
	lab.topo->nics[MLX5_0].seen.manages_switches = HOST_NO;
	assign(&lab);
	ASSERT_EQ(lab.map->excluded[MLX5_1], TOPO_PF_TAKEN);
	ASSERT_EQ(lab.map->excluded[MLX5_3], TOPO_BOND_MEMBER);
	ASSERT_EQ(lab.map->excluded[TWO_1], TOPO_IS_MANAGEMENT);
	ASSERT_EQ(lab.map->excluded[TWO_2], TOPO_IS_BRIDGE);
	set(&lab, "gpu-nic-map", "0:mlx5_1,0:mlx5_3,0:slow,0:disk,0:two,0:down");
	topo_assign(lab.topo, lab.policy, lab.map);
	ASSERT_HAS(&lab, 0, MLX5_1, MLX5_3, IS_SLOW, DISK, TWO_1);
	ASSERT_EQ(lab.map->excluded[TWO_2], TOPO_IS_BRIDGE);
	ASSERT_EQ(lab.map->excluded[IS_DOWN], TOPO_DOWN);
	/* By policy it is for storage: no guess. */
	set(&lab, "nics-exclude", "disk=storage, mlx5_3");
	topo_assign(lab.topo, lab.policy, lab.map);
	ASSERT_HAS(&lab, 0, MLX5_1, IS_SLOW, TWO_1);
	lab_deinit(&lab);
}

/* A rule's guess about it hides that it is down. */
TEST(a_nic_that_is_down_or_has_no_driver_is_not_assigned)
{
	struct lab lab;

	lab_init(&lab);
	set(&lab, "gpu-nic-map", "0:disk:1");
	lab.topo->nics[DISK].seen.state = HOST_STATE_DOWN;
	topo_assign(lab.topo, lab.policy, lab.map);
	ASSERT_EQ(lab.map->excluded[DISK], TOPO_IS_STORAGE);
	ASSERT(lab.map->gpus[0].lost_given && !lab.map->gpus[0].is_given);
	ASSERT_HAS(&lab, 0, MLX5_0);
	lab.topo->nics[DISK].seen.state = HOST_STATE_ACTIVE;
	lab.topo->nics[DISK].has_no_driver = true;
	topo_assign(lab.topo, lab.policy, lab.map);
	ASSERT_HAS(&lab, 0, MLX5_0);
	lab.topo->nics[DISK].has_no_driver = false;
	topo_assign(lab.topo, lab.policy, lab.map);
	ASSERT_HAS(&lab, 0, DISK);
	lab_deinit(&lab);
}

TEST(while_given_nics_are_down_a_gpu_has_the_nearest)
{
	struct lab lab;

	lab_init(&lab);
	set(&lab, "gpu-nic-map", "0:mlx5_2:1,0:mlx5_3:1");
	assign(&lab);
	lab.topo->nics[MLX5_2].seen.state = HOST_STATE_DOWN;
	topo_assign(lab.topo, lab.policy, lab.map);
	ASSERT_HAS(&lab, 0, MLX5_3);
	lab.topo->nics[MLX5_3].seen.state = HOST_STATE_DOWN;
	topo_assign(lab.topo, lab.policy, lab.map);
	ASSERT_HAS(&lab, 0, MLX5_0);
	ASSERT_STREQ(reason(&lab, 0, MLX5_0), "PIX: one of the 2 nearest NICs, and no other GPU has it, while those of gpu-nic-map "
					       "cannot be used");
	/* A NIC that is gone is treated as one that is down. */
	set(&lab, "gpu-nic-map", "1:gone:1");
	topo_assign(lab.topo, lab.policy, lab.map);
	ASSERT(lab.map->gpus[1].lost_given && !lab.map->gpus[1].is_given && !lab.map->gpus[0].lost_given);
	ASSERT_EQ(lab.map->gpus[1].n_nics, 1);
	lab_deinit(&lab);
}

/* ---- any machine --------------------------------------------------------------------------------------------------- */

/* A random map of the machine, of NICs that can be used. */
static void random_map(struct lab *lab, const struct topo_map *plain, unsigned int *seed)
{
	char *text = NULL;
	size_t n_bytes;
	FILE *out = open_memstream(&text, &n_bytes);

	for (unsigned int i = capture_random(seed, 6); i > 0; i--) {
		unsigned int nic = capture_random(seed, lab->topo->n_nics);

		if (plain->excluded[nic] == TOPO_USED)
			fprintf(out, "%u:%s:%u:%u,", capture_random(seed, lab->topo->n_gpus), lab->topo->nics[nic].seen.name,
				lab->topo->nics[nic].seen.port, 1 + capture_random(seed, 4));
	}
	fclose(out);
	set(lab, "gpu-nic-map", text);
	free(text);
}

static void judge(const struct lab *lab, const struct topo_map *plain)
{
	unsigned int n_gpus[TOPO_MAX_NICS] = {0};

	for (unsigned int i = 0; i < lab->policy->n_given; i++)
		ASSERT(lab->map->gpus[topo_find_gpu(lab->topo, lab->policy->given[i].gpu)].is_given);
	for (unsigned int gpu = 0; gpu < lab->topo->n_gpus; gpu++) {
		const struct topo_gpu_map *got = &lab->map->gpus[gpu];

		ASSERT_GT(got->n_nics, 0);
		for (unsigned int i = 0; i < got->n_nics; i++) {
			n_gpus[got->nics[i]]++;
			ASSERT(i == 0 || !got->is_given || got->weights[i - 1] >= got->weights[i]);
			/* A GPU that was given nothing is as near to its NICs as without a map. */
			ASSERT(got->is_given || topo_rank(lab->topo, lab->topo->gpus[gpu].node, lab->topo->nics[got->nics[i]].node) ==
							topo_rank(lab->topo, lab->topo->gpus[gpu].node,
								  lab->topo->nics[plain->gpus[gpu].nics[0]].node));
		}
	}
	for (unsigned int nic = 0; nic < lab->topo->n_nics; nic++)
		ASSERT_EQ(n_gpus[nic], lab->map->n_gpus[nic]);
}

TEST(any_map_is_kept_and_the_others_stay_near)
{
	struct topo_map *plain = calloc(1, sizeof(*plain));
	unsigned int seed = 7, n_given = 0;

	ASSERT(plain);
	for (unsigned int round = 0; round < 200; round++) {
		struct lab lab;

		lab_init(&lab);
		topo_assign(lab.topo, NULL, plain);
		random_map(&lab, plain, &seed);
		assign(&lab);
		judge(&lab, plain);
		n_given += lab.policy->n_given;
		lab_deinit(&lab);
	}
	ASSERT_GT(n_given, 200);
	free(plain);
}
