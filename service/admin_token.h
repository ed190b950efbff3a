/* The token that admin calls must bear, where nobody chose one: without one none of them would be protected.
 */
#ifndef SERVICE_ADMIN_TOKEN_H
#define SERVICE_ADMIN_TOKEN_H

#include "service/config.h"

/* Makes one up. */
void admin_token_make(char token[CONFIG_TEXT]);

/* Keeps it in a file that only this user can read, and logs where that is: the log itself is read by many. A
 * terminal has it shown, too. To be called once this process serves `listen`, so that it takes no other's
 * file. */
void admin_token_keep(const char *token, const char *listen);

#endif
