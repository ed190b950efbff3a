#include "loadtest/judge/answer_body.h"

#include <string.h>

struct cursor {
    const char *at;
    const char *end;
};

static void body_skip_space(struct cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool body_take(struct cursor *c, char wanted) {
    body_skip_space(c);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

/* Takes a string. `text` is the part between the quotes, with its escapes. */
static bool body_take_string(struct cursor *c, struct body_text *text) {
    if (!body_take(c, '"'))
        return false;
    text->bytes = c->at;
    while (c->at < c->end && *c->at != '"')
        c->at += *c->at == '\\' && c->end - c->at > 1 ? 2 : 1;
    if (c->at == c->end)
        return false;
    text->length = (size_t)(c->at - text->bytes);
    c->at++;
    return true;
}

/* Takes a number, word, array or object: everything up to the comma, brace or space that ends it, outside of
 * any brackets within it. */
static bool body_take_other(struct cursor *c, struct body_text *value) {
    unsigned depth = 0;
    value->bytes = c->at;
    while (c->at < c->end) {
        struct body_text ignored;
        char byte = *c->at;
        if (depth == 0 && (byte == ',' || byte == '}' || byte == ' ' || byte == '\n' || byte == '\r'))
            break;
        if (byte == '"') {
            if (!body_take_string(c, &ignored))
                return false;
            continue;
        }
        if (byte == '{' || byte == '[') {
            depth++;
        } else if (byte == '}' || byte == ']') {
            if (depth == 0)
                return false;
            depth--;
        }
        c->at++;
    }
    value->length = (size_t)(c->at - value->bytes);
    return depth == 0 && value->length > 0;
}

/* FNV-1a */
static uint64_t body_hash(uint64_t seed, struct body_text text) {
    uint64_t h = seed ^ UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < text.length; i++)
        h = (h ^ (unsigned char)text.bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* 0 unless the text is a whole number of at most 19 digits. */
static uint64_t body_to_number(struct body_text digits) {
    uint64_t number = 0;
    for (size_t i = 0; i < digits.length; i++) {
        if (digits.bytes[i] < '0' || digits.bytes[i] > '9' || i > 18)
            return 0;
        number = number * 10 + (uint64_t)(digits.bytes[i] - '0');
    }
    return number;
}

bool body_text_equals(struct body_text a, struct body_text b) {
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

bool body_text_is(struct body_text text, const char *word) {
    return body_text_equals(text, (struct body_text){word, strlen(word)});
}

/* Keeps a member, if it is one of those in struct body. Of a problem's type only the last path segment. */
static void body_note_string(struct body *body, struct body_text name, struct body_text value) {
#define MEMBER(member)                                                                                       \
    { {#member, sizeof #member - 1}, offsetof(struct body, member) }
    static const struct {
        struct body_text name;
        size_t offset;
    } members[] = {MEMBER(order), MEMBER(basket), MEMBER(transfer), MEMBER(type), MEMBER(item),
                   MEMBER(user),  MEMBER(state),  MEMBER(from),     MEMBER(to)};
#undef MEMBER
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (body_text_equals(members[i].name, name)) {
            struct body_text *text = (struct body_text *)(void *)((char *)body + members[i].offset);
            const char *slash = text == &body->type ? memrchr(value.bytes, '/', value.length) : NULL;
            const char *from = slash ? slash + 1 : value.bytes;
            *text = (struct body_text){from, value.length - (size_t)(from - value.bytes)};
            return;
        }
    }
}

/* Whether it may differ between two answers to one key: what becomes of an order after it was made. */
static bool body_may_change(struct body_text name) {
    static const char *const names[] = {"state",   "version",  "expires_at", "settled_at",
                                        "payment", "returned", "late",       "refund_due"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (body_text_is(name, names[i]))
            return true;
    }
    return false;
}

static bool body_read_member(struct cursor *c, struct body *body) {
    struct body_text name;
    struct body_text value;
    if (!body_take_string(c, &name) || !body_take(c, ':'))
        return false;
    body_skip_space(c);
    bool string = c->at < c->end && *c->at == '"';
    if (!(string ? body_take_string(c, &value) : body_take_other(c, &value)))
        return false;
    if (!string && value.bytes[0] == '[' && body_text_is(name, "orders")) {
        body->orders = (struct body_text){value.bytes + 1, value.length - 2};
        return true;
    }
    if (!body_may_change(name))
        body->content += body_hash(body_hash(string, name), value);
    if (string)
        body_note_string(body, name, value);
    else if (body_text_is(name, "quantity"))
        body->quantity = body_to_number(value);
    return true;
}

static bool body_read_object(struct cursor *c, struct body *body) {
    if (!body_take(c, '{'))
        return false;
    if (body_take(c, '}'))
        return true;
    do {
        if (!body_read_member(c, body))
            return false;
    } while (body_take(c, ','));
    return body_take(c, '}');
}

bool body_read(const char *bytes, size_t length, struct body *body) {
    struct cursor c = {.at = bytes, .end = bytes + length};
    struct body found = {.content = 0};
    bool good = body_read_object(&c, &found);
    body_skip_space(&c);
    if (!good || c.at != c.end)
        return false;
    *body = found;
    return true;
}

bool body_next_order(struct body_text *orders, struct body *order) {
    struct body found = {.content = 0};
    struct cursor c = {.at = orders->bytes, .end = orders->bytes + orders->length};
    if (!body_read_object(&c, &found))
        return false;
    body_take(&c, ',');
    *orders = (struct body_text){c.at, (size_t)(c.end - c.at)};
    *order = found;
    return true;
}

bool body_id_usable(struct body_text id) {
    for (size_t i = 0; i < id.length; i++) {
        if (id.bytes[i] <= ' ' || id.bytes[i] > '~' || strchr("\"\\/?#%", id.bytes[i]) != NULL)
            return false;
    }
    return id.length > 0 && id.length <= 255;
}
