/* Which item a purchase is of: --item NAME itself, or with --items N one of NAME-0 to NAME-(N-1). */
#ifndef LOADTEST_ITEM_H
#define LOADTEST_ITEM_H

#include <stdint.h>

#include "loadtest/options.h"

#define ITEM_NAME (OPTIONS_ITEM + 1) /* with its NUL */

uint32_t item_count(const struct options *options);

/* The number of the item that a key buys, below item_count: the same whenever it is asked, so that no line of
 * the ledger stores it and a duplicate buys what its original bought. */
uint32_t item_of_key(const struct options *options, uint32_t key);

void item_name(const struct options *options, uint32_t item, char name[ITEM_NAME]);

#endif
