/* SPDX-License-Identifier: Apache-2.0 */
/* A machine in words, on paper and as a file: its description is readable, and a written file can be read. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/topo/xml.h"
#include "libclient/ctl/topology.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "tests/fuzz/fuzz-topology.h"

/* Tables and pictures grow with the square of it. */
#define MAX_DRAWN 16
#define MAX_REASONS 512

/* The written bytes, and the file that wrote them. */
struct page {
	char *text;
	size_t n_bytes;
	FILE *out;
};

static void page_open(struct page *page)
{
	page->text = NULL;
	page->out = open_memstream(&page->text, &page->n_bytes);
	assert_bug(page->out);
}

static void page_close(struct page *page)
{
	assert_bug(!ferror(page->out) && !fclose(page->out) && page->text);
}

/* ---- reasons ------------------------------------------------------------------------------------------------------- */

/* Every device that the text names is there. Only for words without names, which may say what they like. */
static void judge_numbers(const struct topo *topo, const char *text)
{
	for (const char *at = strstr(text, "GPU"); at; at = strstr(at + 3, "GPU"))
		assert_bug(!isdigit((unsigned char)at[3]) || strtoul(at + 3, NULL, 10) < topo->n_gpus);
}

static void judge_reason(const struct topo *topo, const struct topo_map *map, unsigned int gpu, unsigned int nic)
{
	unsigned int a = topo->gpus[gpu].node, b = topo->nics[nic].node;
	char why[TOPO_WHY_BYTES];

	memset(why, 0xff, sizeof(why));
	judge_words(topo_reason(topo, map, gpu, nic, why), sizeof(why));
	if (map->excluded[nic] == TOPO_USED)
		judge_numbers(topo, why);
	assert_bug(topo_distance(topo, a, b) == topo_distance(topo, b, a));
}

void judge_reasons(const struct topo *topo, const struct topo_map *map)
{
	char why[TOPO_WHY_BYTES];
	unsigned int n = 0;

	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		for (unsigned int nic = 0; nic < topo->n_nics && n < MAX_REASONS; nic++, n++)
			judge_reason(topo, map, gpu, nic);
	for (unsigned int nic = 0; nic < topo->n_nics && nic < MAX_REASONS; nic++)
		judge_words(topo_reason_excluded(topo, map, nic, why), sizeof(why));
	judge_words(topo_reason_none(topo, map, why), sizeof(why));
}

/* ---- views --------------------------------------------------------------------------------------------------------- */

static void judge_page(const struct page *page)
{
	assert_bug(plain_bytes(page->text) == page->n_bytes);
}

static void judge_picture(const struct topology_view *view)
{
	static struct xml xml;
	struct page page;
	int r;

	page_open(&page);
	topology_svg(view, page.out);
	page_close(&page);
	judge_page(&page);
	xml_init(&xml, page.text, page.n_bytes);
	while ((r = xml_next(&xml)) > 0)
		;
	assert_bug(r == XML_END);
	free(page.text);
}

static void judge_tables(const struct topology_view *view)
{
	struct ctl ctl = {.is_json = false};
	struct page page;

	page_open(&page);
	ctl.out = page.out;
	topology_print(&ctl, view);
	topology_json(&ctl, view);
	page_close(&page);
	judge_page(&page);
	free(page.text);
}

void judge_views(const struct topo *topo, const struct topo_map *map)
{
	struct topology_view view = {.topo = topo, .map = map, .source = "a/file.xml", .why = -1};

	if (topo->n_gpus + topo->n_nics > MAX_DRAWN)
		return;
	judge_picture(&view);
	judge_tables(&view);
	view.why = (int)topo->n_gpus - 1;
	if (view.why >= 0)
		judge_tables(&view);
}

/* ---- a dump -------------------------------------------------------------------------------------------------------- */

static void dump(const struct topo *topo, struct page *page)
{
	page_open(page);
	topo_dump(topo, page->out);
	page_close(page);
	judge_page(page);
}

static struct topo *read_again(const struct page *page)
{
	_cleanup_free_ char *copy = malloc(page->n_bytes + 1);
	char why[TOPO_WHY_BYTES];
	struct topo *topo = NULL;

	assert_bug(copy);
	memcpy(copy, page->text, page->n_bytes);
	if (topo_parse(copy, page->n_bytes, &topo, why) < 0)
		fprintf(stderr, "%s\n", why);
	assert_bug(topo);
	return topo;
}

static void judge_gids_again(const struct topo_nic *nic, const struct topo_nic *again)
{
	assert_bug(again->seen.n_gids == nic->seen.n_gids && again->seen.has_gids == nic->seen.has_gids);
	for (unsigned int i = 0; i < nic->seen.n_gids; i++) {
		const struct host_gid *gid = &nic->seen.gids[i], *other = &again->seen.gids[i];

		assert_bug(gid->index == other->index && (gid->type == HOST_GID_ROCE_V2) == (other->type == HOST_GID_ROCE_V2));
		assert_bug(memcmp(gid->bytes, other->bytes, sizeof(gid->bytes)) == 0);
		assert_bug(strcmp(gid->netdev, other->netdev) == 0);
	}
}

/* Whether the map may hide that something was lost. */
static void judge_nic_again(const struct topo_nic *nic, const struct topo_nic *again)
{
	assert_bug(strcmp(nic->seen.netdev, again->seen.netdev) == 0 && strcmp(nic->seen.bond, again->seen.bond) == 0);
	assert_bug(strcmp(nic->seen.firmware, again->seen.firmware) == 0);
	assert_bug(nic->seen.state == again->seen.state && nic->seen.fabric == again->seen.fabric && nic->role == again->role &&
		   nic->seen.manages_switches == again->seen.manages_switches);
	assert_bug(nic->seen.phys_state == again->seen.phys_state && nic->seen.lid == again->seen.lid && nic->seen.pf == again->seen.pf);
	assert_bug(nic->seen.mtu_bytes == again->seen.mtu_bytes && nic->seen.active_mtu_bytes == again->seen.active_mtu_bytes);
	assert_bug(nic->seen.max_mtu_bytes == again->seen.max_mtu_bytes && nic->seen.rate_mbps == again->seen.rate_mbps);
	assert_bug(nic->seen.n_lanes == again->seen.n_lanes && nic->seen.max_lanes == again->seen.max_lanes);
	assert_bug(nic->seen.max_rate_mbps == again->seen.max_rate_mbps && nic->guid == again->guid);
	assert_bug(nic->seen.node_guid == again->seen.node_guid && nic->seen.netdev_is_up == again->seen.netdev_is_up);
	assert_bug(memcmp(&nic->seen.link, &again->seen.link, sizeof(nic->seen.link)) == 0);
	assert_bug(nic->seen.has_devx == again->seen.has_devx && nic->seen.has_masked_atomics == again->seen.has_masked_atomics);
	assert_bug(nic->seen.has_dmabuf == again->seen.has_dmabuf && nic->seen.has_blueflame == again->seen.has_blueflame);
	judge_gids_again(nic, again);
}

/* A device without a name is shown by its address. The text has both, so it identifies every device. */
void judge_dump(const struct topo *topo, const struct topo_policy *policy, const struct topo_map *map)
{
	static struct topo_map map_again;
	struct page first, second;
	struct topo *again;

	dump(topo, &first);
	again = read_again(&first);
	assert_bug(again->n_gpus == topo->n_gpus && again->n_nics == topo->n_nics);
	assert_bug(again->n_hosts == topo->n_hosts && again->n_numa == topo->n_numa);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		judge_nic_again(&topo->nics[i], &again->nics[i]);
	topo_assign(again, policy, &map_again);
	assert_bug(memcmp(&map_again, map, sizeof(*map)) == 0);
	dump(again, &second);
	assert_bug(first.n_bytes == second.n_bytes && memcmp(first.text, second.text, first.n_bytes) == 0);
	topo_free(again);
	free(first.text);
	free(second.text);
}
