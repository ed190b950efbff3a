#include "base/redis/election.h"

#include <stdlib.h>
#include <string.h>

static bool read_address(struct redis_address *address, const char *host, const char *port) {
    return *host && redis_address_read(address, host, strlen(host), strtol(port, NULL, 10), "");
}

void redis_vote_read_state(struct redis_vote *vote, const struct redis_value *state) {
    vote->epoch = state ? strtoll(redis_value_find(state, "config-epoch"), NULL, 10) : 0;
    vote->leaving.port = 0;
    if (state && strstr(redis_value_find(state, "flags"), "failover_in_progress"))
        read_address(&vote->leaving, redis_value_find(state, "ip"), redis_value_find(state, "port"));
}

const char *redis_vote_read_master(struct redis_vote *vote, const struct redis_value *reply) {
    if (!reply)
        return "the connection broke";
    if (redis_value_type(reply) == REDIS_ERROR)
        return redis_value_text(reply);
    if (redis_value_type(reply) == REDIS_NIL)
        return "No such master with that name";
    const char *host = redis_value_count(reply) == 2 ? redis_value_text(redis_value_at(reply, 0)) : NULL;
    const char *port = host ? redis_value_text(redis_value_at(reply, 1)) : NULL;
    return port && read_address(&vote->master, host, port) ? NULL : "it does not tell the master's address";
}

void redis_election_begin(struct redis_election *election) {
    election->answers = 0;
    election->replacing = false;
}

void redis_election_add(struct redis_election *election, const struct redis_vote *vote) {
    election->replacing |= redis_address_is_same(&vote->master, &vote->leaving);
    if (election->answers++ == 0 || vote->epoch > election->best.epoch)
        election->best = *vote;
}

/* A minority may be cut off: it does not start the time after which older answers are believed. */
static bool election_is_older(struct redis_election *election, int asked, int64_t now_ms) {
    if (2 * election->answers < asked)
        election->older_since_ms = 0;
    return election->answers < asked &&
           redis_epoch_is_older(election->best.epoch, election->epoch, &election->older_since_ms, now_ms);
}

enum redis_elected redis_election_end(struct redis_election *election, int asked, int64_t now_ms) {
    if (election->answers == 0)
        return REDIS_ELECTION_SILENT;
    if (election->replacing)
        return REDIS_ELECTION_REPLACING;
    if (election_is_older(election, asked, now_ms))
        return REDIS_ELECTION_OLDER;
    election->epoch = election->best.epoch;
    election->older_since_ms = 0;
    return REDIS_ELECTED;
}

const char *redis_elected_text(enum redis_elected elected) {
    static const char *const texts[] = {
        [REDIS_ELECTED] = "",
        [REDIS_ELECTION_REPLACING] = "the Sentinels are replacing the master",
        [REDIS_ELECTION_OLDER] = "the Sentinels that answer have not heard of the newest failover",
        [REDIS_ELECTION_SILENT] = "no Sentinel answers",
    };
    return texts[elected];
}
