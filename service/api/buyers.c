/* What a ticket allows: purchases for its user, and of its items. */
#include <string.h>

#include "service/api/http_api.h"

bool buyer_complete_user(struct http_request *request, const struct caller *caller,
                         char user[INVENTORY_USER_MAX + 1]) {
    const char *owner = caller_owner(caller);
    if (!owner && !*user) {
        problem_answer_field(request, "user", "must be there: the caller has no ticket that tells it");
        return false;
    }
    if (owner && *user && strcmp(owner, user) != 0) {
        problem_answer(request, PROBLEM_FORBIDDEN,
                       "the ticket is another user's; the body may leave out user");
        return false;
    }
    if (owner)
        memcpy(user, owner, strlen(owner) + 1);
    return true;
}

bool buyer_check_item(struct http_request *request, const struct caller *caller, const char *item) {
    if (caller_may_buy(caller, item))
        return true;
    problem_answer(request, PROBLEM_FORBIDDEN, "the ticket does not admit to this item");
    return false;
}
