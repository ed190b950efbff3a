#include "loadtest/lab/scenarios/scenarios.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/servers/local_servers.h"

enum { PATH_SIZE = 512 };

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

/* ---- one play ---- */

static bool play_fail(char *error, size_t error_size, const char *what) {
    snprintf(error, error_size, "%s: %s", what, strerror(errno));
    return false;
}

/* Plays in the empty directory of the stage, and writes the verdict on what was recorded; if the set-up
 * failed, the verdict says why. */
static bool play_on_stage(const struct play_plan *plan, const struct stage_options *options, char *error,
                          size_t error_size) {
    struct judged_play played;
    struct stage *stage = stage_open(options);
    if (!stage)
        return snprintf(error, error_size, "no memory"), false;
    plan->scenario->play(stage, plan->broken && !plan->fixed_way);
    const char *failure = stage_end(stage);
    if (failure)
        stage_copy_logs(stage, plan->logs);
    bool good = judged_play_read_file(plan->events, &played, error, error_size);
    if (good) {
        struct event verdict = {.kind = EVENT_VERDICT, .outcome = "setup-failed", .sentence = failure};
        if (!failure)
            verdict = played.verdict;
        verdict.who = "lab";
        verdict.t_ns = 0;
        good = stage_tell_verdict(stage, &verdict) || play_fail(error, error_size, plan->events);
        judged_play_free(&played);
    }
    stage_free(stage);
    return good;
}

bool play_run(const struct play_plan *plan, struct judged_play *played, char *error, size_t error_size) {
    const struct scenario *scenario = plan->scenario;
    const char *play = plan->broken ? "broken" : "fixed";
    char programs[PATH_SIZE] = "", directory[300];
    if (readlink("/proc/self/exe", programs, sizeof programs - 1) <= 0)
        return play_fail(error, error_size, "/proc/self/exe");
    *strrchr(programs, '/') = '\0'; /* the path is absolute */
    FILE *out = fopen(plan->events, "we");
    if (!out)
        return play_fail(error, error_size, plan->events);
    snprintf(directory, sizeof directory, "%.200s/%.40s-%.8s", plan->work, scenario->name, play);
    bool good = false;
    if (mkdir(directory, 0700) == 0) {
        const struct stage_options options = {.play = {.scenario = scenario->name,
                                                       .play = play,
                                                       .seed = plan->seed,
                                                       .ttl_ms = scenario->ttl_ms},
                                              .directory = directory,
                                              .programs = plan->programs ? plan->programs : programs,
                                              .events = out,
                                              .ctx = plan->ctx};
        good = play_on_stage(plan, &options, error, error_size);
        directory_remove(directory);
    } else {
        play_fail(error, error_size, directory);
    }
    fclose(out);
    return good && judged_play_read_file(plan->events, played, error, error_size);
}
