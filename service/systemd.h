/* Tells systemd how the service stands, as sd_notify(3) has it; nothing is done where nobody wants to know.
 */
#ifndef SERVICE_SYSTEMD_H
#define SERVICE_SYSTEMD_H

/* `state` is e.g. "READY=1". */
void notify_manager(const char *state);

#endif
