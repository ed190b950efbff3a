/* An event in words: the same as in the report. */

const ms = (ns) => `${Math.round(ns / 1e6).toLocaleString("en-US")} ms`;

const sale = (e, what) => `${what} ${e.quantity} of ${e.item}${e.grant ? ` under grant ${e.grant}` : ""}`;
const grant = (e, what) => `${what} ${e.key} (grant ${e.grant})`;
const says = (e, what) => (e.who === e.server ? what : `${e.server} ${what}`);

const words = {
    "acquire.sent": (e) => `asks for ${e.key}`,
    "acquire.ok": (e) => `gets ${e.key} as grant ${e.grant} until ${ms(e.until)}${e.fence ? `, fencing token ${e.fence}` : ""}`,
    "acquire.busy": (e) => `is told that another has ${e.key}`,
    "acquire.timeout": (e) => `gives up waiting for ${e.key}`,
    "acquire.unknown": (e) => `hears nothing: perhaps it has ${e.key}`,
    "renew.sent": (e) => grant(e, "asks to renew"),
    "renew.ok": (e) => `${grant(e, "has renewed")} until ${ms(e.until)}`,
    "renew.lost": (e) => grant(e, "hears that it has lost"),
    "renew.unknown": (e) => grant(e, "hears nothing of its renewal of"),
    "release.sent": (e) => grant(e, "releases"),
    "release.ok": (e) => grant(e, "has released"),
    "release.not-owner": (e) => grant(e, "is told that it did not have"),
    "release.unknown": (e) => grant(e, "hears nothing of its release of"),
    "write.sent": (e) => sale(e, "sends the sale of"),
    "write.accepted": (e) => sale(e, e.quantity ? "sells" : "writes, and changes"),
    "write.refused": (e) => `${sale(e, "is refused the sale of")}: ${e.reason}`,
    "write.unknown": (e) => sale(e, "hears nothing of the sale of"),
    "holder.paused": (e) => `${e.target} is paused: ${e.what}`,
    "holder.resumed": (e) => `${e.target} goes on: ${e.what}`,
    "fault.start": (e) => `${e.target}: ${e.what}`,
    "fault.end": (e) => `${e.target}: ${e.what} (over)`,
    "store.key": (e) => says(e, e.owner ? `says that ${e.key} belongs to ${e.owner}` : `says that ${e.key} is free`),
    "server.role": (e) => says(e, `is now ${e.role}`),
    "server.clock": (e) => `the clock of ${e.server} jumps by ${e.jump_ms > 0 ? "+" : ""}${e.jump_ms} ms`,
    "server.down": (e) => says(e, "is down"),
    "server.up": (e) => says(e, "is up"),
    "sale.stock": (e) => `${e.item}: ${e.available} of ${e.initial} left, ${e.sold} sold`,
    "sale.crowd": (e) => `${e.item}: ${e.accepted} accepted, ${e.rejected} rejected, ${e.unknown} unknown`,
    "note": (e) => e.text,
    "verdict": (e) => `${e.outcome}: ${e.sentence}`,
};

export const describe = (e) => (words[e.ev] ? words[e.ev](e) : e.ev);
export const describeWhole = (e) => `${ms(e.t)}, ${e.who}: ${describe(e)}`;

/* What an outcome means, and whether it is as it should be. */
export const outcomes = {
    "reproduced": {text: "The fault shows", good: true},
    "held": {text: "The fix holds", good: true},
    "not-reproduced": {text: "The fault did not show this time", good: false},
    "violated": {text: "The fix did not hold", good: false},
    "setup-failed": {text: "The set-up failed, so this run shows nothing", good: false},
};
