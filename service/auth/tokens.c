/* Tokens: the file of them has digests only, so who reads it can call nothing. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/auth/auth_internal.h"
#include "service/rfc3339.h"

struct token {
    char name[INVENTORY_NAME_MAX + 1];
    unsigned role;
    unsigned char digest[TOKEN_DIGEST_SIZE];
    int64_t not_after_ms; /* 0: it never grows old */
};

/* Immutable once it is read. */
struct tokens {
    int count;
    struct token tokens[TOKENS_MAX];
};

/* Buyers have tickets, so no token has their role. */
static const struct {
    const char *name;
    enum role role;
} roles[] = {{"shop", ROLE_SHOP}, {"ops", ROLE_OPS}, {"read", ROLE_READ}};

enum { ROLE_NAMES = sizeof roles / sizeof *roles };

_Static_assert(TOKEN_DIGEST_SIZE == crypto_hash_sha256_BYTES, "the digest is a SHA-256");

void token_digest(unsigned char digest[TOKEN_DIGEST_SIZE], const char *token, size_t length) {
    crypto_hash_sha256(digest, (const unsigned char *)token, length);
}

static bool token_read_line(const struct credential_file *file, struct token *token, char *error,
                            size_t size) {
    char *const *fields = file->fields;
    size_t digits;
    int role = 0;
    if (file->count != 3 && file->count != 4)
        return credential_file_complain(file, error, size, "a line is NAME ROLE SHA256 [NOT-AFTER]");
    if (!inventory_name_valid(fields[0], strlen(fields[0])) || strcmp(fields[0], "admin") == 0)
        return credential_file_complain(
            file, error, size,
            "NAME must be 1 to %d of A-Z a-z 0-9 . _ - and not admin, which is the name of the admin token",
            INVENTORY_NAME_MAX);
    while (role < ROLE_NAMES && strcmp(roles[role].name, fields[1]) != 0)
        role++;
    if (role == ROLE_NAMES)
        return credential_file_complain(file, error, size, "ROLE must be shop, ops or read");
    if (sodium_hex2bin(token->digest, sizeof token->digest, fields[2], strlen(fields[2]), NULL, &digits,
                       NULL) != 0 ||
        digits != sizeof token->digest)
        return credential_file_complain(file, error, size,
                                        "SHA256 must be 64 hex digits, as of: printf %%s TOKEN | sha256sum");
    token->not_after_ms = 0;
    if (file->count == 4 && !rfc3339_read(fields[3], &token->not_after_ms))
        return credential_file_complain(file, error, size,
                                        "NOT-AFTER must be an RFC 3339 time such as 2030-01-31T20:00:00Z");
    if (file->count == 4 && token->not_after_ms == 0)
        token->not_after_ms = 1; /* 0 means: never */
    memcpy(token->name, fields[0], strlen(fields[0]) + 1);
    token->role = roles[role].role;
    return true;
}

struct tokens *tokens_read(struct credential_file *file, char *error, size_t size) {
    struct tokens *tokens = calloc(1, sizeof *tokens);
    bool good = tokens;
    if (!tokens)
        snprintf(error, size, "%.300s: out of memory", file->path);
    while (good && credential_file_next(file)) {
        if (tokens->count == TOKENS_MAX)
            good = credential_file_complain(file, error, size, "there may be %d tokens at most", TOKENS_MAX);
        else
            good = token_read_line(file, &tokens->tokens[tokens->count++], error, size);
    }
    if (good)
        return tokens;
    tokens_free(tokens);
    return NULL;
}

/* Compares with every digest, each in constant time: how long it takes tells nothing of them. */
bool tokens_find(const struct tokens *tokens, const unsigned char digest[TOKEN_DIGEST_SIZE], int64_t now_ms,
                 struct caller *caller) {
    for (int i = 0; i < tokens->count; i++) {
        const struct token *token = &tokens->tokens[i];
        if (sodium_memcmp(digest, token->digest, sizeof token->digest) != 0 ||
            (token->not_after_ms && now_ms > token->not_after_ms))
            continue;
        if (!caller->roles)
            memcpy(caller->name, token->name, sizeof caller->name);
        caller->roles |= token->role;
    }
    return caller->roles;
}

void tokens_describe(const struct tokens *tokens, char *out, size_t size) {
    size_t length = (size_t)snprintf(out, size, "%d token%s", tokens->count, tokens->count == 1 ? "" : "s");
    for (int i = 0; i < tokens->count && length < size; i++) {
        const struct token *token = &tokens->tokens[i];
        char until[RFC3339_SIZE] = "";
        int role = 0;
        while (roles[role].role != token->role)
            role++;
        if (token->not_after_ms)
            rfc3339_print(token->not_after_ms, until);
        length += (size_t)snprintf(out + length, size - length, "%s%s (%s%s%s)", i ? ", " : ": ", token->name,
                                   roles[role].name, *until ? " until " : "", until);
    }
}

void tokens_free(struct tokens *tokens) {
    free(tokens);
}
