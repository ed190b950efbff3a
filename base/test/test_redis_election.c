/* Which master Sentinels name, by their answers. */
#include "base/redis/election.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "test/harness.h"

enum { SENTINELS = 3, OLDER_MS = REDIS_OLDER_MS };

/* ---- what one Sentinel says ---- */

static void free_reply(void *reply) {
    freeReplyObject(reply);
}

static const struct redis_value *reply_of(const char *text) {
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    CHECK(reader && redisReaderFeed(reader, text, strlen(text)) == REDIS_OK &&
          redisReaderGetReply(reader, &reply) == REDIS_OK && reply);
    redisReaderFree(reader);
    harness_defer(free_reply, reply);
    return redis_value_of(reply);
}

static void test_state(void) {
    struct redis_vote vote = {.epoch = 7};
    redis_vote_read_state(&vote, reply_of("*8\r\n$2\r\nip\r\n$8\r\n10.0.0.1\r\n$4\r\nport\r\n$4\r\n7001\r\n"
                                          "$5\r\nflags\r\n$28\r\nmaster,failover_in_progress \r\n"
                                          "$12\r\nconfig-epoch\r\n$2\r\n41\r\n"));
    CHECK_INT(vote.epoch, 41);
    CHECK_STR(vote.leaving.host, "10.0.0.1");
    CHECK_INT(vote.leaving.port, 7001);
    redis_vote_read_state(&vote, reply_of("*2\r\n$5\r\nflags\r\n$6\r\nmaster\r\n"));
    CHECK_INT(vote.epoch, 0);
    CHECK_INT(vote.leaving.port, 0);
    static const char *const nothing[] = {"-ERR No such master with that name\r\n",
                                          "*-1\r\n",
                                          "*0\r\n",
                                          ":3\r\n",
                                          "*1\r\n$12\r\nconfig-epoch\r\n",
                                          "*2\r\n$12\r\nconfig-epoch\r\n:3\r\n"};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        redis_vote_read_state(&vote, reply_of(nothing[i]));
        CHECK_INT(vote.epoch, 0);
        CHECK_INT(vote.leaving.port, 0);
    }
    vote.epoch = 5;
    redis_vote_read_state(&vote, NULL);
    CHECK_INT(vote.epoch, 0);
}

static void test_address(void) {
    static const struct {
        const char *reply, *why; /* NULL: it is read */
    } cases[] = {
        {"*2\r\n$8\r\n10.0.0.2\r\n$4\r\n7002\r\n", NULL},
        {"*2\r\n$3\r\n::1\r\n$4\r\n7002\r\n", NULL},
        {"*-1\r\n", "No such master with that name"},
        {"-IDONTKNOW\r\n", "IDONTKNOW"},
        {"*0\r\n", "it does not tell the master's address"},
        {"*1\r\n$1\r\nh\r\n", "it does not tell the master's address"},
        {"*2\r\n$0\r\n\r\n$4\r\n7002\r\n", "it does not tell the master's address"},
        {"*2\r\n$1\r\n?\r\n$4\r\n7002\r\n", "it does not tell the master's address"},
        {"*2\r\n$1\r\nh\r\n$1\r\n0\r\n", "it does not tell the master's address"},
        {"*2\r\n$1\r\nh\r\n$5\r\n65536\r\n", "it does not tell the master's address"},
        {"*2\r\n:1\r\n$4\r\n7002\r\n", "it does not tell the master's address"},
        {"*2\r\n$1\r\nh\r\n:7002\r\n", "it does not tell the master's address"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct redis_vote vote = {.master.port = 77};
        const char *why = redis_vote_read_master(&vote, reply_of(cases[i].reply));
        CHECK_STR(why ? why : "", cases[i].why ? cases[i].why : "");
        CHECK_INT(vote.master.port, cases[i].why ? 77 : 7002);
    }
    struct redis_vote vote;
    CHECK_STR(redis_vote_read_master(&vote, NULL), "the connection broke");
}

/* ---- all of them ---- */

/* The Sentinel names server `port`; `leaving`: and replaces that one, 0: none. */
static void hear(struct redis_election *election, int64_t epoch, int port, int leaving) {
    struct redis_vote vote = {.epoch = epoch, .master = {"h", port}, .leaving = {"h", leaving}};
    redis_election_add(election, &vote);
}

static enum redis_elected end(struct redis_election *election, int64_t now_ms) {
    return redis_election_end(election, SENTINELS, now_ms);
}

/* One may be the first to know of a failover, whatever the order of the answers. */
static void test_newest_counts(void) {
    for (int first = 0; first < SENTINELS; first++) {
        struct redis_election election = {.epoch = 0};
        redis_election_begin(&election);
        for (int i = 0; i < SENTINELS; i++)
            hear(&election, i == first ? 5 : 4, i == first ? 2 : 1, 0);
        CHECK_INT(end(&election, 1), REDIS_ELECTED);
        CHECK_INT(election.best.master.port, 2);
        CHECK_INT(election.epoch, 5);
    }
}

static void test_silent(void) {
    struct redis_election election = {.epoch = 3};
    redis_election_begin(&election);
    CHECK_INT(end(&election, 1), REDIS_ELECTION_SILENT);
    CHECK_INT(election.epoch, 3);
    CHECK(*redis_elected_text(REDIS_ELECTION_SILENT) && *redis_elected_text(REDIS_ELECTION_OLDER) &&
          *redis_elected_text(REDIS_ELECTION_REPLACING) && !*redis_elected_text(REDIS_ELECTED));
}

/* Nobody while one of them is about to promote a replica. Once it has, it names the new master, though its
 * state still has the old one's address. */
static void test_replacing(void) {
    struct redis_election election = {.epoch = 0};
    redis_election_begin(&election);
    hear(&election, 4, 1, 0);
    hear(&election, 4, 1, 1);
    hear(&election, 4, 1, 0);
    CHECK_INT(end(&election, 1), REDIS_ELECTION_REPLACING);
    CHECK_INT(election.epoch, 0);
    redis_election_begin(&election);
    hear(&election, 4, 1, 0);
    hear(&election, 5, 2, 1);
    CHECK_INT(end(&election, 2), REDIS_ELECTED);
    CHECK_INT(election.best.master.port, 2);
}

/* `answers` Sentinels have heard of failover 4, and one of 9 was heard before. */
static enum redis_elected ask_older(struct redis_election *election, int answers, int64_t now_ms) {
    redis_election_begin(election);
    for (int i = 0; i < answers; i++)
        hear(election, 4, 1, 0);
    return end(election, now_ms);
}

static void test_older(void) {
    struct redis_election election = {.epoch = 9};
    CHECK_INT(ask_older(&election, 2, 1000), REDIS_ELECTION_OLDER);
    CHECK_INT(ask_older(&election, 2, 1000 + OLDER_MS - 1), REDIS_ELECTION_OLDER);
    CHECK_INT(election.epoch, 9);
    CHECK_INT(ask_older(&election, 2, 1000 + OLDER_MS), REDIS_ELECTED); /* they were made anew */
    CHECK_INT(election.epoch, 4);
    CHECK_INT(election.older_since_ms, 0);
    election.epoch = 9;
    CHECK_INT(ask_older(&election, SENTINELS, 1), REDIS_ELECTED); /* all say so */
    CHECK_INT(election.epoch, 4);
}

/* A minority may be cut off: the time starts anew with each of its answers. */
static void test_older_minority(void) {
    struct redis_election election = {.epoch = 9};
    for (int i = 0; i < 5; i++)
        CHECK_INT(ask_older(&election, 1, 1 + i * (OLDER_MS + 1)), REDIS_ELECTION_OLDER);
    int64_t last_ms = 1 + 4 * (OLDER_MS + 1);
    CHECK_INT(ask_older(&election, 2, last_ms + OLDER_MS - 1), REDIS_ELECTION_OLDER);
    CHECK_INT(ask_older(&election, 2, last_ms + OLDER_MS), REDIS_ELECTED);
}

/* A newer answer in between ends it. */
static void test_newer_again(void) {
    struct redis_election election = {.epoch = 9};
    CHECK_INT(ask_older(&election, 2, 1), REDIS_ELECTION_OLDER);
    redis_election_begin(&election);
    hear(&election, 9, 3, 0);
    CHECK_INT(end(&election, 2), REDIS_ELECTED);
    CHECK_INT(ask_older(&election, 2, OLDER_MS + 3), REDIS_ELECTION_OLDER);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the state that a Sentinel tells", test_state);
    harness_run("the address that a Sentinel tells", test_address);
    harness_run("the newest answer counts", test_newest_counts);
    harness_run("no answer", test_silent);
    harness_run("one replaces the master", test_replacing);
    harness_run("older answers", test_older);
    harness_run("older answers of a minority", test_older_minority);
    harness_run("a newer answer again", test_newer_again);
    return harness_finish();
}
