/* The statuses of calls: their texts, and what gRPC's statuses mean. */
#include <grpc/status.h>
#include <string.h>

#include "lock/libetcd/etcd_client.h"

const char *etcd_status_text(enum etcd_status status) {
    static const char *const texts[] = {
        [ETCD_OK] = "ok",
        [ETCD_UNKNOWN] = "unknown",
        [ETCD_UNAVAILABLE] = "unavailable",
        [ETCD_TIMEOUT] = "timed out",
        [ETCD_CANCELLED] = "cancelled",
        [ETCD_NOT_FOUND] = "not found",
        [ETCD_EXISTS] = "exists already",
        [ETCD_COMPACTED] = "compacted",
        [ETCD_FUTURE] = "in the future",
        [ETCD_DENIED] = "denied",
        [ETCD_INVALID] = "not valid",
        [ETCD_EXHAUSTED] = "exhausted",
        [ETCD_FAILED] = "failed",
        [ETCD_CONFIG] = "not a valid configuration",
        [ETCD_NOMEM] = "out of memory",
    };
    return (unsigned)status < ETCD_STATUSES ? texts[status] : "no status";
}

/* The verdict on a call is that of the first entry that has its status code, and whose text is a part of the
 * status's text. The texts are etcd's own (rpctypes), the same since 3.0. */
static const struct {
    int code;
    const char *text;
    struct etcd_verdict verdict;
} known[] = {
    /* The server answers these before it does anything. */
    {GRPC_STATUS_UNAVAILABLE, "no leader", {ETCD_UNAVAILABLE, .harmless = true, .elsewhere = true}},
    {GRPC_STATUS_UNAVAILABLE, "not capable", {ETCD_UNAVAILABLE, .harmless = true, .elsewhere = true}},
    {GRPC_STATUS_UNAVAILABLE, "for learner", {ETCD_UNAVAILABLE, .harmless = true, .elsewhere = true}},
    {GRPC_STATUS_UNAUTHENTICATED, "", {ETCD_DENIED, .harmless = true, .new_token = true}},
    {GRPC_STATUS_INVALID_ARGUMENT,
     "revision of auth store",
     {ETCD_DENIED, .harmless = true, .new_token = true}},
    {GRPC_STATUS_INVALID_ARGUMENT, "authentication failed", {ETCD_DENIED, .harmless = true}},
    {GRPC_STATUS_INVALID_ARGUMENT, "user name is empty", {ETCD_DENIED, .harmless = true, .new_token = true}},
    {GRPC_STATUS_INVALID_ARGUMENT, "", {ETCD_INVALID, .harmless = true}},
    {GRPC_STATUS_PERMISSION_DENIED, "", {ETCD_DENIED, .harmless = true}},
    {GRPC_STATUS_NOT_FOUND, "", {ETCD_NOT_FOUND, .harmless = true}},
    {GRPC_STATUS_FAILED_PRECONDITION, "lease already exists", {ETCD_EXISTS, .harmless = true}},
    {GRPC_STATUS_FAILED_PRECONDITION, "", {ETCD_FAILED, .harmless = true}},
    {GRPC_STATUS_OUT_OF_RANGE, "compacted", {ETCD_COMPACTED, .harmless = true}},
    {GRPC_STATUS_OUT_OF_RANGE, "future revision", {ETCD_FUTURE, .harmless = true}},
    {GRPC_STATUS_OUT_OF_RANGE, "", {ETCD_INVALID, .harmless = true}},
    /* The server's gRPC refuses a request that is far too large; etcd itself refuses one that is a little too
     * large, as an invalid argument. */
    {GRPC_STATUS_RESOURCE_EXHAUSTED, "message larger than max", {ETCD_INVALID, .harmless = true}},
    {GRPC_STATUS_RESOURCE_EXHAUSTED, "", {ETCD_EXHAUSTED, .harmless = true}},
    /* The lock service drops the codes of the calls that it makes itself. */
    {GRPC_STATUS_UNKNOWN, "requested lease not found", {ETCD_NOT_FOUND, .harmless = true}},
    {GRPC_STATUS_UNKNOWN, "permission denied", {ETCD_DENIED, .harmless = true}},
    {GRPC_STATUS_UNIMPLEMENTED, "", {ETCD_FAILED, .harmless = true}},
    {GRPC_STATUS_DATA_LOSS, "", {ETCD_FAILED, .harmless = true}},
    {GRPC_STATUS_DEADLINE_EXCEEDED, "", {ETCD_TIMEOUT, .elsewhere = true, .silent = true}},
};

struct etcd_verdict etcd_status_judge(int code, const char *text) {
    if (code == GRPC_STATUS_OK)
        return (struct etcd_verdict){.status = ETCD_OK};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].code == code && strstr(text, known[i].text))
            return known[i].verdict;
    }
    /* Unavailable, or a connection error, which comes under several codes: the server may have done it. */
    return (struct etcd_verdict){ETCD_UNAVAILABLE, .elsewhere = true};
}
