/* Clients who do everything that the shop offers, at random, and keep what they were told: purchases, holds,
 * confirms, cancels, baskets, transfers, restocks, and retries with right and wrong bodies. At the end all of
 * it is compared with the books. */
#ifndef SERVICE_TEST_CAMPAIGN_H
#define SERVICE_TEST_CAMPAIGN_H

#include "test/harness.h"

enum { CAMPAIGN_SERVICES = 2, CAMPAIGN_ITEMS = 6 };

struct campaign;

struct campaign_result {
    int asked, acknowledged; /* what was asked for, and what of it was done */
    int lost, told; /* of that, what is not in the books as it was acknowledged; and of that, by name */
    char last_told[512];
    char first[512]; /* the first that is lost and was not told, or other books that are wrong */
};

/* The name of an item. */
const char *campaign_item(int i);
/* Puts the items on sale, and begins. The services must be ready. `may_miss`: what was acknowledged by an
 * instance that stands still may be missing until that goes on; at the end it must be there. */
struct campaign *campaign_start(const struct seckilld services[CAMPAIGN_SERVICES], uint64_t seed,
                                bool may_miss);
/* How many answers there were so far, other than 503; and how many attempts, with and without an answer. */
int campaign_answers(const struct campaign *campaign);
int campaign_attempts(const struct campaign *campaign);
/* No client asks for anything any more: each was told something that must not be. */
bool campaign_has_ended(const struct campaign *campaign);
/* Ends it: each client has the last answer to what it asked for. The services must be ready again. */
void campaign_stop(struct campaign *campaign);
/* The server that has the key now. */
typedef const struct redis_server *campaign_find_fn(void *ctx, const char *key);
void campaign_judge(struct campaign *campaign, campaign_find_fn *find, void *ctx,
                    struct campaign_result *result);

#endif
