/* What a cluster, or an operator, tells of servers: CLUSTER SLOTS, the replies of a Sentinel, redirections,
 * URLs. What is read of it is whole and can be used; what is not leaves everything as it was. */
#include <hiredis/hiredis.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/redis/election.h"
#include "base/redis/redirect.h"
#include "base/redis/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
    if (!holds)
        abort();
}

static void must_be_address(const struct redis_address *address) {
    must(address->port >= 1 && address->port <= 65535);
    must(memchr(address->host, '\0', sizeof address->host) && address->host[0] &&
         strcmp(address->host, "?") != 0);
    must(!strchr(address->host, ' '));
}

/* ---- CLUSTER SLOTS: the bytes as a tree of replies ---- */

enum { DEPTH_MAX = 4, WIDTH_MAX = 8, REPLIES_MAX = 256 };

struct tree {
    const uint8_t *data;
    size_t size;
    int count;
    redisReply replies[REPLIES_MAX];
    redisReply *elements[REPLIES_MAX][WIDTH_MAX];
    size_t used;
    char texts[REPLIES_MAX * 1024]; /* hiredis ends each text in NUL */
};

static void tree_begin(struct tree *tree, const uint8_t *data, size_t size) {
    tree->data = data;
    tree->size = size;
    tree->count = 0;
    tree->used = 0;
}

static unsigned take(struct tree *tree) {
    if (tree->size == 0)
        return 0;
    tree->size--;
    return *tree->data++;
}

static redisReply *grow(struct tree *tree, int depth) {
    static char nothing[] = "";
    if (tree->count == REPLIES_MAX)
        return &tree->replies[0];
    size_t at = (size_t)tree->count++;
    redisReply *reply = &tree->replies[at];
    unsigned what = take(tree);
    *reply = (redisReply){.type = REDIS_REPLY_NIL, .str = nothing};
    if (what % 4 == 0 && depth < DEPTH_MAX) {
        reply->type = REDIS_REPLY_ARRAY;
        reply->element = tree->elements[at];
        for (size_t width = what / 4 % (WIDTH_MAX + 1); reply->elements < width; reply->elements++)
            tree->elements[at][reply->elements] = grow(tree, depth + 1);
    } else if (what % 4 == 1) {
        reply->type = REDIS_REPLY_INTEGER;
        reply->integer = take(tree);
        reply->integer = reply->integer * 256 + take(tree) - (what & 128);
    } else if (what % 4 == 2) {
        size_t length = (size_t)(what / 4) * (what & 128 ? 16 : 1);
        reply->type = REDIS_REPLY_STRING;
        reply->len = length < tree->size ? length : tree->size;
        reply->str = tree->texts + tree->used;
        memcpy(reply->str, tree->data, reply->len);
        reply->str[reply->len] = '\0';
        tree->used += reply->len + 1;
        tree->data += reply->len;
        tree->size -= reply->len;
    }
    return reply;
}

static void read_slots(const uint8_t *data, size_t size) {
    static struct tree tree;
    static struct redis_slots slots;
    tree_begin(&tree, data, size);
    slots.masters = -7;
    if (!redis_slots_read(&slots, redis_value_of(grow(&tree, 0)), "asked", 0, 0)) {
        must(slots.masters == -7);
        return;
    }
    must(slots.masters >= 1 && slots.masters <= REDIS_MASTERS_MAX);
    for (int i = 0; i < slots.masters; i++)
        must_be_address(&slots.master[i]);
    for (int i = 0; i < REDIS_SLOTS; i++)
        must(slots.of_slot[i] >= REDIS_SLOT_NOBODY && slots.of_slot[i] < slots.masters);
}

/* ---- texts ---- */

static void read_redirect(const char *text) {
    struct redis_redirect redirect = {.slot = -7, .to.port = -7};
    enum redis_meaning meaning = redis_error_read(text, "asked", &redirect);
    if (meaning != REDIS_MOVED && meaning != REDIS_ASK) {
        must(redirect.slot == -7 && redirect.to.port == -7);
        return;
    }
    must(redirect.slot >= 0 && redirect.slot < REDIS_SLOTS);
    must_be_address(&redirect.to);
}

/* The two replies of a Sentinel. */
static void read_vote(const uint8_t *data, size_t size) {
    static struct tree tree;
    struct redis_vote vote = {.master.port = -7};
    tree_begin(&tree, data, size);
    redis_vote_read_state(&vote, redis_value_of(grow(&tree, 0)));
    if (vote.leaving.port)
        must_be_address(&vote.leaving);
    if (redis_vote_read_master(&vote, redis_value_of(grow(&tree, 0))))
        must(vote.master.port == -7);
    else
        must_be_address(&vote.master);
}

/* The printed URL names the same servers. */
static void read_url(const char *text) {
    char error[256] = "", printed[8192];
    static struct redis_url url, again;
    url.count = -7;
    if (!redis_url_parse(&url, text, error, sizeof error)) {
        must(url.count == -7 && error[0]);
        return;
    }
    must(url.count >= 1 && url.count <= REDIS_URL_SERVERS_MAX &&
         (url.kind != REDIS_URL_ONE || url.count == 1));
    must((url.kind == REDIS_URL_SENTINEL) == (url.master[0] != '\0'));
    if (url.kind == REDIS_URL_ONE || strchr(url.servers[0].host, '%'))
        return; /* paths and zones are printed for people */
    redis_url_print(&url, printed, sizeof printed);
    if (!redis_url_parse(&again, printed, error, sizeof error))
        abort();
    must(again.kind == url.kind && again.count == url.count && strcmp(again.master, url.master) == 0);
    for (int i = 0; i < url.count; i++)
        must(strcmp(again.servers[i].host, url.servers[i].host) == 0 &&
             again.servers[i].port == url.servers[i].port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    read_slots(data, size);
    read_vote(data, size);
    read_redirect(text);
    read_url(text);
    must(redis_slot(text, size) >= 0 && redis_slot(text, size) < REDIS_SLOTS);
    free(text);
    return 0;
}
