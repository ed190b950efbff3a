#include "loadtest/test/torture_books.h"

#include <stdlib.h>

/* KEYS: item, holds, events. Replies the members of struct torture_books, in their order. */
static const char count_lua[] =
    "local c = redis.call('HMGET', KEYS[1], 'terms', 'restocked', 'available', 'held', 'sold')\n"
    "c[1], c[6] = string.match(c[1] or '', '^(%d+) (%d+) ')\n"
    "for i = 1, 6 do c[i] = tonumber(c[i]) or -1 end\n"
    "local orders, has, due, last = {}, {}, {}, {}\n"
    "local units, count, unreadable = {h = 0, c = 0, x = 0, e = 0}, 0, 0\n"
    "local all, counters = redis.call('HGETALL', KEYS[1]), {}\n"
    "for i = 1, #all, 2 do\n"
    "  if string.sub(all[i], 1, 1) == '@' then\n"
    "    counters[#counters + 1], counters[#counters + 2] = string.sub(all[i], 2), all[i + 1]\n"
    "  elseif #all[i] == 22 then\n"
    "  local state, quantity, user, hold = string.match(all[i + 1], '^([hcxe])%d* (%d+) (%S+) %d+ "
    "?(%d*)')\n"
    "  if not state then unreadable = unreadable + 1 else\n"
    "    orders[all[i]], count = all[i + 1], count + 1\n"
    "    units[state] = units[state] + quantity\n"
    "    if state == 'h' or state == 'c' then has[user] = (has[user] or 0) + quantity end\n"
    "    if state == 'h' then due[all[i]] = tonumber(hold) end\n"
    "  end\n"
    "  end\n"
    "end\n"
    "local over_limit, wrong_users, wrong_holds, wrong_steps = 0, 0, 0, 0\n"
    "if c[6] > 0 then\n"
    "  for _, had in pairs(has) do if had > c[6] then over_limit = over_limit + 1 end end\n"
    "  for i = 1, #counters, 2 do\n"
    "    if tonumber(counters[i + 1]) ~= (has[counters[i]] or 0) then wrong_users = wrong_users + 1 end\n"
    "    has[counters[i]] = nil\n"
    "  end\n"
    "  for _ in pairs(has) do wrong_users = wrong_users + 1 end\n"
    "end\n"
    "local holds = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')\n"
    "for i = 1, #holds, 2 do\n"
    "  if due[holds[i]] ~= tonumber(holds[i + 1]) then wrong_holds = wrong_holds + 1 end\n"
    "  due[holds[i]] = nil\n"
    "end\n"
    "for _ in pairs(due) do wrong_holds = wrong_holds + 1 end\n"
    "local taken, most = 0, 0\n"
    "for _, entry in ipairs(redis.call('XRANGE', KEYS[3], '-', '+')) do\n"
    "  for i = 1, #entry[2], 2 do\n"
    "    local digest, record = entry[2][i], entry[2][i + 1]\n"
    "    local before, after = last[digest], string.sub(record, 1, 1)\n"
    "    local birth = before == nil and (after == 'h' or after == 'c')\n"
    "    local settled = before == 'h' and (after == 'c' or after == 'x' or after == 'e')\n"
    "    local late = before == 'e' and after == 'c'\n"
    "    local refused = before == after and (after == 'x' or after == 'e')\n"
    "    local units = string.match(record, '^%a%d* (%d+)')\n"
    "    if not (birth or settled or late or refused) then wrong_steps = wrong_steps + 1 end\n"
    "    if birth or late then taken = taken + units end\n"
    "    if settled and after ~= 'c' then taken = taken - units end\n"
    "    last[digest] = after\n"
    "    if orders[digest] == record then orders[digest] = nil end\n"
    "  end\n"
    "  most = math.max(most, taken)\n"
    "end\n"
    "for _ in pairs(orders) do wrong_steps = wrong_steps + 1 end\n"
    "return {c[1], c[2], c[3], c[4], c[5], count, units.h, units.c, most, unreadable, over_limit, "
    "wrong_users,\n"
    "        wrong_holds, wrong_steps}\n";

struct torture_books torture_books_read(const struct redis_server *redis, const char *item) {
    struct torture_books b = {.initial = 0};
    long long *const members[] = {&b.initial,     &b.restocked,  &b.available,  &b.held,
                                  &b.sold,        &b.orders,     &b.held_units, &b.confirmed_units,
                                  &b.most_units,  &b.unreadable, &b.over_limit, &b.wrong_users,
                                  &b.wrong_holds, &b.wrong_steps};
    const char *reply = redis_command(redis, "EVAL", count_lua, "3", stock_key(item),
                                      stock_key(harness_format("%s:holds", item)),
                                      stock_key(harness_format("%s:events", item)), NULL);
    const char *at = reply;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char *end;
        if (*at != (i ? ' ' : '['))
            FAIL("the books of %s cannot be read: %s", item, reply);
        *members[i] = strtoll(at + 1, &end, 10);
        at = end;
    }
    CHECK_STR(at, "]");
    return b;
}

void torture_books_check(const struct torture_books *books, bool whole) {
    long long stock = books->initial + books->restocked;
    CHECK(books->initial > 0);
    CHECK_INT(books->unreadable, 0);
    CHECK(books->held_units + books->confirmed_units <= stock);
    CHECK(books->most_units <= stock);
    CHECK_INT(books->over_limit, 0);
    if (!whole)
        return;
    CHECK(books->available >= 0);
    CHECK_INT(books->held, books->held_units);
    CHECK_INT(books->sold, books->confirmed_units);
    CHECK_INT(books->available + books->held + books->sold, stock);
    CHECK_INT(books->wrong_users, 0);
    CHECK_INT(books->wrong_holds, 0);
    CHECK_INT(books->wrong_steps, 0);
}
