/* The token of admin calls. */
#ifndef SERVICE_ADMIN_TOKEN_H
#define SERVICE_ADMIN_TOKEN_H

#include <stdbool.h>

struct service;
struct http_request;

enum { ADMIN_DIGEST_SIZE = 32 };

/* Sets the digest of the configured token. If the operator has chosen none, makes one up and returns true:
 * without a token the admin calls would not be protected. */
bool admin_token_init(struct service *service);
/* Keeps a made-up token in a file that only this user can read, and logs its path: many read the log itself.
 * A terminal shows the token, too. To be called once this process serves `listen`, so that it takes no other
 * process's file. */
void admin_token_keep(const char *token, const char *listen);
/* Whether the request bears the token. */
bool admin_token_is_in(const struct service *service, const struct http_request *request);

#endif
