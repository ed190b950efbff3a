#include <stdio.h>

#include "loadtest/item.h"
#include "loadtest/random.h"

uint32_t item_count(const struct options *options) {
    return options->items > 0 ? options->items : 1;
}

uint32_t item_of_key(const struct options *options, uint32_t key) {
    uint64_t state = options->seed;
    state = random_next(&state) ^ key; /* not the sequence that the duplicates are chosen by */
    return (uint32_t)(random_next(&state) % item_count(options));
}

void item_name(const struct options *options, uint32_t item, char name[ITEM_NAME]) {
    if (options->items > 0) {
        snprintf(name, ITEM_NAME, "%s-%u", options->item, item);
    } else {
        snprintf(name, ITEM_NAME, "%s", options->item);
    }
}
