/* A fencing token as the scripts take it: EPOCH:FENCE, each with leading zeros, so that the order of the
 * texts is the order of the tokens. */
#ifndef INVENTORY_MODEL_FENCING_TOKEN_H
#define INVENTORY_MODEL_FENCING_TOKEN_H

#include <stdio.h>

#include "inventory/inventory.h"

enum { FENCING_TOKEN_SIZE = 42 };

static inline void fencing_token_print(char out[FENCING_TOKEN_SIZE],
                                       const struct inventory_fencing_token *token) {
    snprintf(out, FENCING_TOKEN_SIZE, "%020llu:%020llu", (unsigned long long)token->epoch,
             (unsigned long long)token->fence);
}

#endif
