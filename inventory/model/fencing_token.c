#include "inventory/model/fencing_token.h"

#include <stdio.h>

void fencing_token_print(char out[FENCING_TOKEN_SIZE], const struct inventory_fencing_token *token) {
    snprintf(out, FENCING_TOKEN_SIZE, "%020llu:%020llu", (unsigned long long)token->epoch,
             (unsigned long long)token->fence);
}
