#include "loadtest/lab/scenarios/scenarios.h"

#include <string.h>

const struct scenario *const scenarios[] = {
    &scenario_no_lock,
    &scenario_strategies,
    &scenario_get_then_set,
    &scenario_crash_before_expire,
    &scenario_getset,
    &scenario_maotai,
    &scenario_equal_timestamps,
    &scenario_hung_holder,
    &scenario_paused_holder,
    &scenario_sentinel_failover,
    &scenario_split_brain,
    &scenario_clock_jump,
    &scenario_lost_memory,
    &scenario_paused_quorum,
    &scenario_etcd_paused,
    &scenario_zookeeper_paused,
    &scenario_dead_lease,
    &scenario_herd,
    &scenario_two_processes,
    &scenario_half_a_basket,
    &scenario_twice_is_harmless,
    NULL,
};

const struct scenario *scenario_find(const char *name) {
    int i = 0;
    while (scenarios[i] && strcmp(scenarios[i]->name, name) != 0)
        i++;
    return scenarios[i];
}
