#include "service/terms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/worker.h"

struct terms_look {
    struct terms_look *next; /* under way for the same worker, a few at most */
    struct worker *worker;
    struct terms_wait *first;
    char item[INVENTORY_NAME_MAX + 1];
};

static void on_item(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    struct terms_look *look = ctx, **at = &look->worker->looks;
    while (*at != look)
        at = &(*at)->next;
    *at = look->next;
    for (struct terms_wait *wait = look->first, *next; wait; wait = next) {
        next = wait->next;
        wait->done(wait, status == INVENTORY_OK ? item : NULL);
    }
    free(look);
}

void terms_read(struct worker *worker, const char *item, struct terms_wait *wait) {
    struct terms_look *look = worker->looks;
    while (look && strcmp(look->item, item) != 0)
        look = look->next;
    if (look) {
        wait->next = look->first;
        look->first = wait;
        return;
    }
    wait->next = NULL;
    if (!worker->inventory || !(look = calloc(1, sizeof *look))) {
        wait->done(wait, NULL);
        return;
    }
    look->worker = worker;
    look->first = wait;
    snprintf(look->item, sizeof look->item, "%s", item);
    look->next = worker->looks;
    worker->looks = look;
    inventory_item_get(worker->inventory, item, on_item, look);
}
