/* The token of admin calls, if the operator has chosen none: without a token the calls would not be
 * protected. */
#ifndef SERVICE_ADMIN_TOKEN_H
#define SERVICE_ADMIN_TOKEN_H

#include "service/config.h"

/* Makes up a token. */
void admin_token_make(char token[CONFIG_TEXT]);

/* Keeps it in a file that only this user can read, and logs where that is: the log itself is read by many. A
 * terminal has it shown, too. To be called once this process serves `listen`, so that it takes no other's
 * file. */
void admin_token_keep(const char *token, const char *listen);

#endif
