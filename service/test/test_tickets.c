/* Tickets without a service: of each algorithm, of each time, and altered in each place. */
#include <stdio.h>
#include <string.h>

#include "service/test/login.h"
#include "service/test/opened_auth.h"
#include "test/harness.h"

/* ---- tickets that are taken ---- */

static void tickets_of_each_algorithm(void) {
    char said[600];
    const char *claims = "{\"sub\":\"auth0|ann+1=~:x@example.org\",\"exp\":" SOON ",\"more\":{\"a\":[1]}}",
               *user = "auth0|ann+1=~:x@example.org";
    auth_open_files(NULL, auth_all_keys());
    for (int i = 0; i < 2; i++) { /* the second time they are found again */
        check_caller(login_sign("HS256", LOGIN_KID, LOGIN_SECRET, claims), ROLE_BUYER, "", user);
        check_caller(login_sign("RS256", "rsa", login_read("rsa.key"), claims), ROLE_BUYER, "", user);
    }
    const char *ec = login_sign("ES256", "ec", login_read("ec.key"), claims);
    check_caller(ec, ROLE_BUYER, "", user);
    check_caller(ec, ROLE_BUYER, "", user);
    check_caller("the-admin-token", ROLES_ALL, "admin", "");
    CHECK(auth_identify(view, NULL, 0, &caller) == NULL); /* a call that needs a role is refused */
    CHECK_INT(caller.roles, 0);
    auth_describe(auth, AUTH_BUYER_KEYS, said, sizeof said);
    CHECK_HAS(said, "/keys has 3 keys: login-1 (HS256), ec (ES256), rsa (RS256)");
}

static void items_of_tickets(void) {
    static const struct {
        const char *more, *admits, *refuses;
    } rows[] = {
        {"", "lamp phone lamp2", ""},
        {",\"items\":[\"lamp\"]", "lamp", "phone lam amp lamp2 2lamp p"},
        {",\"items\":[\"lamp\",\"a.b_c-9\",\"lamp2\"]", "lamp lamp2 a.b_c-9", "phone a.b lamp3"},
        {",\"items\":[]", "", "lamp phone"},
        {",\"items\":[ \"\\u006camp\" ]", "lamp", "phone"},
    };
    auth_open_files(NULL, auth_all_keys());
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof *rows); i++) { /* each twice */
        char *admits = harness_format("%s", rows[i / 2].admits),
             *refuses = harness_format("%s", rows[i / 2].refuses);
        check_caller(login_ticket_with("ann", rows[i / 2].more), ROLE_BUYER, "", "ann");
        for (char *item; (item = strsep(&admits, " "));)
            CHECK(!*item || caller_may_buy(&caller, item));
        for (char *item; (item = strsep(&refuses, " "));)
            if (*item && caller_may_buy(&caller, item))
                FAIL("%s admits to %s", rows[i / 2].more, item);
    }
    /* As many as fit: they are not kept, but verified anew. */
    char *list = harness_format(",\"items\":[\"last\"");
    for (int i = 0; i < 40; i++)
        list = harness_format("%s,\"%s\"", list, harness_repeat((char)('a' + i % 26), 60));
    const char *ticket = login_ticket_with("ann", harness_format("%s]", list));
    for (int i = 0; i < 2; i++) {
        check_caller(ticket, ROLE_BUYER, "", "ann");
        CHECK(caller_may_buy(&caller, "last") && caller_may_buy(&caller, harness_repeat('z', 60)));
        CHECK(!caller_may_buy(&caller, "lamp"));
    }
}

/* By the clock, to the millisecond; also of a ticket that is known. */
static void times_of_tickets(void) {
    auth_open_files(NULL, auth_all_keys());
    const char *ticket = login_ticket_with("ann", ",\"nbf\":1893456000") /* 2030-01-01T00:00:00Z */,
               *brief = login_forge("{\"alg\":\"HS256\",\"kid\":\"" LOGIN_KID "\"}",
                                    "{\"sub\":\"ann\",\"exp\":1893456060.5,\"nbf\":1893456001}", LOGIN_SECRET,
                                    strlen(LOGIN_SECRET));
    for (int i = 0; i < 2; i++) {
        auth_turn_to("2029-12-31T23:59:59.999Z");
        check_refused(ticket, "not valid yet");
        auth_turn_to("2030-01-01T00:00:00Z");
        check_caller(ticket, ROLE_BUYER, "", "ann");
        check_refused(brief, "not valid yet");
        auth_turn_to("2030-01-01T00:00:01Z");
        check_caller(brief, ROLE_BUYER, "", "ann");
        auth_turn_to("2030-01-01T00:01:00.499Z");
        check_caller(brief, ROLE_BUYER, "", "ann");
        auth_turn_to("2030-01-01T00:01:00.500Z");
        check_refused(brief, "expired");
        check_caller(ticket, ROLE_BUYER, "", "ann");
        auth_turn_to("2100-01-01T00:00:00Z");
        check_refused(ticket, "expired");
    }
}

/* ---- tickets that are refused ---- */

#define HEAD(alg, kid) "{\"alg\":\"" alg "\",\"typ\":\"JWT\",\"kid\":\"" kid "\"}"

static const char *forge(const char *head, const char *claims) {
    return login_forge(head, claims, LOGIN_SECRET, strlen(LOGIN_SECRET));
}

static void claims_that_are_refused(void) {
    static const struct {
        const char *claims, *piece;
    } rows[] = {
        {"{\"sub\":\"ann\"}", "no exp"},
        {"{\"sub\":\"ann\",\"exp\":\"" SOON "\"}", "no exp"},
        {"{\"sub\":\"ann\",\"exp\":null}", "no exp"},
        {"{\"sub\":\"ann\",\"exp\":true}", "no exp"},
        {"{\"sub\":\"ann\",\"exp\":[" SOON "]}", "no exp"},
        {"{\"sub\":\"ann\",\"exp\":-1}", "no exp"},
        {"{\"sub\":\"ann\",\"exp\":0}", "expired"},
        {"{\"sub\":\"ann\",\"exp\":1893455999}", "expired"},
        {"{\"sub\":\"ann\",\"exp\":1893456000}", "expired"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"nbf\":" SOON "}", "not valid yet"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"nbf\":\"0\"}", "nbf is no time"},
        {"{\"exp\":" SOON "}", "sub is no user"},
        {"{\"sub\":\"\",\"exp\":" SOON "}", "sub is no user"},
        {"{\"sub\":7,\"exp\":" SOON "}", "sub is no user"},
        {"{\"sub\":\"a b\",\"exp\":" SOON "}", "sub is no user"},
        {"{\"sub\":\"ann\\n\",\"exp\":" SOON "}", "sub is no user"},
        {"{\"sub\":\"a/b\",\"exp\":" SOON "}", "sub is no user"},
        {"{\"sub\":\"ann\\u0000\",\"exp\":" SOON "}", ""},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":\"lamp\"}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":null}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":{\"lamp\":1}}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":[1]}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":[\"lamp\",\"a b\"]}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":[\"lamp\",[\"a\"]]}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":[\"\"]}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON "} x", ""},
        {"[]", ""},
        {"", ""},
    };
    auth_open_files(NULL, auth_all_keys());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refused(forge(HEAD("HS256", LOGIN_KID), rows[i].claims), rows[i].piece);
    check_refused(login_ticket(harness_repeat('u', INVENTORY_USER_MAX + 1)), "sub is no user");
    check_caller(login_ticket(harness_repeat('u', INVENTORY_USER_MAX)), ROLE_BUYER, "",
                 harness_repeat('u', INVENTORY_USER_MAX));
}

/* The algorithm is the line's: whoever writes another into the head of a ticket gains nothing. */
static void heads_that_are_refused(void) {
    static const char claims[] = "{\"sub\":\"ann\",\"exp\":" SOON "}";
    auth_open_files(NULL, auth_all_keys());
    check_caller(forge(HEAD("HS256", LOGIN_KID), claims), ROLE_BUYER, "", "ann");
    static const struct {
        const char *head, *piece;
    } rows[] = {
        {HEAD("none", LOGIN_KID), "alg"},
        {HEAD("None", LOGIN_KID), ""},
        {HEAD("HS384", LOGIN_KID), "alg"},
        {HEAD("HS512", LOGIN_KID), "alg"},
        {HEAD("RS256", LOGIN_KID), "alg"},
        {HEAD("ES256", LOGIN_KID), "alg"},
        {HEAD("HS256", "login-2"), "kid"},
        {HEAD("HS256", ""), "kid"},
        {HEAD("HS256", "login-1 "), "kid"},
        {"{\"alg\":\"HS256\"}", "kid"},
        {"{\"alg\":\"HS256\",\"kid\":1}", "kid"},
        {"{\"kid\":\"" LOGIN_KID "\"}", ""},
        {"{\"alg\":\"HS256\",\"kid\":\"" LOGIN_KID "\",\"crit\":[\"b64\"],\"b64\":false}", "crit"},
        {"{\"alg\":\"HS256\",\"alg\":\"none\",\"kid\":\"" LOGIN_KID "\"}", ""},
        {"[]", ""},
        {"x", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refused(forge(rows[i].head, claims), rows[i].piece);
}

/* A public key is no secret, and no signature is none. */
static void algorithms_that_are_confused(void) {
    static const char claims[] = "{\"sub\":\"ann\",\"exp\":" SOON "}";
    static const char *const names[] = {"rsa", "ec"};
    auth_open_files(NULL, auth_all_keys());
    for (int i = 0; i < 2; i++) {
        const char *pem = login_read(harness_format("%s.pem", names[i]));
        check_refused(login_sign("HS256", names[i], pem, claims), "alg");
        check_refused(login_sign("HS512", names[i], pem, claims), "alg");
        const char *trimmed = harness_format("%.*s", (int)strlen(pem) - 1, pem);
        check_refused(login_sign("HS256", names[i], trimmed, claims), "alg");
    }
    check_refused(login_sign("RS256", "ec", login_read("rsa.key"), claims), "alg");
    check_refused(login_sign("RS384", "rsa", login_read("rsa.key"), claims), "alg");
    /* A good signature, by the key of another line. */
    login_make_keys("other", "RS256");
    check_refused(login_sign("RS256", "rsa", login_read("other.key"), claims), "signature");
    check_refused(login_sign("HS256", LOGIN_KID, "another secret of at least 32 bytes", claims), "signature");
    /* No signature, in each way to write that. */
    const char *good = login_ticket("ann"), *none = forge(HEAD("none", LOGIN_KID), claims);
    int signed_part = (int)(strrchr(good, '.') - good), none_part = (int)(strrchr(none, '.') - none);
    check_refused(harness_format("%.*s.", signed_part, good), "");
    check_refused(harness_format("%.*s", signed_part, good), "");
    check_refused(harness_format("%.*s.", none_part, none), "");
    check_refused(harness_format("%.*s.AA", none_part, none), "");
    check_caller(good, ROLE_BUYER, "", "ann");
}

static void forms_that_are_refused(void) {
    auth_open_files(NULL, auth_all_keys());
    const char *good = login_ticket("ann");
    static const char *const around[][2] = {{"", "."},    {".", ""},   {"", "="},  {"", "=="},
                                            {" ", ""},    {"", " "},   {"", "\n"}, {"", ".e30.AAAA"},
                                            {"", "\x80"}, {"\"", "\""}};
    for (size_t i = 0; i < sizeof around / sizeof *around; i++)
        check_refused(harness_format("%s%s%s", around[i][0], good, around[i][1]), "");
    check_refused("..", "");
    check_refused("a.b.c", "");
    /* At its longest, and longer. */
    const char *shortest = login_ticket_with("ann", ",\"x\":\"\"");
    size_t more = (TICKET_MAX - strlen(shortest)) / 4 * 3;
    const char *longest =
        login_ticket_with("ann", harness_format(",\"x\":\"%s\"", harness_repeat('x', more)));
    CHECK(strlen(longest) <= TICKET_MAX && strlen(longest) > TICKET_MAX - 8);
    check_caller(longest, ROLE_BUYER, "", "ann");
    check_refused(login_ticket_with("ann", harness_format(",\"x\":\"%s\"", harness_repeat('x', more + 12))),
                  "longer than 4096");
    check_refused(harness_repeat('a', 100000), "");
}

/* Every character is changed to every other one; the ticket is known already. */
static void altered_tickets(void) {
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.= +/\x80\x9e\xff";
    static const char claims[] = "{\"sub\":\"ann\",\"exp\":" SOON "}";
    auth_open_files(NULL, auth_all_keys());
    const char *tickets[] = {login_ticket("ann"), login_sign("ES256", "ec", login_read("ec.key"), claims),
                             login_sign("RS256", "rsa", login_read("rsa.key"), claims)};
    for (int i = 0; i < 3; i++) {
        check_caller(tickets[i], ROLE_BUYER, "", "ann");
        char *text = harness_format("Bearer %s", tickets[i]);
        size_t length = strlen(text);
        for (size_t at = 7; at < length; at++) {
            char kept = text[at];
            for (const char *c = alphabet; *c; c++) {
                bool is_neighbour =
                    kept == '.' || ((c - alphabet) ^ (strchr(alphabet, kept) - alphabet)) == 1;
                if (*c == kept || (i > 0 && !is_neighbour)) /* the slow algorithms: only the last bit */
                    continue;
                text[at] = *c;
                if (!auth_identify(view, text, length, &caller))
                    FAIL("taken with %c for %c at %zu: %s", *c, kept, at, text);
            }
            text[at] = kept;
        }
        /* What some decoders of base64 leave out. */
        for (size_t at = (size_t)(strrchr(text, '.') + 1 - text); at <= length; at += 7)
            for (const char *c = "= \n.\x80\x9e\xff"; *c; c++) {
                const char *longer = harness_format("%.*s%c%s", (int)at, text, *c, text + at);
                if (!auth_identify(view, longer, length + 1, &caller))
                    FAIL("taken with %#x at %zu: %s", (unsigned char)*c, at, text);
            }
        for (size_t cut = 8; cut < length; cut++)
            CHECK(auth_identify(view, text, cut, &caller) != NULL);
        CHECK(auth_identify(view, text, length, &caller) == NULL);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    login_make_keys("ec", "ES256");
    login_make_keys("rsa", "RS256");
    harness_run("tickets of each algorithm", tickets_of_each_algorithm);
    harness_run("items of tickets", items_of_tickets);
    harness_run("times of tickets", times_of_tickets);
    harness_run("claims that are refused", claims_that_are_refused);
    harness_run("heads that are refused", heads_that_are_refused);
    harness_run("algorithms that are confused", algorithms_that_are_confused);
    harness_run("forms that are refused", forms_that_are_refused);
    harness_run("altered tickets", altered_tickets);
    return harness_finish();
}
