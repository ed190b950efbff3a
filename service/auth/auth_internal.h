/* What the files of this folder share, and their tests use. */
#ifndef SERVICE_AUTH_AUTH_INTERNAL_H
#define SERVICE_AUTH_AUTH_INTERNAL_H

#include <stdint.h>
#include <sys/stat.h>

#include "service/auth/auth.h"

/* ---- a file with a credential a line (credential_file.c) ---- */

enum { CREDENTIAL_FIELDS = 5, CREDENTIAL_FILE_MAX = 256 * 1024 };

struct credential_file {
    const char *path;
    char *text, *rest; /* the whole, and what is not read yet */
    size_t length;
    int line;                        /* of the fields, counted from 1 */
    int count;                       /* of the fields; CREDENTIAL_FIELDS: so many, or more */
    char *fields[CREDENTIAL_FIELDS]; /* without the blanks between them */
};

/* Reads a regular file of at most `max` bytes into `text`, which has one byte more, for a NUL. `forbidden`:
 * what its mode must not allow. `seen` gets its state before that. Returns its length; -1 on failure, with
 * the reason in `objection`. */
ssize_t credential_file_read(const char *path, mode_t forbidden, char *text, size_t max, struct stat *seen,
                             const char **objection);
/* Reads the file, which only this user may be able to read. `seen` gets its state before that. False on
 * failure, with the reason in `error`. */
bool credential_file_open(struct credential_file *file, const char *path, struct stat *seen, char *error,
                          size_t size);
/* Splits the next line that is neither empty nor a comment. False: there is none. */
bool credential_file_next(struct credential_file *file);
/* Writes PATH:LINE and what is wrong, and returns false. The text must quote nothing of the line, in which a
 * secret may stand at any place. */
__attribute__((format(printf, 4, 5))) bool credential_file_complain(const struct credential_file *file,
                                                                    char *error, size_t size,
                                                                    const char *format, ...);
/* Overwrites the text, and frees it. */
void credential_file_close(struct credential_file *file);

/* ---- tokens (tokens.c) ---- */

enum { TOKEN_DIGEST_SIZE = 32, TOKENS_MAX = 256 };

struct tokens;

void token_digest(unsigned char digest[TOKEN_DIGEST_SIZE], const char *token, size_t length);

/* Reads lines NAME ROLE SHA256 [NOT-AFTER]. NULL on failure, with the reason in `error`. */
struct tokens *tokens_read(struct credential_file *file, char *error, size_t size);
/* Gives the caller the roles of all lines with this digest that are not too old, and the name of the first.
 * False: there is none. */
bool tokens_find(const struct tokens *tokens, const unsigned char digest[TOKEN_DIGEST_SIZE], int64_t now_ms,
                 struct caller *caller);
void tokens_describe(const struct tokens *tokens, char *out, size_t size);
void tokens_free(struct tokens *tokens); /* NULL is fine */

/* ---- tickets (tickets.c): the only file that includes libjwt ---- */

enum { TICKET_MAX = 4096, TICKET_KEYS_MAX = 64, TICKET_KID_MAX = 128 };

/* What a ticket says, once its signature is verified. */
struct ticket {
    char user[INVENTORY_USER_MAX + 1];
    int64_t not_before_ms, expires_ms;
    bool has_items;
    size_t items_length;
    char items[TICKET_MAX]; /* a newline before and behind each name; "\n" is the empty list */
};

struct ticket_keys;

/* Reads lines KID HS256 SECRET and KID ES256|RS256 FILE.pem. NULL on failure, with the reason in `error`. */
struct ticket_keys *ticket_keys_read(struct credential_file *file, char *error, size_t size);
/* Verifies the ticket, all but its times. `text` has TICKET_MAX bytes at most, and a NUL. Returns NULL, or
 * why it is not good. */
const char *ticket_verify(const struct ticket_keys *keys, const char *text, struct ticket *ticket);
/* Returns NULL, or why the ticket is not good at this time. */
const char *ticket_check_time(int64_t not_before_ms, int64_t expires_ms, int64_t now_ms);
void ticket_keys_describe(const struct ticket_keys *keys, char *out, size_t size);
void ticket_keys_free(struct ticket_keys *keys); /* NULL is fine */

#endif
