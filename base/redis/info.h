/* What the text of INFO says. Pure. */
#ifndef BASE_REDIS_INFO_H
#define BASE_REDIS_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies the value of "name:"; false if there is none. */
bool info_find(const char *info, const char *name, char *out, size_t out_size);

enum { REPLICATION_ID_SIZE = 41 };

/* A server's history: all that was written there, in order. Its id changes when a replica is promoted and
 * when a server restarts; a server that is a replica has its master's. So a write that was answered between
 * two moments at which a master had one id is in that history, below the offset of the second moment. */
struct replication {
    bool is_master;
    char id[REPLICATION_ID_SIZE];
    int64_t offset;                   /* bytes written so far */
    char before[REPLICATION_ID_SIZE]; /* the history that it goes on from; "": none */
    int64_t parted;                   /* what `before` had from this offset on is not in it */
    int replicas;                     /* that are connected and follow */
    int connected;                    /* these, and those that still get their copy */
};

/* Reads INFO replication; false if it says less than that. */
bool replication_read(struct replication *replication, const char *info);
/* How many replicas, of those that are connected and follow, have told that they have all up to this offset.
 */
int replication_count(const char *info, int64_t offset);

#endif
