/* The terms of a sale, and why they refuse. */
#ifndef INVENTORY_MODEL_TERMS_H
#define INVENTORY_MODEL_TERMS_H

#include "inventory/inventory.h"

/* OK, NOT_STARTED or ENDED; a bound of 0 is none. */
enum inventory_status terms_judge_time(int64_t now_ms, int64_t starts_ms, int64_t ends_ms);
/* The status for a script's word that refuses a line; false: the word is unknown. */
bool terms_refusal(const char *word, enum inventory_status *status);

#endif
