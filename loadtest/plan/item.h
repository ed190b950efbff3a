/* Items by number. Without --items there is one, NAME; with --items N they are NAME-0 to NAME-(N-1). */
#ifndef LOADTEST_PLAN_ITEM_H
#define LOADTEST_PLAN_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadtest/options.h"

#define ITEM_NAME (OPTIONS_ITEM + 1) /* with its NUL */

uint32_t item_count(const struct options *options);

void item_name(const struct options *options, uint32_t item, char name[ITEM_NAME]);

/* True: `text` is the name of that item. */
bool item_is(const struct options *options, uint32_t item, const char *text, size_t length);

#endif
