/* The shop's login, for tests: makes keys, writes files of credentials, and signs tickets. */
#ifndef SERVICE_TEST_LOGIN_H
#define SERVICE_TEST_LOGIN_H

#include <stddef.h>

/* The HS256 key of login_ticket(). */
#define LOGIN_KID    "login-1"
#define LOGIN_SECRET "a secret of no less than 32 bytes"

/* Writes a file of mode 0600 into harness_dir(), in one step. Returns its path. */
const char *login_write(const char *name, const char *text);

/* A line of the file of keys, with this HS256 secret. */
const char *login_key_line(const char *kid, const char *secret);
/* A line of the file of tokens: the token is NAME, a dash, and `token`. `rest`: what stands behind the
 * digest. */
const char *login_token_line(const char *name, const char *role, const char *token, const char *rest);

/* Has openssl make NAME.key and NAME.pem, the public one, in harness_dir(). `kind`: "ES256", "RS256", or what
 * `openssl genpkey` takes. */
void login_make_keys(const char *name, const char *kind);
/* The text of a file in harness_dir(). */
const char *login_read(const char *name);

/* A ticket with these claims, signed by libjwt; `key`: a secret, or a private key as PEM text. */
const char *login_sign(const char *algorithm, const char *kid, const char *key, const char *claims);
/* Any head and claims as text, with an HMAC by any secret. */
const char *login_forge(const char *head, const char *claims, const void *secret, size_t length);
/* A good ticket of this user, by LOGIN_SECRET. */
const char *login_ticket(const char *user);
/* The same with more claims, as text: ",\"nbf\":1". */
const char *login_ticket_with(const char *user, const char *more);
/* "Authorization: Bearer …\r\n" */
const char *login_bearer(const char *credential);

#endif
