/* Credentials, fed with anything: the first byte chooses what. A ticket that is changed is refused, whatever
 * the changes; so is any text that is not one of the good tickets. Files are read, or refused with the number
 * of a line. */
#include <stdlib.h>
#include <string.h>

#include "service/auth/auth_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* {"sub":"ann","exp":4102444800,"items":["lamp"]}, by the first key below, and the same by the second. */
#define HS_TICKET                                                                                            \
    "eyJhbGciOiJIUzI1NiIsImtpZCI6ImxvZ2luLTEiLCJ0eXAiOiJKV1QifQ."                                            \
    "eyJleHAiOjQxMDI0NDQ4MDAsIml0ZW1zIjpbImxhbXAiXSwic3ViIjoiYW5uIn0."                                       \
    "AynAI6OFhzodG6YAFbu20pTJh1mi5Oqc0kmvThulYJE"
#define ES_TICKET                                                                                            \
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImVjIiwidHlwIjoiSldUIn0."                                                   \
    "eyJleHAiOjQxMDI0NDQ4MDAsIml0ZW1zIjpbImxhbXAiXSwic3ViIjoiYW5uIn0."                                       \
    "g6X9qKw4385fIS7LuU2mB-v-pssTjUyYtibrGhIryjflE_RxxtGxICgpJAFRN7hYqOcu8MUQv-3BNsOvaMdWmw"
/* Its secret is "a secret of no less than 32 bytes"; the private key of the other was thrown away. */
#define HS_LINE "login-1 HS256 YSBzZWNyZXQgb2Ygbm8gbGVzcyB0aGFuIDMyIGJ5dGVz\n"

static const char *const tickets[] = {HS_TICKET, ES_TICKET};

static void must(bool holds) {
    if (!holds)
        abort();
}

/* A file as credential_file_open() leaves it. */
static bool file_fill(struct credential_file *file, const char *text, size_t length) {
    *file = (struct credential_file){.path = "service/test/corpus/keys", .length = length};
    file->text = file->rest = malloc(length + 1);
    if (!file->text)
        return false;
    memcpy(file->text, text, length);
    file->text[length] = '\0';
    return strlen(file->text) == length;
}

static struct ticket_keys *read_keys(const char *text, size_t length, char *error, size_t size) {
    struct credential_file file;
    struct ticket_keys *keys = NULL;
    *error = '\0';
    if (file_fill(&file, text, length)) {
        keys = ticket_keys_read(&file, error, size);
        must(keys || strncmp(error, "service/test/corpus/keys:", 25) == 0);
    }
    credential_file_close(&file);
    return keys;
}

static const struct ticket_keys *good_keys(void) {
    static struct ticket_keys *keys;
    static const char lines[] = HS_LINE "ec ES256 ticket-ec.pem\n";
    char error[400];
    if (!keys)
        keys = read_keys(lines, sizeof lines - 1, error, sizeof error);
    must(keys != NULL);
    return keys;
}

static void check_ticket(const char *text) {
    static struct ticket ticket;
    const char *why = ticket_verify(good_keys(), text, &ticket);
    bool good = strcmp(text, tickets[0]) == 0 || strcmp(text, tickets[1]) == 0;
    must((why == NULL) == good);
    if (good)
        must(strcmp(ticket.user, "ann") == 0 && ticket.expires_ms == 4102444800000 &&
             strcmp(ticket.items, "\nlamp\n") == 0);
}

/* Of a good ticket: each three bytes are an edit: what to do, where, and with what. */
static void fuzz_edits(const char *data, size_t size) {
    char text[1024];
    size_t length =
        strlen(strcpy(text, tickets[size % 2])); /* NOLINT(clang-analyzer-security.insecureAPI.strcpy) */
    for (; size >= 3; data += 3, size -= 3) {
        size_t at = ((unsigned char)data[1] | (size_t)(data[0] & 1) << 8) % length;
        switch (data[0] >> 1 & 3) {
        case 0: text[at] = data[2] ? data[2] : 'A'; break;
        case 1: text[at] ^= (char)(1 << (data[2] & 7)); break;
        case 2:
            if (length > 2)
                memmove(text + at, text + at + 1, length-- - at);
            break;
        default:
            if (length < sizeof text - 1)
                memmove(text + at + 1, text + at, ++length - at);
        }
        length = strlen(text);
        if (length == 0)
            return;
    }
    check_ticket(text);
}

static void fuzz_text(const char *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text || size > TICKET_MAX) {
        free(text);
        return;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    check_ticket(text);
    free(text);
}

static void fuzz_tokens(const char *data, size_t size) {
    struct credential_file file;
    struct tokens *tokens = NULL;
    char error[400] = "", said[600];
    if (file_fill(&file, data, size)) {
        tokens = tokens_read(&file, error, sizeof error);
        must(tokens || strncmp(error, "service/test/corpus/keys:", 25) == 0);
    }
    if (tokens)
        tokens_describe(tokens, said, sizeof said);
    tokens_free(tokens);
    credential_file_close(&file);
}

static void fuzz_keys(const char *data, size_t size) {
    char error[400], said[600];
    struct ticket_keys *keys = memchr(data, '/', size) ? NULL : read_keys(data, size, error, sizeof error);
    if (keys)
        ticket_keys_describe(keys, said, sizeof said);
    ticket_keys_free(keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const targets[])(const char *data, size_t size) = {fuzz_edits, fuzz_text, fuzz_tokens,
                                                                     fuzz_keys};
    if (size > 0)
        targets[(uint8_t)(data[0] - '0') % (sizeof targets / sizeof *targets)]((const char *)data + 1,
                                                                               size - 1);
    return 0;
}
