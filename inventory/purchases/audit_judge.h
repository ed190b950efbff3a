/* What the pages of an audit come to: counts, and how far they must agree. */
#ifndef INVENTORY_PURCHASES_AUDIT_JUDGE_H
#define INVENTORY_PURCHASES_AUDIT_JUDGE_H

#include "base/redis/async/connection.h"
#include "inventory/inventory.h"

/* What is read at one moment. */
struct audit_moment {
    struct inventory_item item;
    int64_t returned; /* units of orders that hold none any more */
    int64_t records;  /* in the hash of orders */
    int64_t holds;    /* in the expiry list */
};

struct audit_count {
    struct audit_moment first, last; /* before the pages, and after them */
    struct inventory_audit audit;
    int64_t records, units; /* of all states */
    /* Sums over users that agree only if every user's units do (but for one chance in 2^64): each unit counts
     * as its user's hash, under a key that nobody can choose users by. */
    unsigned char key[16];
    uint64_t by_orders, by_counters;
};

void audit_count_init(struct audit_count *count);
/* A page of HSCAN: field, value, field, value ... */
void audit_count_orders(struct audit_count *count, const struct redis_value *page);
void audit_count_users(struct audit_count *count, const struct redis_value *page);
/* Fills in the rest of count->audit. False: what was read does not belong together, since the item was made
 * anew meanwhile, or records were removed. */
bool audit_judge(struct audit_count *count);

#endif
