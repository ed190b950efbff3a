#include <stdio.h>
#include <string.h>

#include "loadtest/plan/item.h"

uint32_t item_count(const struct options *options) {
    return options->items > 0 ? options->items : 1;
}

void item_name(const struct options *options, uint32_t item, char name[ITEM_NAME]) {
    if (options->items > 0)
        snprintf(name, ITEM_NAME, "%s-%u", options->item, item);
    else
        snprintf(name, ITEM_NAME, "%s", options->item);
}

bool item_is(const struct options *options, uint32_t item, const char *text, size_t length) {
    char name[ITEM_NAME];
    item_name(options, item, name);
    return strlen(name) == length && memcmp(name, text, length) == 0;
}
