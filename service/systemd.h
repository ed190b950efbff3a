/* Tells systemd the state of the service, as sd_notify(3) does. Does nothing if systemd did not ask for it.
 */
#ifndef SERVICE_SYSTEMD_H
#define SERVICE_SYSTEMD_H

/* `state` is e.g. "READY=1". */
void notify_manager(const char *state);

#endif
