/* The calls that are no purchases, and the checks of what they leave. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/test/fixture.h"
#include "inventory/transactions/transactions_internal.h"

static struct answer *answer_make(struct seller *seller) {
    struct answer *answer = calloc(1, sizeof *answer);
    CHECK(answer);
    answer->shop = seller->shop;
    answer->next = seller->shop->answers;
    seller->shop->answers = answer;
    seller->shop->open++;
    return answer;
}

static void answer_note(struct answer *answer, enum inventory_status status, const void *told, size_t size) {
    if (answer->count++ > 0) {
        answer->shop->fault = "a call was answered twice";
        return;
    }
    answer->shop->open--;
    answer->status = status;
    answer->told = told != NULL;
    if (told)
        memcpy(&answer->order, told, size);
}

enum inventory_status answer_wait(struct answer *answer, void *out, size_t size) {
    SHOP_UNTIL(answer->shop, answer->count > 0, "a call is answered");
    if (out && answer->told)
        memcpy(out, &answer->order, size);
    return answer->status;
}

static void on_item(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    answer_note(ctx, status, item, sizeof *item);
}

static void on_restock(void *ctx, enum inventory_status status, const struct inventory_restock *restock) {
    answer_note(ctx, status, restock, sizeof *restock);
}

static void on_order(void *ctx, enum inventory_status status, const struct inventory_order *order) {
    answer_note(ctx, status, order, sizeof *order);
}

static void on_audit(void *ctx, enum inventory_status status, const struct inventory_audit *audit) {
    answer_note(ctx, status, audit, sizeof *audit);
}

static void on_health(void *ctx, const struct inventory_health *health) {
    answer_note(ctx, INVENTORY_OK, health, sizeof *health);
}

struct inventory_item terms(const char *item, enum inventory_strategy sold_by, int64_t stock) {
    struct inventory_item terms = {.initial = stock, .strategy = sold_by};
    snprintf(terms.item, sizeof terms.item, "%s", item);
    return terms;
}

struct answer *item_put_begin(struct seller *seller, const struct inventory_item *item) {
    struct answer *answer = answer_make(seller);
    inventory_item_create(seller->inventory, item, on_item, answer);
    return answer;
}

enum inventory_status item_put(struct seller *seller, const struct inventory_item *item) {
    return answer_wait(item_put_begin(seller, item), NULL, 0);
}

void item_sell(struct seller *seller, const char *item, enum inventory_strategy sold_by, int64_t stock) {
    item_put_as(seller, item, sold_by, stock, 0, 0);
}

void item_put_as(struct seller *seller, const char *item, enum inventory_strategy sold_by, int64_t stock,
                 int64_t limit, int64_t hold_ms) {
    struct inventory_item put = terms(item, sold_by, stock);
    put.limit = limit;
    put.hold_ms = hold_ms;
    CHECK_STATUS(item_put(seller, &put), INVENTORY_OK);
}

void item_put_with(struct seller *seller, const char *item, int64_t stock, int64_t limit, int64_t hold_ms) {
    item_put_as(seller, item, INVENTORY_BATCH, stock, limit, hold_ms);
}

struct answer *item_read_begin(struct seller *seller, const char *item) {
    struct answer *answer = answer_make(seller);
    inventory_item_get(seller->inventory, item, on_item, answer);
    return answer;
}

enum inventory_status item_reader(struct seller *seller, const char *item, struct inventory_item *out) {
    return answer_wait(item_read_begin(seller, item), out, sizeof *out);
}

struct answer *item_restock_begin(struct seller *seller, const char *item, const char *key,
                                  int64_t quantity) {
    struct answer *answer = answer_make(seller);
    char digest[INVENTORY_DIGEST_SIZE];
    inventory_key_digest("", key, strlen(key), digest);
    inventory_item_restock(seller->inventory, item, digest, quantity, on_restock, answer);
    return answer;
}

enum inventory_status item_restock(struct seller *seller, const char *item, const char *key, int64_t quantity,
                                   struct inventory_restock *out) {
    return answer_wait(item_restock_begin(seller, item, key, quantity), out, sizeof *out);
}

struct answer *order_call_begin(struct seller *seller, const char *id,
                                const struct inventory_order_call *call) {
    struct answer *answer = answer_make(seller);
    inventory_order_step(seller->inventory, id, call, on_order, answer);
    return answer;
}

struct answer *order_step_begin(struct seller *seller, const char *id, enum inventory_step step) {
    return order_call_begin(seller, id, &(struct inventory_order_call){.step = step});
}

enum inventory_status order_step(struct seller *seller, const char *id, enum inventory_step step,
                                 struct inventory_order *out) {
    enum inventory_status status = answer_wait(order_step_begin(seller, id, step), out, sizeof *out);
    return status == INVENTORY_REPLAYED ? INVENTORY_OK : status;
}

void check_order_step(struct seller *seller, const struct buy *of, enum inventory_step step,
                      enum inventory_status status) {
    CHECK_STATUS(order_step(seller, of->id, step, NULL), status);
}

struct answer *item_audit_begin(struct seller *seller, const char *item) {
    struct answer *answer = answer_make(seller);
    inventory_item_audit(seller->inventory, item, on_audit, answer);
    return answer;
}

enum inventory_status item_audit(struct seller *seller, const char *item, struct inventory_audit *out) {
    return answer_wait(item_audit_begin(seller, item), out, sizeof *out);
}

struct inventory_audit item_audited(struct seller *seller, const char *item) {
    struct inventory_audit audit = {.conserved = false};
    CHECK_STATUS(item_audit(seller, item, &audit), INVENTORY_OK);
    return audit;
}

struct answer *store_health_begin(struct seller *seller) {
    struct answer *answer = answer_make(seller);
    inventory_health_read(seller->inventory, on_health, answer);
    return answer;
}

void store_health(struct seller *seller, struct inventory_health *out) {
    answer_wait(store_health_begin(seller), out, sizeof *out);
}

/* ---- holds ---- */

long long holds_indexed(const struct redis_server *redis, const char *until_ms) {
    static const char count[] = "local n = 0\n"
                                "for part = 0, 63 do n = n + redis.call('ZCOUNT', 'seckill:due:{' .. part .. "
                                "'}', '-inf', ARGV[1]) end\n"
                                "return n\n";
    return redis_integer(redis, "EVAL", count, "0", until_ms, NULL);
}

struct swept {
    struct seller *seller;
    const struct redis_server *redis;
    char now[24];
};

static bool is_swept(void *arg) {
    struct swept *swept = arg;
    bool is_over = !swept->seller->inventory->purchases->sweeping; /* what it did was told */
    if (is_over && holds_indexed(swept->redis, swept->now) == 0)
        return true;
    inventory_sweep(swept->seller->inventory);
    return false;
}

void holds_sweep_on(struct seller *seller) {
    if (seller->inventory->purchases->expiry_paused_until_ms != 0)
        inventory_sweep(seller->inventory);
}

void holds_sweep(struct seller *seller, const struct redis_server *redis) {
    struct swept swept = {.seller = seller, .redis = redis};
    snprintf(
        swept.now, sizeof swept.now, "%lld",
        (long long)(clock_wall_ms(&seller->shop->clock) - seller->shop->ahead_ms - INVENTORY_HOLD_GRACE_MS));
    shop_wait(seller->shop, is_swept, &swept, "nothing is due");
}

/* ---- checks ---- */

static const char audit_lua[] =
    "local function pairs_of(list)\n"
    "  local t = {}\n"
    "  for i = 1, #list, 2 do t[list[i]] = list[i + 1] end\n"
    "  return t\n"
    "end\n"
    "local I = KEYS[1]\n"
    "local item = pairs_of(redis.call('HGETALL', I))\n"
    "if not item.terms then return 'there is no such item' end\n"
    "local orders, counted, moves = {}, {}, {}\n"
    "for field, value in pairs(item) do\n"
    "  if string.sub(field, 1, 1) == '@' then counted[string.sub(field, 2)] = value\n"
    "  elseif string.sub(field, 1, 1) == '+' then moves[#moves + 1] = value\n"
    "  elseif #field == 22 then orders[field] = value\n"
    "  elseif not string.find(' terms available held sold restocked released returned shortage ', ' ' .. "
    "field .. ' "
    "') then\n"
    "    return 'a field is named ' .. field\n"
    "  end\n"
    "end\n"
    "item.initial, item.limit = string.match(item.terms, '^(%d+) (%d+) ')\n"
    "local last, restocked = {}, 0\n"
    "for _, entry in ipairs(redis.call('XRANGE', I .. ':events', '-', '+')) do\n"
    "  for i = 1, #entry[2], 2 do\n"
    "    local name, value = entry[2][i], entry[2][i + 1]\n"
    "    if name == 'restock' or name == 'transfer' or name == 'return' then\n"
    "      restocked = restocked + value\n"
    "    else\n"
    "      last[name] = value\n"
    "    end\n"
    "  end\n"
    "end\n"
    "local units, users, holds, released, returned = {h = 0, p = 0, b = 0, c = 0, r = 0, x = 0, e = 0, u = "
    "0}, "
    "{}, {}, 0, 0\n"
    "for digest, record in pairs(orders) do\n"
    "  local state, quantity, user, rest = string.match(record, '^([hpcrxebu])%d* (%d+) (%S+) %d+(.*)$')\n"
    "  local expires, basket = string.match(rest or '', '^ (%d+)'), string.match((rest or '') .. ' ', '^ %d+ "
    "([%w_-]+) ')\n"
    "  if basket and (#basket ~= 22 or state == 'h' or state == 'p') then state = nil end\n"
    "  if not basket and (state == 'b' or state == 'u') then state = nil end\n"
    "  if not state then return 'a record is ' .. record end\n"
    "  if last[digest] ~= record then return 'an order is ' .. record .. ', by the ledger ' .. "
    "tostring(last[digest]) end\n"
    "  last[digest] = nil\n"
    "  local back = tonumber(string.match(rest, ' r=(%d+)') or 0)\n"
    "  if back == tonumber(quantity) and state ~= 'r' or state == 'r' and back ~= tonumber(quantity) then "
    "return "
    "'returned wrongly: ' .. record end\n"
    "  returned = returned + back\n"
    "  if state == 'x' or state == 'e' or state == 'u' then released = released + quantity end\n"
    "  if string.match(rest, ' l=1') then released = released + quantity end\n"
    "  units[state] = units[state] + quantity - back\n"
    "  if state == 'h' or state == 'p' or state == 'b' or state == 'c' then users[user] = (users[user] or 0) "
    "+ "
    "quantity - back end\n"
    "  if state == 'h' or state == 'p' then holds[digest] = expires end\n"
    "end\n"
    "if next(last) then return 'the ledger alone has the order ' .. next(last) end\n"
    "if tonumber(item.restocked) ~= restocked then return 'restocked differs from the ledger' end\n"
    "for _, said in ipairs(moves) do\n"
    "  local word, units = string.match(said, '^(%a*) ?(%d+)')\n"
    "  if word == 'send' or string.match(said, '^return %d+ 0') then restocked = restocked + units\n"
    "  elseif word ~= 'refund' and word ~= 'return' then restocked = restocked - units end\n"
    "end\n"
    "if restocked ~= 0 then return 'the restocks differ from the ledger' end\n"
    "units.h = units.h + units.p + units.b\n"
    "if tonumber(item.held) ~= units.h or tonumber(item.sold) ~= units.c then return 'held or sold differ' "
    "end\n"
    "if tonumber(item.released) ~= released or tonumber(item.returned) ~= returned then return 'released or "
    "returned differ' end\n"
    "if tonumber(item.available) < 0 then return 'available is negative' end\n"
    "if item.initial + item.restocked ~= item.available + units.h + units.c then return 'units are missing' "
    "end\n"
    "if item.limit ~= '0' then\n"
    "  for user, n in pairs(counted) do\n"
    "    if tonumber(n) ~= (users[user] or 0) then return 'the units of ' .. user .. ' differ' end\n"
    "    if tonumber(n) > tonumber(item.limit) then return user .. ' is over the limit' end\n"
    "    users[user] = nil\n"
    "  end\n"
    "  if next(users) then return 'not counted: the units of ' .. next(users) end\n"
    "end\n"
    "local first = redis.call('ZRANGE', I .. ':holds', 0, 0, 'WITHSCORES')[2]\n"
    "local due = redis.call('ZSCORE', KEYS[2], I)\n"
    "if first and first ~= 'inf' and (not due or tonumber(due) > tonumber(first)) then\n"
    "  return 'a hold is forgotten by the index of due times'\n"
    "end\n"
    "for digest, due in pairs(pairs_of(redis.call('ZRANGE', I .. ':holds', 0, -1, 'WITHSCORES'))) do\n"
    "  if digest ~= '' then\n"
    "  if tonumber(holds[digest]) ~= tonumber(due) then return 'a hold is listed wrongly: ' .. digest end\n"
    "  holds[digest] = nil\n"
    "  end\n"
    "end\n"
    "if next(holds) then return 'a hold is not listed: ' .. next(holds) end\n"
    "return 'balanced'\n";

const char *ledger_audit(const struct redis_server *redis, const char *item) {
    struct sale_keys keys;
    sale_keys_make(&keys, item);
    return redis_command(redis, "EVAL", audit_lua, "2", stock_key(item), keys.due, NULL);
}

void item_check_audit(struct seller *seller, const char *item, int64_t available, int64_t held,
                      int64_t sold) {
    struct inventory_audit audit = item_audited(seller, item);
    CHECK_INT(audit.item.available, available);
    CHECK_INT(audit.units[INVENTORY_STATE_HELD] + audit.units[INVENTORY_STATE_PAYING], held);
    CHECK_INT(audit.units[INVENTORY_STATE_CONFIRMED], sold);
    CHECK_INT(audit.oversold, 0);
    CHECK(audit.conserved);
    CHECK(audit.exact);
    CHECK_INT(audit.off_by, 0);
}

void check_books(struct seller *seller, const struct redis_server *redis, const char *item, int64_t available,
                 int64_t held, int64_t sold) {
    item_check_audit(seller, item, available, held, sold);
    CHECK_STR(ledger_audit(redis, item), "balanced");
}

void store_start(struct redis_server *redis, int argc, char **argv) {
    if (argc >= 2 && strcmp(argv[1], "-l") == 0)
        return;
    redis_clock();
    redis_start(redis, NULL);
}

const char *store_dump(const struct redis_server *redis, bool tokens) {
    static const char dump[] = "local all, kept = redis.call('KEYS', '*'), {}\n"
                               "table.sort(all)\n"
                               "for _, key in ipairs(all) do\n"
                               "  local token = string.find(key, ':token$') and ARGV[1] ~= 'tokens'\n"
                               "  if not token and not string.find(key, '^seckill:{sellers}:') then\n"
                               "    kept[#kept + 1] = key .. redis.sha1hex(redis.call('DUMP', key))\n"
                               "  end\n"
                               "end\n"
                               "return table.concat(kept, ' ')\n";
    return harness_format("%s", redis_command(redis, "EVAL", dump, "0", tokens ? "tokens" : "", NULL));
}
