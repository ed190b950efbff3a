/* Which master do these answers of Sentinels name? Pure.
 *
 * - A Sentinel may not have heard of a failover yet. So all are asked at once, and the answer with the
 *   highest config epoch counts: Sentinels count failovers by it.
 * - While one of them replaces the master (failover_in_progress, and it still names the old one), nobody
 *   is elected: the old master may be back, and take writes that its successor will not have.
 * - An answer that is older than what was heard before does not count: those who have heard of the
 *   failover may be cut off. It does count if all Sentinels say so, or if at least half of them have said
 *   so for REDIS_OLDER_MS: then they were made anew.
 *
 * That the elected server is a master is for the driver to check. */
#ifndef BASE_REDIS_ELECTION_H
#define BASE_REDIS_ELECTION_H

#include "base/redis/slots.h"

/* What one Sentinel says. Its state (SENTINEL MASTER) has the old master's address until a failover has
 * ended, and the new epoch from the moment on that the replica is promoted: so the address is asked for by a
 * question of its own (SENTINEL GET-MASTER-ADDR-BY-NAME), after the state. */
struct redis_vote {
    int64_t epoch;                /* of the newest failover that it has heard of; 0: it does not say */
    struct redis_address leaving; /* the master that it replaces now; port 0: none */
    struct redis_address master;
};

/* Reads the reply to SENTINEL MASTER; NULL or an error tells nothing. */
void redis_vote_read_state(struct redis_vote *vote, const struct redis_value *state);
/* Reads the reply to SENTINEL GET-MASTER-ADDR-BY-NAME. NULL, or why it names no master; `reply` NULL: the
 * connection broke. The text lives as long as the reply. */
const char *redis_vote_read_master(struct redis_vote *vote, const struct redis_value *reply);

/* All 0 at first. */
struct redis_election {
    int64_t epoch;          /* of the newest failover that was heard of, in any round */
    int64_t older_since_ms; /* since when all answers have been older; 0: they are not */
    /* Of this round: */
    int answers;
    bool replacing;
    struct redis_vote best;
};

enum redis_elected {
    REDIS_ELECTED,            /* `best.master` is the master */
    REDIS_ELECTION_REPLACING, /* a Sentinel replaces the master */
    REDIS_ELECTION_OLDER,     /* the answers are older than what was heard before */
    REDIS_ELECTION_SILENT,    /* there is no answer */
};

void redis_election_begin(struct redis_election *election);
void redis_election_add(struct redis_election *election, const struct redis_vote *vote);
/* `asked`: how many Sentinels there are. */
enum redis_elected redis_election_end(struct redis_election *election, int asked, int64_t now_ms);

/* The reason why nobody is elected, for people. */
const char *redis_elected_text(enum redis_elected elected);

#endif
