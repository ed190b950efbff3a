#include "service/domain.h"

#include <stdio.h>
#include <stdlib.h>

struct domain {
    struct lock *lock;
};

struct domain *domain_open(const struct config *config, char *error, size_t error_size) {
    struct domain *domain = malloc(sizeof *domain);
    struct lock_config lock = {.ttl_ms = config->lock_ttl_ms, .teaching = config->teaching};
    if (!domain) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    if (lock_open(config->lock, &lock, &domain->lock, error, error_size) == LOCK_OK)
        return domain;
    free(domain);
    return NULL;
}

bool domain_enter(struct domain *domain, int64_t deadline_ns, struct domain_use *use) {
    (void)deadline_ns;
    *use = (struct domain_use){.lock = domain->lock, .epoch = 1};
    return true;
}

void domain_leave(struct domain *domain, const struct domain_use *use) {
    (void)domain;
    (void)use;
}

void domain_read_metrics(struct domain *domain, struct lock_metrics *metrics) {
    lock_read_metrics(domain->lock, metrics);
}

void domain_close(struct domain *domain) {
    if (!domain)
        return;
    lock_close(domain->lock);
    free(domain);
}
