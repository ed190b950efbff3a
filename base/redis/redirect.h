/* What an error means for the call that met it. Pure; the text may be garbage.
 *
 * | error                               | meaning           | what the driver does                          |
 * |-------------------------------------|-------------------|-----------------------------------------------|
 * | NOSCRIPT                            | REDIS_NO_SCRIPT   | sends the text of the script, then the call   |
 * | MOVED SLOT HOST:PORT                | REDIS_MOVED       | sends it there, and reads the map of slots    |
 * | ASK SLOT HOST:PORT                  | REDIS_ASK         | sends it there after ASKING, this time only   |
 * | TRYAGAIN, CLUSTERDOWN, LOADING      | REDIS_LATER       | of a cluster: sends it again after a pause    |
 * | READONLY, also within that of a     | REDIS_IS_REPLICA  | leaves the connection, since the name may     |
 * | script (Redis 6); MASTERDOWN        |                   | mean another server by now; of a cluster also |
 * |                                     |                   | as REDIS_LATER                                |
 * | any other                           | REDIS_REFUSED     | hands it to the caller                        |
 *
 * With each but the last the call was not carried out, so that it may be sent again. */
#ifndef BASE_REDIS_REDIRECT_H
#define BASE_REDIS_REDIRECT_H

#include "base/redis/slots.h"

enum redis_meaning {
    REDIS_REFUSED,
    REDIS_NO_SCRIPT,
    REDIS_MOVED,
    REDIS_ASK,
    REDIS_LATER,
    REDIS_IS_REPLICA,
};

struct redis_redirect {
    int slot;
    struct redis_address to;
};

/* `redirect` is set for REDIS_MOVED and REDIS_ASK alone, and may be NULL. An empty host there is `asked`. A
 * redirection that makes no sense is REDIS_REFUSED. */
enum redis_meaning redis_error_read(const char *error, const char *asked, struct redis_redirect *redirect);

#endif
