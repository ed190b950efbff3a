/* Tickets of buyers: JSON Web Tokens (RFC 7519), which libjwt decodes and verifies.
 *
 * libjwt takes the algorithm from the header of the ticket, which whoever calls has written. So a ticket is
 * decoded twice: first without a key, only to read the key's id and the algorithm; then with the key of that
 * id, if the algorithm is that of the key's line. Otherwise an RSA key, which is public, would be taken for
 * the secret of an HMAC, or no signature would be asked for at all ("none"). */
#include <ctype.h>
#include <errno.h>
#include <jwt.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/auth/auth_internal.h"

enum { SECRET_MIN = 32 /* RFC 7518, 3.2 */, SECRET_MAX = 512, PEM_MAX = 8192, PATH_SIZE = 1024 };

struct ticket_key {
    char kid[TICKET_KID_MAX + 1];
    jwt_alg_t algorithm;
    unsigned char *key; /* of HS256 the secret, else the public key as PEM text */
    int length;
};

/* Immutable once it is read. */
struct ticket_keys {
    int count;
    struct ticket_key keys[TICKET_KEYS_MAX];
};

static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Decodes a text as base64url has it, in no other way than the one: neither with other characters, nor with
 * bits that are over. libsodium 1.0.18 alone takes bytes beyond ASCII as well. */
static bool base64url_decode(const char *text, size_t length, unsigned char *out, size_t size,
                             size_t *bytes) {
    return strspn(text, base64url) >= length &&
           sodium_base642bin(out, size, text, length, NULL, bytes, NULL,
                             sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0;
}

/* ---- the file of keys ---- */

/* The beginning of a public key of the curve P-256, and that of an RSA key behind the lengths (RFC 5480, RFC
 * 3279). libjwt would notice a key of the wrong kind only when it is to verify a ticket. */
static const unsigned char of_p256[] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
                                        0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
                                        0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04},
                           of_rsa[] = {0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86,
                                       0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00};

enum { P256_SIZE = 91, RSA_BEGIN = 4, RSA_2048_SIZE = 290 };

/* Why the text is no public key for the algorithm; NULL: it is one. */
static const char *pem_objection(const char *text, jwt_alg_t algorithm) {
    static const char begin[] = "-----BEGIN PUBLIC KEY-----", end[] = "-----END PUBLIC KEY-----";
    unsigned char der[PEM_MAX];
    size_t length = 0;
    const char *body = strstr(text, begin), *stop = body ? strstr(body, end) : NULL;
    if (strstr(text, "PRIVATE KEY"))
        return "has a private key, which only the login needs: openssl pkey -pubout makes the public one";
    if (!stop ||
        sodium_base642bin(der, sizeof der, body + sizeof begin - 1, (size_t)(stop - body) - sizeof begin + 1,
                          " \t\r\n", &length, NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
        return "has no -----BEGIN PUBLIC KEY-----";
    if (algorithm == JWT_ALG_ES256)
        return length == P256_SIZE && memcmp(der, of_p256, sizeof of_p256) == 0
                   ? NULL
                   : "is no key of the curve P-256, which ES256 needs";
    if (length < RSA_BEGIN + sizeof of_rsa || memcmp(der + RSA_BEGIN, of_rsa, sizeof of_rsa) != 0)
        return "is no RSA key of 2048 bits or more, which RS256 needs";
    return length < RSA_2048_SIZE ? "is no RSA key of 2048 bits or more, which RS256 needs" : NULL;
}

/* Where the file of a key is: a relative path counts from the file of keys. */
static void pem_path(char path[PATH_SIZE], const char *keys_path, const char *name) {
    const char *slash = *name == '/' ? NULL : strrchr(keys_path, '/');
    snprintf(path, PATH_SIZE, "%.*s%s", slash ? (int)(slash - keys_path) + 1 : 0, keys_path, name);
}

static bool key_read_pem(const struct credential_file *file, struct ticket_key *key, char *error,
                         size_t size) {
    char path[PATH_SIZE], text[PEM_MAX];
    pem_path(path, file->path, file->fields[2]);
    struct stat seen;
    const char *objection = NULL;
    /* It is public, but whoever can write it can sign tickets for anybody. */
    if (credential_file_read(path, S_IWGRP | S_IWOTH, text, sizeof text - 1, &seen, &objection) < 0)
        return credential_file_complain(file, error, size, "FILE.pem: %s", objection);
    if ((objection = pem_objection(text, key->algorithm)))
        return credential_file_complain(file, error, size, "FILE.pem %s", objection);
    key->key = (unsigned char *)strdup(text);
    key->length = (int)strlen(text);
    return key->key || credential_file_complain(file, error, size, "out of memory");
}

static bool key_read_secret(const struct credential_file *file, struct ticket_key *key, char *error,
                            size_t size) {
    const char *text = file->fields[2];
    size_t length = strlen(text), bytes = 0;
    while (length > 0 && text[length - 1] == '=')
        length--;
    key->key = malloc(SECRET_MAX);
    if (!key->key)
        return credential_file_complain(file, error, size, "out of memory");
    if (!base64url_decode(text, length, key->key, SECRET_MAX, &bytes) || bytes < SECRET_MIN)
        return credential_file_complain(file, error, size,
                                        "SECRET must be %d to %d bytes in base64url (A-Z a-z 0-9 - _)",
                                        SECRET_MIN, SECRET_MAX);
    key->length = (int)bytes;
    return true;
}

static const struct ticket_key *keys_find(const struct ticket_keys *keys, const char *kid) {
    for (int i = 0; i < keys->count; i++)
        if (strcmp(keys->keys[i].kid, kid) == 0)
            return &keys->keys[i];
    return NULL;
}

static bool algorithm_find(const char *name, jwt_alg_t *algorithm) {
    static const jwt_alg_t taken[] = {JWT_ALG_HS256, JWT_ALG_ES256, JWT_ALG_RS256};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(jwt_alg_str(taken[i]), name) == 0) {
            *algorithm = taken[i];
            return true;
        }
    return false;
}

static bool keys_read_line(const struct credential_file *file, struct ticket_keys *keys, char *error,
                           size_t size) {
    const char *kid = file->fields[0];
    size_t length = strlen(kid);
    struct ticket_key *key = &keys->keys[keys->count];
    if (file->count != 3)
        return credential_file_complain(file, error, size,
                                        "a line is KID HS256 SECRET, or KID ES256|RS256 FILE.pem");
    for (size_t i = 0; i < length; i++)
        if (!isgraph((unsigned char)kid[i]) || length > TICKET_KID_MAX)
            return credential_file_complain(file, error, size, "KID must be 1 to %d visible ASCII",
                                            TICKET_KID_MAX);
    if (keys_find(keys, kid))
        return credential_file_complain(file, error, size, "another line has this KID; each needs its own");
    if (!algorithm_find(file->fields[1], &key->algorithm))
        return credential_file_complain(file, error, size, "the algorithm must be HS256, ES256 or RS256");
    memcpy(key->kid, kid, length + 1);
    keys->count++; /* so that a key of which only a part was read is freed, too */
    return key->algorithm == JWT_ALG_HS256 ? key_read_secret(file, key, error, size)
                                           : key_read_pem(file, key, error, size);
}

struct ticket_keys *ticket_keys_read(struct credential_file *file, char *error, size_t size) {
    struct ticket_keys *keys = calloc(1, sizeof *keys);
    bool good = keys;
    if (!keys)
        snprintf(error, size, "%.300s: out of memory", file->path);
    while (good && credential_file_next(file)) {
        if (keys->count == TICKET_KEYS_MAX)
            good =
                credential_file_complain(file, error, size, "there may be %d keys at most", TICKET_KEYS_MAX);
        else
            good = keys_read_line(file, keys, error, size);
    }
    if (good)
        return keys;
    ticket_keys_free(keys);
    return NULL;
}

void ticket_keys_describe(const struct ticket_keys *keys, char *out, size_t size) {
    size_t length = (size_t)snprintf(out, size, "%d key%s", keys->count, keys->count == 1 ? "" : "s");
    for (int i = 0; i < keys->count && length < size; i++)
        length += (size_t)snprintf(out + length, size - length, "%s%s (%s)", i ? ", " : ": ",
                                   keys->keys[i].kid, jwt_alg_str(keys->keys[i].algorithm));
}

void ticket_keys_free(struct ticket_keys *keys) {
    for (int i = 0; keys && i < keys->count; i++) {
        if (keys->keys[i].key)
            sodium_memzero(keys->keys[i].key, (size_t)keys->keys[i].length);
        free(keys->keys[i].key);
    }
    free(keys);
}

/* ---- a ticket ---- */

/* Whether the text is three parts of base64url. libjwt itself skips other characters, so that one signature
 * could be written in many ways. */
static bool ticket_has_form(const char *text) {
    unsigned char signature[TICKET_MAX];
    for (int dots = 0; dots < 2; dots++) {
        size_t length = strspn(text, base64url);
        if (length == 0 || text[length] != '.')
            return false;
        text += length + 1;
    }
    return *text && base64url_decode(text, strlen(text), signature, sizeof signature, NULL);
}

/* Reads a NumericDate (RFC 7519): a number, also one with a fraction. 1: it was read; 0: there is none; -1:
 * it is no such number. */
static int ticket_read_time(jwt_t *jwt, const char *claim, int64_t *ms) {
    const double last_s = 253402300800.0; /* the year 10000 */
    char *text = jwt_get_grants_json(jwt, claim), *end = text;
    if (!text)
        return 0;
    double seconds = isdigit((unsigned char)*text) ? strtod(text, &end) : 0;
    bool good = end > text && *end == '\0';
    free(text);
    if (good)
        *ms = (int64_t)(fmin(seconds, last_s) * 1000);
    return good ? 1 : -1;
}

/* Reads the list, as libjwt writes it: ["a","b"], without blanks. False: it is none, or has what is no item.
 */
static bool ticket_read_items(jwt_t *jwt, struct ticket *ticket) {
    char *text = jwt_get_grants_json(jwt, "items"), *at = text;
    ticket->has_items = text;
    ticket->items_length = 0;
    if (!text)
        return true;
    bool good = strlen(text) < sizeof ticket->items && *at++ == '[';
    ticket->items[ticket->items_length++] = '\n';
    while (good && *at == '"') {
        size_t length = strcspn(++at, "\"");
        good = inventory_name_valid(at, length);
        if (!good)
            break;
        memcpy(ticket->items + ticket->items_length, at, length);
        ticket->items_length += length;
        ticket->items[ticket->items_length++] = '\n';
        at += length + 1;
        at += *at == ',';
    }
    ticket->items[ticket->items_length] = '\0';
    good = good && strcmp(at, "]") == 0;
    free(text);
    return good;
}

static const char *ticket_read_claims(jwt_t *jwt, struct ticket *ticket) {
    const char *user = jwt_get_grant(jwt, "sub");
    if (!user || !inventory_user_valid(user, strlen(user)))
        return "the ticket's sub is no user";
    memcpy(ticket->user, user, strlen(user) + 1);
    if (ticket_read_time(jwt, "exp", &ticket->expires_ms) != 1)
        return "the ticket has no exp";
    ticket->not_before_ms = 0;
    if (ticket_read_time(jwt, "nbf", &ticket->not_before_ms) < 0)
        return "the ticket's nbf is no time";
    return ticket_read_items(jwt, ticket) ? NULL : "the ticket's items are no list of items";
}

static const char other_algorithm[] = "the ticket's alg is not that of its key";

/* Reads the head of a ticket that is not verified yet. Returns NULL, or why no key can verify it. */
static const char *ticket_choose_key(const struct ticket_keys *keys, const char *text,
                                     const struct ticket_key **key) {
    jwt_t *jwt = NULL;
    const char *why = NULL, *kid, *algorithm;
    if (jwt_decode(&jwt, text, NULL, 0) != 0)
        return "the ticket is no JSON Web Token";
    char *critical = jwt_get_headers_json(jwt, "crit");
    if (critical) /* what it names must be understood (RFC 7515, 4.1.11), and is not */
        why = "the ticket's crit is not understood";
    else if (!(kid = jwt_get_header(jwt, "kid")) || !(*key = keys_find(keys, kid)))
        why = "no key has the ticket's kid";
    else if (!(algorithm = jwt_get_header(jwt, "alg")) || /* without a key, jwt_get_alg() is none */
             strcmp(algorithm, jwt_alg_str((*key)->algorithm)) != 0)
        why = other_algorithm;
    free(critical);
    jwt_free(jwt);
    return why;
}

const char *ticket_verify(const struct ticket_keys *keys, const char *text, struct ticket *ticket) {
    const struct ticket_key *key;
    jwt_t *jwt = NULL;
    if (!ticket_has_form(text))
        return "the ticket is no JSON Web Token";
    const char *why = ticket_choose_key(keys, text, &key);
    if (why)
        return why;
    if (jwt_decode(&jwt, text, key->key, key->length) != 0)
        return "the ticket's signature is not of its key";
    why = jwt_get_alg(jwt) == key->algorithm ? ticket_read_claims(jwt, ticket) : other_algorithm;
    jwt_free(jwt);
    return why;
}

const char *ticket_check_time(int64_t not_before_ms, int64_t expires_ms, int64_t now_ms) {
    if (now_ms >= expires_ms)
        return "the ticket has expired";
    return now_ms < not_before_ms ? "the ticket is not valid yet" : NULL;
}
