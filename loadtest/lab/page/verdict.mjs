/* The verdict, with its evidence: each a button that takes the player to the event. */

import {describe, describeWhole, outcomes} from "./describe.mjs";
import {h, number} from "./dom.mjs";

const STEPS = 6;

const count = (value, one, many) => (value > 0 ? [`${number(value)} ${value === 1 ? one : many}`] : []);

function counts(v) {
    const parts = [...count(v.overlap_ms, "ms with two holders", "ms with two holders"), ...count(v.oversold, "unit oversold", "units oversold"),
                   ...count(v.double_writes, "write beside another holder", "writes beside another holder"),
                   ...count(v.refused_stale, "late write refused", "late writes refused")];
    return parts.length > 0 ? `${parts.join(", ")}.` : "";
}

/* How clients came between each other: what they note, and what the stock answers. For plays in which they note
 * something: there it is the lesson. */
export function drawSteps(recording, seek) {
    const writes = ["write.accepted", "write.refused"], noted = (e) => e.ev === "note" && /^reads /.test(e.text);
    if (!recording.events.some(noted))
        return null;
    const steps = recording.events.filter((e) => noted(e) || writes.includes(e.ev)).slice(0, STEPS);
    return h("div", {class: "steps"}, h("h3", {}, "The first steps"), h("ol", {}, ...steps.map((e) =>
        h("li", {}, h("button", {type: "button", class: "link", onclick: () => seek(e.n)}, `${e.who} ${describe(e)}`)))));
}

/* `seek(n)` moves the player. `answer`: what stands before it, `more`: and behind it. */
export function drawVerdict(element, recording, seek, answer, ...more) {
    const v = recording.verdict, means = outcomes[v.outcome] || {text: v.outcome, good: false};
    const wrong = v.outcome === "reproduced" || v.outcome === "violated";
    const evidence = v.evidence.slice(0, 12).map((n) => {
        const e = recording.events[n - 1];
        return h("button", {type: "button", class: "link", "data-n": n, title: e ? describeWhole(e) : "", onclick: () => seek(n)}, `event ${n}`);
    });
    element.dataset.outcome = v.outcome;
    element.className = `card verdict ${wrong || !means.good ? "wrong" : "right"}`;
    const parts = [
        answer, h("h2", {}, `${means.text}.`), h("p", {}, v.sentence), counts(v) ? h("p", {class: "soft"}, counts(v)) : null,
        evidence.length > 0 ? h("p", {class: "evidence"}, "Evidence: ", ...evidence) : null, ...more];
    element.replaceChildren(...parts.filter(Boolean));
}

export function clearVerdict(element) {
    delete element.dataset.outcome;
    element.className = "";
    element.replaceChildren();
}
