/* Audits: all orders of an item, read page by page beside the sale. */
#ifndef INVENTORY_PURCHASES_AUDIT_H
#define INVENTORY_PURCHASES_AUDIT_H

#include "inventory/inventory.h"

struct purchases;

struct audit_run;

/* One page at a time, on connections of their own. */
struct audits {
    STAILQ_HEAD(audit_runs, audit_run) runs;
    bool running;         /* the first one's page is asked for, or will be after a pause */
    int waiting;          /* callers */
    struct router *store; /* NULL while there is no audit */
    int64_t asked_ms;     /* when a page was asked for last, or the store was opened */
    uv_timer_t pause;
    int64_t pause_ns; /* that is still to be made */
};

/* purchases->shared is set. */
void audit_init(struct purchases *purchases);
/* Ends audits that cannot be carried out. */
void audit_tick(struct purchases *purchases);
/* Ends all. */
void audit_close(struct purchases *purchases);

#endif
