/* The server's API. What fails is an error with a title and a detail for people. */

export class Problem extends Error {
    constructor(status, title, detail) {
        super(detail ? `${title}. ${detail}` : title);
        this.status = status; /* 0: there was no answer */
    }
}

let token = "";

async function call(path, options) {
    let response;
    try {
        response = await fetch(path, options);
    } catch {
        throw new Problem(0, "The lab does not answer", "Is it still running? The page goes on when it is back.");
    }
    if (response.ok)
        return response;
    const problem = await response.json().catch(() => ({}));
    throw new Problem(response.status, problem.title || `The lab answers ${response.status}`, problem.detail);
}

const send = (path, body) => call(path, {
    method: "POST",
    headers: {"Content-Type": "application/json", "X-Lab-Token": token},
    body: JSON.stringify(body),
});

/* A lab that was started anew has another token: it is asked for once. */
async function post(path, body) {
    try {
        return await send(path, body);
    } catch (error) {
        if (error.status !== 403)
            throw error;
        await getLab();
        return send(path, body);
    }
}

/* What can be played, and the newest run. */
export async function getLab() {
    const lab = await (await call("/api/lab")).json();
    token = lab.token;
    return lab;
}

export const beginRun = async (order) => (await post("/api/runs", order)).json();
export const breakRun = (run, fault, target) => post(`/api/runs/${run}/faults`, {fault, target});
export const stopRun = (run) => post(`/api/runs/${run}/stop`, {});
export const makeReport = async (recordings) => (await post("/api/report", {recordings})).blob();
