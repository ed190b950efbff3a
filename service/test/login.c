#include "service/test/login.h"

#include <jwt.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "test/harness.h"

#define FAR "4102444800" /* the year 2100 */

static const char *path_of(const char *name) {
    return harness_format("%s/%s", harness_dir(), name);
}

const char *login_write(const char *name, const char *text) {
    const char *path = path_of(name), *fresh = harness_format("%s.fresh", path);
    FILE *file = fopen(fresh, "we");
    CHECK(file != NULL);
    CHECK_INT(chmod(fresh, 0600), 0);
    fputs(text, file);
    bool closed = fclose(file) == 0;
    CHECK(closed);
    CHECK_INT(rename(fresh, path), 0);
    return path;
}

const char *login_read(const char *name) {
    char *text = harness_alloc(1 << 16);
    FILE *file = fopen(path_of(name), "re");
    CHECK(file != NULL);
    text[fread(text, 1, (1 << 16) - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* ---- keys ---- */

static const char *base64url(const void *bytes, size_t length) {
    size_t size = sodium_base64_ENCODED_LEN(length, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    return sodium_bin2base64(harness_alloc(size), size, bytes, length,
                             sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

const char *login_key_line(const char *kid, const char *secret) {
    return harness_format("%s HS256 %s\n", kid, base64url(secret, strlen(secret)));
}

const char *login_token_line(const char *name, const char *role, const char *token, const char *rest) {
    unsigned char digest[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof digest + 1];
    const char *whole = harness_format("%s-%s", name, token);
    crypto_hash_sha256(digest, (const unsigned char *)whole, strlen(whole));
    return harness_format("%s %s %s%s\n", name, role, sodium_bin2hex(hex, sizeof hex, digest, sizeof digest),
                          rest);
}

static void run(const char *command) {
    struct proc proc;
    int status = -1;
    proc_spawn(&proc, (const char *const[]){"sh", "-c", command, NULL}, NULL, path_of("openssl.log"));
    CHECK(proc_wait(&proc, 60000, &status));
    if (status != 0)
        FAIL("%s: %s", command, proc_output(&proc));
}

void login_make_keys(const char *name, const char *kind) {
    const char *options = strcmp(kind, "ES256") == 0   ? "-algorithm EC -pkeyopt ec_paramgen_curve:P-256"
                          : strcmp(kind, "RS256") == 0 ? "-algorithm RSA -pkeyopt rsa_keygen_bits:2048"
                                                       : kind;
    const char *at = path_of(name);
    run(harness_format(
        "openssl genpkey %s -out %s.key 2>/dev/null && openssl pkey -in %s.key -pubout -out %s.pem", options,
        at, at, at));
}

/* ---- tickets ---- */

const char *login_sign(const char *algorithm, const char *kid, const char *key, const char *claims) {
    jwt_t *jwt;
    CHECK_INT(jwt_new(&jwt), 0);
    CHECK_INT(jwt_add_grants_json(jwt, claims), 0);
    if (kid)
        CHECK_INT(jwt_add_header(jwt, "kid", kid), 0);
    CHECK_INT(jwt_set_alg(jwt, jwt_str_alg(algorithm), (const unsigned char *)key, (int)strlen(key)), 0);
    char *text = jwt_encode_str(jwt);
    CHECK(text != NULL);
    const char *ticket = harness_format("%s", text);
    free(text);
    jwt_free(jwt);
    return ticket;
}

const char *login_forge(const char *head, const char *claims, const void *secret, size_t length) {
    unsigned char mac[crypto_auth_hmacsha256_BYTES];
    crypto_auth_hmacsha256_state state;
    const char *text =
        harness_format("%s.%s", base64url(head, strlen(head)), base64url(claims, strlen(claims)));
    crypto_auth_hmacsha256_init(&state, secret, length);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)text, strlen(text));
    crypto_auth_hmacsha256_final(&state, mac);
    return harness_format("%s.%s", text, base64url(mac, sizeof mac));
}

const char *login_ticket_with(const char *user, const char *more) {
    return login_sign("HS256", LOGIN_KID, LOGIN_SECRET,
                      harness_format("{\"sub\":\"%s\",\"exp\":" FAR "%s}", user, more));
}

const char *login_ticket(const char *user) {
    return login_ticket_with(user, "");
}

const char *login_bearer(const char *credential) {
    return harness_format("Authorization: Bearer %s\r\n", credential);
}
