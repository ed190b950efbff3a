/* The service's credentials as a test opens them: from two files, by a clock that the test turns. */
#ifndef SERVICE_TEST_OPENED_AUTH_H
#define SERVICE_TEST_OPENED_AUTH_H

#include "service/auth/auth_internal.h"

/* By this clock credentials grow old. */
extern const struct clock auth_clock;
void auth_turn_to(const char *instant);

/* What auth_open_files() opens. */
extern struct auth *auth;
extern struct auth_view *view;
extern struct caller caller; /* of the last call of identify() */

#define SOON "1893456060" /* a minute after auth_open_files() */

/* It is the first second of 2030. The files have these texts; NULL: there is no such file. Closed with the
 * test. */
void auth_open_files(const char *tokens, const char *keys);

const char *identify(const char *credential);
/* The credential gives these roles and this name or user. */
void check_caller(const char *credential, unsigned roles, const char *name, const char *user);
void check_refused(const char *credential, const char *piece);

/* The text of a file of keys: LOGIN_KID, ec and rsa, which login_make_keys() has made. */
const char *auth_all_keys(void);

#endif
