/* The settings of the service. Flags win over the environment, that wins over the configuration file, and
 * that over the defaults. The value of a setting that may have a secret can be in a file of its own, which a
 * variable of the environment names: SECKILL_REDIS_FILE instead of SECKILL_REDIS. */
#ifndef SERVICE_CONFIG_H
#define SERVICE_CONFIG_H

#include <stdbool.h>
#include <stdio.h>

#include "inventory/inventory.h"

enum { CONFIG_TEXT = 512, CONFIG_SETTINGS = 20, CONFIG_ORIGIN_SIZE = 320 };

/* How baskets are made. */
enum config_basket { CONFIG_BASKET_LOCKED, CONFIG_BASKET_SCRIPT, CONFIG_BASKET_NAIVE };

struct config {
    char listen[CONFIG_TEXT], operator_listen[CONFIG_TEXT], /* the second may be "" */
        redis[CONFIG_TEXT], lock[CONFIG_TEXT], strategy_name[CONFIG_TEXT], basket_name[CONFIG_TEXT],
        admin_token[CONFIG_TEXT], log[CONFIG_TEXT], tokens[CONFIG_TEXT],
        buyer_keys[CONFIG_TEXT]; /* these two may be "" */
    char store[CONFIG_TEXT];     /* `redis` without its password, for the log */
    int replicas, lock_ttl_ms, work_delay_ms, workers, store_timeout_ms, connections_max, drain_ms;
    bool teaching, fencing, events, log_json;
    enum inventory_strategy strategy;
    enum config_basket basket;
    char origins[CONFIG_SETTINGS][CONFIG_ORIGIN_SIZE]; /* see config_origin() */
};

enum config_result { CONFIG_RUN, CONFIG_EXIT, CONFIG_BAD };

/* Reads everything. CONFIG_EXIT: --help or --version was answered on `out`. CONFIG_BAD: `error` says what was
 * wrong, where, and what would be right. */
enum config_result config_read(struct config *config, int argc, char **argv, FILE *out, char *error,
                               size_t error_size);

/* Returns where the value of a setting comes from, so that an operator can change it: "--lock",
 * "SECKILL_LOCK", "SECKILL_LOCK_FILE" or "FILE:3: lock". */
const char *config_origin(const struct config *config, const char *name);

/* Warns of each SECKILL_ variable in the environment that is not a setting: it may be misspelt. */
void config_warn_of_variables(void);

#endif
