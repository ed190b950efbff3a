/* The counts of an audit's pages, and the judgement whether they agree. */
#ifndef INVENTORY_PURCHASES_AUDIT_JUDGE_H
#define INVENTORY_PURCHASES_AUDIT_JUDGE_H

#include "base/redis/async/connection.h"
#include "inventory/inventory.h"

/* The counters as read at one moment. */
struct audit_moment {
    struct inventory_item item;
    int64_t returned; /* units of orders that hold none any more */
    int64_t fields;   /* fields of the item: each order is one, as is each user */
    int64_t holds;    /* in the list of holds */
};

struct audit_count {
    struct audit_moment first, last; /* before the pages, and after them */
    struct inventory_audit audit;
    int64_t fields, units; /* fields read; units of orders in all states */
    /* Sums over users, by orders and by counters. They agree only if every user's units do (but for one
     * chance in 2^64): each unit counts as the hash of its user, under a random key, so that nobody can
     * choose users that collide. */
    unsigned char key[16];
    uint64_t by_orders, by_counters;
};

void audit_count_init(struct audit_count *count);
/* A page of HSCAN: field, value, field, value ... (see stock.lua for the fields) */
void audit_count_page(struct audit_count *count, const struct redis_value *page);
/* Fills in the rest of count->audit. False: the counts do not belong together, since the item was made anew
 * meanwhile, or records were removed. */
bool audit_judge(struct audit_count *count);

#endif
